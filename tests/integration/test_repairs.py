"""A node is lost: the policy repairs within its limits, and harep what tags allow, run after run.

harep shows what Debian's shows.
"""

import re
from collections.abc import Iterator

import pytest

from ganeti_htools.model.tags import MAINTENANCE
from tests.integration.cluster import (
    ADD,
    MASTER,
    SMALL,
    TOP,
    carry_out,
    jobs,
    luxi,
    nodes_of,
    run,
    start,
    switch_off,
    switch_on,
    table,
    wait_until,
)
from tests.integration.daemon import Daemon
from tests.integration.test_policies import considered, decided, decides, states
from tests.support.programs import PROGRAMS
from tests.support.simulators import ask

pytestmark = pytest.mark.integration

LOST = "node2"
PREFIX = "ganeti:watcher:autorepair:"
OWN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9]{10}\b")  # ids and times
INSTANCES = {
    "rep-mirrored": ("drbd", f"{LOST}:node3", "failover"),
    "rep-stopped": ("plain", LOST, "reinstall"),
    "rep-running": ("plain", LOST, "reinstall"),
    "rep-suspended": ("plain", LOST, "suspend"),
}
POLICY = ("policy-one", "policy-two")  # mirrored; tagged in the policy's test only
HALVED = ("half-tied", "half-free")  # have lost their secondary; rules forbid the first another one


@pytest.fixture(scope="module")
def lost() -> Iterator[None]:
    """Instances with tags, of which each has lost its primary."""
    commands = []
    for name, (template, nodes, tag) in INSTANCES.items():
        more = ["--no-start"] if name == "rep-stopped" else []
        tags = f"--tags={PREFIX}{tag}"
        commands.append([*ADD, *SMALL, "-t", template, "-s", "1G", "-n", nodes, *more, tags, name])
    mirrored = "-t", "drbd", "-s", "1G", "-n", f"{LOST}:node3"
    commands += [[*ADD, *SMALL, *mirrored, name] for name in POLICY]
    commands += [[*ADD, *SMALL, "-t", "drbd", "-s", "1G", "-n", f"node3:{LOST}", name] for name in HALVED]
    before = volumes()
    # While the mirrored instance has one node only, N+1 would refuse every new place.
    run(["gnt-cluster", "modify", "--default-iallocator-params=no-capacity-checks="])
    run(*commands)
    switch_off(LOST)
    run(["gnt-node", "modify", "--offline=yes", "--auto-promote", LOST])
    yield
    names = [name for (name,) in table("gnt-instance", "name") if name in (*INSTANCES, *POLICY, *HALVED)]
    run(*(["gnt-instance", "remove", "-f", "--ignore-failures", name] for name in names))
    switch_on(LOST)
    run(["gnt-node", "modify", "--force", "--offline=no", LOST])
    left = volumes() - before
    run(*(["lvremove", "-f", f"/dev/{name}"] for name in left), node=LOST)


def volumes() -> set[str]:
    """The volumes of the node that is lost."""
    file = TOP / LOST / "volumes"
    return {line.split()[0] for line in file.read_text().splitlines()} if file.exists() else set()


def harep(*options: str) -> str:
    """Repair; once the jobs have ended, what was printed."""
    (out,) = run([PROGRAMS / "harep", *options])
    wait_until(lambda: {job.status for job in jobs()} <= {"success", "error", "canceled"})
    return out


def shown() -> str:
    """What both show of the next step, with our iallocator in place of Debian's."""
    ours = OWN.sub("*", harep("-L", "--dry-run"))
    (theirs,) = run(["/usr/bin/harep", "-L", "--dry-run"])
    assert ours == OWN.sub("*", theirs).replace('"iallocator":"hail"', '"iallocator":"htoolsd"')
    return ours


def tags(name: str) -> list[str]:
    """The records of an instance, without their ids and times."""
    ((cell,),) = table("gnt-instance", "tags", name)
    found = [tag.removeprefix(PREFIX) for tag in cell.split(",")]
    return sorted(OWN.sub("*", tag) for tag in found if tag.startswith(("pending:", "result:")))


def failures(after: int) -> list[tuple[int, str]]:
    """The later jobs that failed, with their results."""
    rows = ask(luxi(), "QueryJobs", [], ["id", "status", "opresult"])
    return [(number, str(result)) for number, status, result in rows if number > after and status == "error"]


def settings(mode: str, moves: int = 1) -> str:
    """The configuration of a policy that makes so many repairs in a day."""
    return (
        f'config_seconds = 1\nlive_seconds = 20\n[repair]\nmode = "{mode}"\ngroups = ["default"]\n'
        f"moves_per_day = {moves}\nexclude_instances = {[*INSTANCES]}\n"
    )


def wait_until_held_back(daemon: Daemon, *reasons: str) -> None:
    """Have the policy consider the group until it skips it for these reasons."""

    def held_back() -> bool:
        decision = considered(daemon)
        return decision["outcome"] == "skipped" and all(each in decision["reason"] for each in reasons)

    wait_until(held_back)


@pytest.mark.slow
@pytest.mark.usefixtures("lost")
def test_policy_fails_over_what_its_budget_allows() -> None:
    """Nothing while it is off, and nothing for a node in maintenance."""
    allowing = {"OP_ID": "OP_TAGS_SET", "kind": "instance", "tags": [f"{PREFIX}failover"]}
    carry_out(*(allowing | {"name": name} for name in POLICY))
    last = jobs()[-1].number
    with Daemon(settings("off")) as daemon:
        before = decided(daemon)
        assert run([PROGRAMS / "htoolsctl", "run", "repair"]) == ["repair is off\n"]
        assert decided(daemon) == before
    run(["gnt-node", "add-tags", LOST, MAINTENANCE])
    with Daemon(settings("act")) as daemon:
        daemon.refresh()
        wait_until_held_back(daemon, *(f"{name}: node {LOST} is in maintenance" for name in POLICY))
        run(["gnt-node", "remove-tags", LOST, MAINTENANCE])
        assert [job.summary for job in jobs(after=last)] == ["TAGS_SET", "TAGS_DEL"]
        last = jobs()[-1].number
        daemon.refresh()
        begun = decides(daemon, "begun")
        wait_until(lambda: states(daemon)[begun["plan"]] == "done")
        (move,) = begun["moves"]
        assert nodes_of(move["instance"]) == move["to"] == ["node3", LOST]
        assert tags(move["instance"]) == ["result:failover:*:*:success:"]
        wait_until_held_back(daemon, "the day's budget is spent")
    work = f"TAGS_SET,INSTANCE_FAILOVER({move['instance']}),TAGS_DEL,TAGS_SET"
    assert [job.summary for job in jobs(after=last)] == [work]
    assert sorted(nodes_of(name)[0] for name in POLICY) == [LOST, "node3"]
    run(*(["gnt-instance", "remove", "-f", "--ignore-failures", name] for name in POLICY))


@pytest.mark.slow
@pytest.mark.usefixtures("lost")
def test_impossible_repair_does_not_hold_others_back() -> None:
    """Ganeti is not even asked for it, and the policy does not pause."""
    tied, free = HALVED
    allowing = {"OP_ID": "OP_TAGS_SET", "kind": "instance", "tags": [f"{PREFIX}fix-storage"]}
    here = [f"htools:node:{name}" for name in ("node3", LOST)]
    carry_out({**allowing, "name": tied, "tags": [*allowing["tags"], *here]}, {**allowing, "name": free})
    last = jobs()[-1].number
    with Daemon(settings("act", moves=9)) as daemon:
        daemon.refresh()
        begun = decides(daemon, "begun")
        assert begun["reason"].startswith(f"fix-storage of {free}, ")
        wait_until(lambda: states(daemon)[begun["plan"]] == "done")
        daemon.refresh()
        wait_until_held_back(daemon, f"{tied}: fix-storage finds no node: ")
    assert [job.summary for job in jobs(after=last)] == [
        f"TAGS_SET,INSTANCE_REPLACE_DISKS({free}),TAGS_DEL,TAGS_SET"
    ]
    assert nodes_of(free)[1] != LOST
    run(*(["gnt-instance", "remove", "-f", "--ignore-failures", name] for name in HALVED))


@pytest.mark.usefixtures("lost")
def test_repairs_after_the_loss_of_a_node() -> None:
    last = jobs()[-1].number
    assert "Executing ArFailover repair on rep-mirrored" in shown()
    assert jobs()[-1].number == last
    assert harep("--job-delay=1").endswith("Pending repair: 3\n")
    assert nodes_of("rep-mirrored") == ["node3", LOST]
    assert nodes_of("rep-stopped") != [LOST]
    assert nodes_of("rep-suspended") == [LOST]
    assert 'Moving rep-running from "Pending repair" to "Failure"' in shown()  # it is marked up
    assert harep("--job-delay=1").endswith("Pending repair: 1\n")
    assert nodes_of("rep-mirrored") == ["node3", MASTER]
    submitted = [job.summary for job in jobs(after=last) if "DELAY" in job.summary]
    assert [summary.partition(",")[2] for summary in submitted] == [
        "INSTANCE_FAILOVER(rep-mirrored)",
        "INSTANCE_RECREATE_DISKS(rep-running),INSTANCE_REINSTALL(rep-running)",
        "INSTANCE_RECREATE_DISKS(rep-stopped),INSTANCE_REINSTALL(rep-stopped)",
        "INSTANCE_REPLACE_DISKS(rep-mirrored)",
    ]
    assert [(number, error) for number, error in failures(last) if "cannot reinstall" not in error] == []
    harep()
    before = jobs()[-1].number
    shown()
    harep()
    assert jobs()[-1].number == before
    records = [tags(name) for name in INSTANCES]
    assert [[re.sub(r":[0-9]+$", "", tag) for tag in each] for each in records] == [
        ["result:fix-storage:*:*:success"],
        ["result:reinstall:*:*:success"],
        ["result:reinstall:*:*:failure"],
        [],
    ]
    conflict = [f"{PREFIX}pending:failover:{name}:1000:5" for name in ("a", "b")]
    run(["gnt-instance", "add-tags", "rep-suspended", *conflict])
    ours, theirs = (start([program, "-L"]) for program in (PROGRAMS / "harep", "/usr/bin/harep"))
    error = "Error: when parsing auto-repair tags: An unfinished repair was found in instance rep-suspended"
    assert error in (printed := ours.communicate()[1])
    assert theirs.communicate()[1] == printed
    assert (ours.returncode, theirs.returncode) == (1, 1)
