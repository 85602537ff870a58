"""A node is lost: harep shows what Debian's shows, and repairs what tags allow, run after run."""

import re
from collections.abc import Iterator

import pytest

from tests.integration.cluster import (
    ADD,
    MASTER,
    SMALL,
    TOP,
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


@pytest.fixture
def lost() -> Iterator[None]:
    """Instances with tags, of which each has lost its primary."""
    commands = []
    for name, (template, nodes, tag) in INSTANCES.items():
        more = ["--no-start"] if name == "rep-stopped" else []
        tags = f"--tags={PREFIX}{tag}"
        commands.append([*ADD, *SMALL, "-t", template, "-s", "1G", "-n", nodes, *more, tags, name])
    before = volumes()
    # While the mirrored instance has one node only, N+1 would refuse every new place.
    run(["gnt-cluster", "modify", "--default-iallocator-params=no-capacity-checks="])
    run(*commands)
    switch_off(LOST)
    run(["gnt-node", "modify", "--offline=yes", "--auto-promote", LOST])
    yield
    run(*(["gnt-instance", "remove", "-f", "--ignore-failures", name] for name in INSTANCES))
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
