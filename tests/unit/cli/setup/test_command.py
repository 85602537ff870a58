"""``htoolsctl setup`` on a machine in memory: there and back, interrupted anywhere, and what it refuses."""

import json
import shlex
from argparse import Namespace
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.cli.ctl import commands
from ganeti_htools.cli.setup import command, observe, steps
from ganeti_htools.cli.setup.steps import STEPS, ClusterSettings, Command, Facts, OtherCandidate
from ganeti_htools.model import tags
from ganeti_htools.model.errors import HtoolsError
from tests.support.schemas import complaint

LINK = f"{steps.DIRECTORIES[0]}/htoolsd"


class Machine:
    """A node, the commands that it has carried out, and the command at which it is interrupted."""

    def __init__(self, leads: bool = True, **found: bool) -> None:
        self.leads = leads
        self.files = {LINK} if found.get("linked") else set[str]()
        self.enabled, self.running = found.get("enabled", False), found.get("running", False)
        self.user = self.without_group = found.get("rooted", False)
        self.booted = found.get("booted", True)
        self.iallocator, self.tags, self.decided = "hail", ["other"], 0
        self.parameters = dict[str, str]()
        self.others: dict[str, OtherCandidate] = {}
        self.done: list[Command] = []
        self.interrupted_at: int | None = None
        self.failing: str = ""
        self.compared, self.witness = False, ""

    def settings(self) -> tuple[object, ...]:
        """What setup makes and gives back."""
        return (
            self.files - {commands.CONFIGURATION},
            self.enabled,
            self.running,
            self.iallocator,
            sorted(self.tags),
        )

    def facts(self) -> Facts:
        cluster = {"master": self.leads, "nodes": 3, "obstacle": None}
        status = {"cluster": cluster, "decisions": {"served": self.decided, "unsatisfied": 0}}
        counts = {"answers": "theirs", "compared": 0, "unexplained": 0, "ready": False, "enough": 100}
        status["witness"] = {"program": self.witness or None, "error": None, **counts}
        unit = {"LoadState": "loaded", "UnitFileState": "enabled" if self.enabled else "disabled"}
        unit["User"] = "root" if steps.DROP_IN in self.files else "htoolsd"
        spec = {"memory-size": 128, "cpu-count": 1, "disk-size": 1024}
        return Facts(
            node="node1",
            master="node1" if self.leads else "node2",
            prefix="/usr",
            executable=LINK if LINK in self.files else "",
            configured=commands.CONFIGURATION in self.files,
            user=self.user,
            group=not self.without_group,
            unit=unit if self.booted else None,
            status=status if self.running else None,
            problem="" if self.running else "no daemon",
            settings=ClusterSettings(
                self.iallocator, tuple(self.tags), ("plain",), spec, "debian", self.parameters
            ),
            others=self.others,
            compared=self.compared,
            made=frozenset(observe.made_here()) | ({"default"} if steps.previous(self.tags) else set()),
        )

    def run(self, words: Command) -> str:
        if len(self.done) == self.interrupted_at:
            raise KeyboardInterrupt
        self.done.append(words)
        if self.failing and self.failing in words:
            raise HtoolsError(f"{words[0]}: failed")
        self.carry_out(words)
        return ""

    def carry_out(self, words: Command) -> None:
        match words:
            case ("ln", "-s", _, directory):
                self.files.add(f"{directory}/htoolsd")
            case ("install", *_, path):
                self.files.add(path)
            case ("rm", "-f", path):
                self.files.discard(path)
            case ("systemd-sysusers", _):
                self.user = True
            case ("systemctl", "enable" | "disable" as verb, _):
                self.enabled = verb == "enable"
            case ("systemctl", "start" | "stop" as verb, _):
                self.running = verb == "start"
            case ("gnt-cluster", "add-tags", tag):
                self.tags.append(tag)
            case ("gnt-cluster", "remove-tags", *gone):
                self.tags = [tag for tag in self.tags if tag not in gone]
            case ("gnt-cluster", "modify", option, *parameters):
                self.iallocator = option.partition("=")[2]
                for text in parameters:
                    pairs = text.removeprefix("--default-iallocator-params=").split(",")
                    self.parameters = dict(word.split("=", 1) for word in filter(None, pairs))
            case ("sed", "-i", _, commands.CONFIGURATION) if words[-1] in self.files:
                self.witness = steps.WITNESS
            case ("gnt-instance", "add", "--dry-run", *_):
                self.decided += 1
            case ("mkdir", *_) | ("systemctl", "daemon-reload") | ("systemctl", "reload", _):
                pass
            case _:
                raise AssertionError(words)


@pytest.fixture(autouse=True)
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "record"
    monkeypatch.setattr(observe, "RECORD", str(path))
    monkeypatch.setattr(command, "_EFFECT", 0.0)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run setup on a machine."""

    def run(machine: Machine, **options: bool) -> int:
        monkeypatch.setattr(observe, "observer", lambda *_args, **_options: machine.facts)
        monkeypatch.setattr(observe, "run", machine.run)
        machine.compared = options.get("witness", False)
        defaults = {"socket": "", "dry_run": False, "yes": True, "remove": False, "json": False}
        defaults |= {"witness": False}
        return command.setup(Namespace(**defaults | options))

    return run


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("found", [*product([True, False], repeat=4)], ids=str)
def test_does_all_once_and_gives_it_back(
    on: Callable[..., int],
    record: Path,
    capsys: pytest.CaptureFixture[str],
    leads: bool,
    found: tuple[bool, ...],
) -> None:
    """A dry run shows the commands."""
    machine = Machine(leads, **dict(zip(("linked", "enabled", "running", "rooted"), found, strict=True)))
    before = machine.settings()
    assert (on(machine, dry_run=True, json=True), machine.done) == (0, [])
    shown = [command for step in json.loads(capsys.readouterr().out)["steps"] for command in step["commands"]]
    assert on(machine) == 0
    assert [shlex.join(words) for words in machine.done] == shown
    assert (machine.enabled, machine.running, machine.user) == (True, True, True)
    assert (machine.iallocator, machine.decided) == (("htoolsd", 1) if leads else ("hail", 0))
    done = [*machine.done]
    assert (on(machine), machine.done) == (0, done)
    assert on(machine, remove=True) == 0
    assert machine.settings() == before
    assert not record.exists()
    done = [*machine.done]
    assert (on(machine, remove=True), machine.done) == (0, done)


def test_names_ganetis_own_hail_if_asked(on: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    """On candidates too, and before htoolsd becomes the iallocator."""
    for leads in (False, True):
        machine = Machine(leads)
        assert (on(machine, dry_run=True), machine.done) == (0, [])
        assert "not yet; htoolsctl setup --witness lets" in capsys.readouterr().out
        assert (on(machine, witness=True), machine.witness) == (0, steps.WITNESS)
        done = [*machine.done]
        assert (on(machine, witness=True), machine.done) == (0, done)
    named = [words[0] for words in done if words[0] == "sed" or words[-1].endswith("iallocator=htoolsd")]
    assert named == ["sed", "gnt-cluster"]


@pytest.mark.parametrize("way", [{}, {"remove": True}], ids=["there", "back"])
def test_can_be_interrupted_anywhere_and_run_again(on: Callable[..., int], way: dict[str, bool]) -> None:
    for number in range(100):
        machine = Machine(rooted=True)
        before = machine.settings()
        if way:
            on(machine)
        machine.interrupted_at = len(machine.done) + number
        try:
            on(machine, **way)
        except KeyboardInterrupt:
            machine.interrupted_at = None
            assert on(machine, **way) == 0
        else:
            assert number > 5
            return
        if not way:
            assert machine.iallocator == "htoolsd"
            on(machine, remove=True)
        assert machine.settings() == before


def test_only_what_it_made_is_removed(on: Callable[..., int]) -> None:
    """A command that fails has made nothing, whoever does it later."""
    machine = Machine()
    machine.failing = "ln"
    with pytest.raises(HtoolsError, match=r"setup: executable: ln: failed"):
        on(machine)
    machine.files.add(LINK)
    machine.failing = ""
    assert on(machine) == 0
    assert on(machine, remove=True) == 0
    assert LINK in machine.files


def test_iallocator_that_somebody_else_named_keeps_its_daemon(
    on: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine()
    machine.iallocator = "htoolsd"
    assert on(machine) == 0
    assert on(machine, remove=True) == 1
    assert (machine.iallocator, machine.running) == ("htoolsd", True)
    assert "gnt-cluster modify --default-iallocator=hail" in capsys.readouterr().out


def test_parameters_that_ganetis_hail_refuses_go(on: Callable[..., int]) -> None:
    """Ganeti hands a switch over as ``--KEY=``, which is none."""
    machine = Machine()
    assert on(machine) == 0
    machine.parameters = {"inter-group": "", "no-capacity-checks": "", "static-kvm-node-memory": "9"}
    assert on(machine, remove=True) == 0
    assert (machine.iallocator, machine.parameters) == ("hail", {"static-kvm-node-memory": "9"})


def test_candidate_is_not_undone_before_the_cluster(
    on: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine(leads=False)
    assert on(machine) == 0
    machine.iallocator, machine.tags = "htoolsd", [f"{tags.SETUP}hail"]
    assert on(machine, remove=True) == 1
    assert "first on node2: htoolsctl setup --remove" in capsys.readouterr().out
    assert machine.running


def test_remembers_the_latest_iallocator_before(on: Callable[..., int]) -> None:
    machine = Machine()
    machine.iallocator, machine.tags = "own", [f"{tags.SETUP}hail"]
    assert on(machine) == 0
    assert machine.tags == [f"{tags.SETUP}own"]
    assert on(machine, remove=True) == 0
    assert (machine.iallocator, machine.tags) == ("own", [])


def test_cluster_waits_for_candidates_without_executable(
    on: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine()
    machine.others = {
        "node2": OtherCandidate(("executable",)),
        "node3": OtherCandidate(unknown="no answer by ssh"),
    }
    assert on(machine) == 1
    assert machine.iallocator == "hail"
    shown = capsys.readouterr().out
    assert "node2 could not decide after a failover; install htoolsd there first" in shown
    assert "node3: not known (no answer by ssh)" in shown
    machine.others = {"node2": OtherCandidate(("boot",)), "node3": OtherCandidate(unknown="no answer by ssh")}
    assert on(machine) == 1
    assert machine.iallocator == "htoolsd"
    machine.others.pop("node2")
    assert on(machine) == 0


def test_dry_run_that_fails_after_the_decision_is_a_warning(
    on: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine()

    def fail_afterwards(words: Command) -> str:
        machine.carry_out(words)
        if words[0] == "gnt-instance":
            raise HtoolsError("gnt-instance add: no such bridge")
        return ""

    machine.run = fail_afterwards  # type: ignore[method-assign]
    assert on(machine) == 0
    assert (
        capsys.readouterr().err == "htoolsctl: setup: decision: done, but gnt-instance add: no such bridge\n"
    )


@pytest.mark.parametrize("step", [step for step in STEPS if step.name in ("daemon", "decision", "boot")])
def test_command_without_effect_is_an_error(on: Callable[..., int], step: steps.SetupStep) -> None:
    machine = Machine()
    last = {"daemon": "start", "decision": "gnt-instance", "boot": "enable"}[step.name]

    def nothing(words: Command) -> str:
        if last not in words:
            machine.carry_out(words)
        return ""

    machine.run = nothing  # type: ignore[method-assign]
    with pytest.raises(HtoolsError, match=f"setup: {step.name}: (no daemon|{step.failure})"):
        on(machine)


@pytest.mark.parametrize(("typed", "done"), [("y\n", True), ("yes\ny\n", True), ("n\n", False), ("", False)])
def test_asks_before_each_step(
    on: Callable[..., int], monkeypatch: pytest.MonkeyPatch, typed: str, done: bool
) -> None:
    class Terminal:
        lines = iter([*typed.splitlines(keepends=True), *[""] * 9])

        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            return next(self.lines)

    machine = Machine()
    monkeypatch.setattr("sys.stdin", Terminal())
    with pytest.raises(HtoolsError, match="setup: stopped; what was done stays"):
        on(machine, yes=False)
    assert (LINK in machine.files) == done


def test_without_systemd_the_daemon_is_started_by_hand(
    on: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine(linked=True, booted=False)
    assert (on(machine), machine.done) == (1, [])
    assert capsys.readouterr().out.endswith("by hand: daemon, default, decision\n")
    machine.running = True
    assert on(machine) == 0
    assert (machine.iallocator, machine.decided) == ("htoolsd", 1)


def test_asks_nobody_without_terminal(on: Callable[..., int]) -> None:
    machine = Machine()
    with pytest.raises(HtoolsError, match="setup: no terminal to ask on"):
        on(machine, yes=False)
    assert machine.done == []


def test_prints_steps_as_json(on: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    machine = Machine()
    on(machine, dry_run=True, json=True)
    document: Any = json.loads(capsys.readouterr().out)
    assert complaint("htoolsctl-setup", document) is None
    assert [step["name"] for step in document["steps"]] == [step.name for step in STEPS]
    assert document["steps"][0]["commands"][0] == "mkdir -p /usr/local/lib/ganeti/iallocators"


def test_needs_root(on: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(HtoolsError, match="expected root"):
        on(Machine(), dry_run=True)
