"""The steps of ``htoolsctl setup`` (``docs/install.md``) as data, and their judgement: no I/O."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from ganeti_htools.cli.ctl.commands import CONFIGURATION
from ganeti_htools.cli.ctl.witness import summary
from ganeti_htools.commandline.option import Takes
from ganeti_htools.commandline.programs import HAIL
from ganeti_htools.model import tags
from ganeti_htools.witness.program import GANETIS_HAIL

IALLOCATOR = "htoolsd"  # the executable, the unit and the user
DIRECTORIES = ("/usr/local/lib/ganeti/iallocators", "/usr/lib/ganeti/iallocators")  # searched by Ganeti
WITNESS = GANETIS_HAIL
DROP_IN = "/etc/systemd/system/htoolsd.service.d/as-root.conf"
GROUP = "gnt-daemons"  # of Ganeti's packages; its members may use luxid's socket
_NO_TEST = frozenset(("ext", "blockdev"))  # disk templates that need more than a size

Command = tuple[str, ...]
Work = Sequence[Command] | str  # commands, or what to do by hand


class OtherCandidate(NamedTuple):
    """Another master candidate: the steps that it lacks, or why they are unknown."""

    missing: tuple[str, ...] = ()
    unknown: str = ""


class ClusterSettings(NamedTuple):
    """Settings in Ganeti's configuration, which master candidates have.

    ``spec`` is the standard instance of the instance policy; ``system`` an operating system; ``parameters``
    are those of all iallocators.
    """

    iallocator: str
    tags: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    spec: Mapping[str, int] = {}
    system: str = ""
    parameters: Mapping[str, str] = {}


class Facts(NamedTuple):
    """Known facts about a node and its cluster.

    * ``node``, ``master``: names.
    * ``prefix``: prefix of the installation; empty in a checkout.
    * ``executable``: path of the iallocator that Ganeti finds; empty without one.
    * ``unit``: systemd's properties of the unit; None where systemd does not run.
    * ``status``: the daemon's answer; None without one, and ``problem`` says why.
    * ``settings``: None on nodes that are no master candidates.
    * ``others``: the other master candidates; known on the master only.
    * ``compared``: the witness is asked for.
    * ``made``: names of the steps that setup has done here and not undone.
    """

    node: str
    master: str
    prefix: str = ""
    executable: str = ""
    configured: bool = False
    user: bool = False
    group: bool = False
    unit: Mapping[str, str] | None = None
    status: Mapping[str, Any] | None = None
    problem: str = ""
    settings: ClusterSettings | None = None
    others: Mapping[str, OtherCandidate] = {}
    compared: bool = False
    made: frozenset[str] = frozenset()


class StepState(StrEnum):
    """The state of a step. Nothing is done about steps by hand, and those for elsewhere."""

    DONE = "done"
    MISSING = "to do"
    BY_HAND = "by hand"
    ELSEWHERE = "not here"


class SetupStep(NamedTuple):
    """A step: its aim, and functions of the facts.

    ``elsewhere`` returns why the step does not concern this node, else an empty text. ``note`` adds to the
    aim. A step without ``undo`` is not undone. ``recorded``: setup notes on this node that it did the step.
    ``failure`` is the error if the commands succeed and the step is not done.
    """

    name: str
    aim: str
    done: Callable[[Facts], bool]
    do: Callable[[Facts], Work]
    undo: Callable[[Facts], Work] | None = None
    elsewhere: Callable[[Facts], str] = lambda _facts: ""
    note: Callable[[Facts], str] = lambda _facts: ""
    recorded: bool = False
    failure: str = "the commands had no effect"


class JudgedStep(NamedTuple):
    """A step as judged: what the user reads, and the commands that are missing."""

    name: str
    state: StepState
    text: str
    commands: tuple[Command, ...] = ()


def judge(step: SetupStep, facts: Facts) -> JudgedStep:
    text = ": ".join(filter(None, (step.aim, step.note(facts))))
    if reason := step.elsewhere(facts):
        return JudgedStep(step.name, StepState.ELSEWHERE, f"{step.aim}: {reason}")
    if step.done(facts):
        return JudgedStep(step.name, StepState.DONE, text)
    work = step.do(facts)
    if isinstance(work, str):
        return JudgedStep(step.name, StepState.BY_HAND, f"{step.aim}: {work}")
    return JudgedStep(step.name, StepState.MISSING, text, tuple(work))


def removals(steps: Iterable[SetupStep]) -> list[SetupStep]:
    """Return the steps that undo steps, the last one first; they do what setup has made only."""
    return [_removal(step, step.undo) for step in steps if step.undo][::-1]


def _removal(step: SetupStep, undo: Callable[[Facts], Work]) -> SetupStep:
    def do(facts: Facts) -> Work:
        used = facts.settings is not None and facts.settings.iallocator == IALLOCATOR
        return _change_first(facts) if used and step.recorded else undo(facts)

    return SetupStep(
        step.name,
        f"undo: {step.aim}",
        lambda facts: step.name not in facts.made,
        do,
        elsewhere=lambda facts: step.elsewhere(facts) if step.name in facts.made else "",
        note=lambda facts: "" if step.name in facts.made else "nothing is left of setup",
        recorded=step.recorded,
    )


def _change_first(facts: Facts) -> str:
    if "default" in facts.made:
        return f"the cluster still uses it; first on {facts.master}: htoolsctl setup --remove"
    command = " ".join(_name_back("hail", facts.settings.parameters if facts.settings else {}))
    return f"the cluster still uses it, and setup did not name it; first on {facts.master}: {command}"


def _name_back(iallocator: str, parameters: Mapping[str, str]) -> Command:
    """Return the command that names another iallocator, and drops parameters that Ganeti's hail refuses.

    Ganeti hands over each with a value, so switches go too.
    """
    known = {option.long for option in HAIL.options if option.takes is not Takes.NOTHING}
    kept = {key: text for key, text in parameters.items() if key in known}
    option = "--default-iallocator-params=" + ",".join(f"{key}={text}" for key, text in kept.items())
    command = ("gnt-cluster", "modify", f"--default-iallocator={iallocator}")
    return command if kept == parameters else (*command, option)


def previous(cluster_tags: Iterable[str]) -> list[str]:
    """Return the default iallocators that setup has replaced; one, or none."""
    return [tag.removeprefix(tags.SETUP) for tag in cluster_tags if tag.startswith(tags.SETUP)]


def describe_candidates(others: Mapping[str, OtherCandidate]) -> str:
    """Describe the master candidates that lack something or are unknown."""
    return "; ".join(
        f"{node}: {f'not known ({other.unknown})' if other.unknown else 'lacks ' + ', '.join(other.missing)}"
        for node, other in sorted(others.items())
        if other.unknown or other.missing
    )


def _without_systemd(facts: Facts) -> str:
    return "" if facts.unit is not None else "systemd does not run here"


def _not_master(facts: Facts) -> str:
    return "" if facts.node == facts.master else f"on the master, {facts.master}"


def _from(facts: Facts, commands: Sequence[Command]) -> Work:
    """Return commands that need the installed files, or what to do where there are none."""
    return commands if facts.prefix else "nothing is installed here; type in the checkout: make install"


def _link(facts: Facts) -> Work:
    directory, file = DIRECTORIES[0], f"lib/ganeti/iallocators/{IALLOCATOR}"
    return _from(facts, [("mkdir", "-p", directory), ("ln", "-s", f"{facts.prefix}/{file}", directory)])


def _configure(facts: Facts) -> Work:
    return _from(
        facts, [("install", "-m", "644", f"{facts.prefix}/share/htoolsd/htoolsd.toml", CONFIGURATION)]
    )


def _add_user(facts: Facts) -> Work:
    return _from(facts, [("systemd-sysusers", f"{facts.prefix}/lib/sysusers.d/htoolsd.conf")])


def _run_as_root(facts: Facts) -> Work:
    file = f"{facts.prefix}/share/htoolsd/as-root.conf"
    return _from(facts, [("install", "-D", "-m", "644", file, DROP_IN), ("systemctl", "daemon-reload")])


def _enable(facts: Facts) -> Work:
    loaded = facts.unit is not None and facts.unit.get("LoadState") == "loaded"
    unit = IALLOCATOR if loaded else f"{facts.prefix}/lib/systemd/system/{IALLOCATOR}.service"
    commands = [("systemctl", "daemon-reload"), ("systemctl", "enable", unit)]
    return commands if loaded else _from(facts, commands)


def _enabled(facts: Facts) -> bool:
    unit = facts.unit or {}
    return unit.get("UnitFileState") == "enabled" and unit.get("NeedDaemonReload") != "yes"


def _start(facts: Facts) -> Work:
    if facts.unit is None:
        return f"systemd does not run here; have it started at boot: htoolsd --config {CONFIGURATION} --stay"
    return [("systemctl", "start", IALLOCATOR)]


def _without_daemon(facts: Facts) -> str:
    """Return that the daemon does not answer, where setup cannot start it."""
    return "the daemon does not answer" if facts.status is None and facts.unit is None else ""


def _runs(facts: Facts) -> bool:
    """Whether the daemon answers, and on the master knows the cluster."""
    if facts.status is None:
        return False
    known = facts.status["cluster"]
    return facts.node != facts.master or (known["master"] is True and known["nodes"] is not None)


def _obstacle(facts: Facts) -> str:
    if _runs(facts):
        return ""
    if facts.status is None:
        return facts.problem
    return str(
        facts.status["luxi"]["error"] or facts.status["cluster"]["obstacle"] or "Ganeti has not answered yet"
    )


def _name_iallocator(facts: Facts) -> Work:
    lacking = sorted(name for name, other in facts.others.items() if "executable" in other.missing)
    if lacking:
        return f"{', '.join(lacking)} could not decide after a failover; install htoolsd there first"
    if problem := _without_daemon(facts):
        return problem
    assert facts.settings is not None
    tag, made = f"{tags.SETUP}{facts.settings.iallocator}", previous(facts.settings.tags)
    old = [f"{tags.SETUP}{name}" for name in made if f"{tags.SETUP}{name}" != tag]
    return [
        *([("gnt-cluster", "remove-tags", *old)] if old else []),
        *([("gnt-cluster", "add-tags", tag)] if tag not in facts.settings.tags else []),
        ("gnt-cluster", "modify", f"--default-iallocator={IALLOCATOR}"),
    ]


def _give_back(facts: Facts) -> Work:
    assert facts.settings is not None
    names = previous(facts.settings.tags)
    used = facts.settings.iallocator == IALLOCATOR
    return [
        *([_name_back(names[0], facts.settings.parameters)] if used else []),
        ("gnt-cluster", "remove-tags", *(f"{tags.SETUP}{name}" for name in names)),
    ]


def _decide(facts: Facts) -> Work:
    if problem := _without_daemon(facts):
        return problem
    assert facts.settings is not None
    spec = facts.settings.spec
    template = next((name for name in facts.settings.templates if name not in _NO_TEST), None)
    if template is None or not spec.keys() >= {"memory-size", "cpu-count", "disk-size"}:
        return f"type a dry run of your own: gnt-instance add --dry-run -I {IALLOCATOR} ..."
    disk = () if template == "diskless" else ("--disk", f"0:size={spec['disk-size']}m")
    return [
        (
            *("gnt-instance", "add", "--dry-run", "-I", IALLOCATOR, "-o", facts.settings.system or "OS"),
            *("-t", template, *disk, "-B", f"memory={spec['memory-size']}m,vcpus={spec['cpu-count']}"),
            *("--no-nics", "--no-start", "--no-install", "--no-name-check", "--no-ip-check"),
            *("--ignore-ipolicy", "htoolsd-setup-test"),
        )
    ]


def decisions(facts: Facts) -> int:
    """Return the number of requests that the daemon has decided since its start."""
    known = facts.status["decisions"] if facts.status else {"served": 0, "unsatisfied": 0}
    return int(known["served"] + known["unsatisfied"])


def _witness(facts: Facts) -> Mapping[str, Any]:
    """Return the daemon's record of Ganeti's own iallocator; empty without one."""
    known = (facts.status or {}).get("witness")
    return known if known and known["program"] else {}


def _without_witness(facts: Facts) -> str:
    way = "not yet; htoolsctl setup --witness lets Ganeti's own hail answer first (docs/witness.md)"
    return "" if facts.compared or _witness(facts) else way


def _name_witness(facts: Facts) -> Work:
    if facts.unit is None:
        return f'write program = "{GANETIS_HAIL}" below [witness] in {CONFIGURATION}, and reload the daemon'
    script = rf"""/^\[witness\]/,/^\[/ s|^# program = .*|program = "{GANETIS_HAIL}"|"""
    return [("sed", "-i", script, CONFIGURATION), ("systemctl", "reload", IALLOCATOR)]


STEPS = (
    SetupStep(
        "executable",
        "Ganeti finds the iallocator htoolsd",
        lambda facts: bool(facts.executable),
        _link,
        lambda _facts: [("rm", "-f", f"{DIRECTORIES[0]}/{IALLOCATOR}")],
        recorded=True,
        note=lambda facts: facts.executable,
    ),
    SetupStep(
        "configuration",
        f"{CONFIGURATION} exists",
        lambda facts: facts.configured,
        _configure,
        elsewhere=_without_systemd,
    ),
    SetupStep(
        "user", "the daemon has a user", lambda facts: facts.user, _add_user, elsewhere=_without_systemd
    ),
    SetupStep(
        "boot",
        "the daemon starts at boot",
        _enabled,
        _enable,
        lambda _facts: [("systemctl", "disable", IALLOCATOR)],
        recorded=True,
        elsewhere=_without_systemd,
    ),
    SetupStep(
        "rights",
        "the daemon may ask luxid",
        lambda facts: facts.group or (facts.unit or {}).get("User") == "root",
        _run_as_root,
        lambda _facts: [("rm", "-f", DROP_IN), ("systemctl", "daemon-reload")],
        recorded=True,
        elsewhere=_without_systemd,
        note=lambda facts: "" if facts.group else f"as root, because there is no group {GROUP}",
    ),
    SetupStep(
        "daemon",
        "the daemon runs, and on the master knows the cluster",
        _runs,
        _start,
        lambda _facts: [("systemctl", "stop", IALLOCATOR)],
        recorded=True,
        note=_obstacle,
    ),
    SetupStep(
        "candidates",
        "no other master candidate is known to lack anything",
        lambda facts: not any(other.missing for other in facts.others.values()),
        lambda facts: f"{describe_candidates(facts.others)}; type there: htoolsctl setup",
        elsewhere=_not_master,
        note=lambda facts: describe_candidates(facts.others),
    ),
    SetupStep(
        "witness",
        "decisions are compared with Ganeti's own iallocator",
        lambda facts: bool(_witness(facts)),
        _name_witness,
        elsewhere=_without_witness,
        note=lambda facts: summary(_witness(facts)) if _witness(facts) else "",
        failure=f"expected the line '# program = \"\"' below [witness] in {CONFIGURATION}",
    ),
    SetupStep(
        "default",
        "the default iallocator of the cluster is htoolsd",
        lambda facts: facts.settings is not None and facts.settings.iallocator == IALLOCATOR,
        _name_iallocator,
        _give_back,
        elsewhere=_not_master,
    ),
    SetupStep(
        "decision",
        "Ganeti has a decision from the daemon",
        lambda facts: decisions(facts) > 0,
        _decide,
        elsewhere=_not_master,
        failure="decided without the daemon; journalctl -t htoolsd shows why",
    ),
)
