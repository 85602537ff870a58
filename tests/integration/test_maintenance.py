"""A node emptied for maintenance on a real Ganeti, started anew, and refilled: three commands."""

import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from ganeti_htools.model.tags import MAINTENANCE
from tests.integration import cluster
from tests.integration.cluster import ADD, SMALL, refusal, run, start, succeed, switch_off, switch_on, table
from tests.support.interposed import Interposed, Moment
from tests.support.programs import PROGRAMS
from tests.support.simulators import ask

pytestmark = pytest.mark.integration

HMAINTAIN = PROGRAMS / "hmaintain"
MIRRORED = "-t", "drbd", "--disk", "0:size=1G"
PLACES = {"mirror": ("node2", "node3"), "mirrored": ("node3", "node2"), "pool": ("node2", "")}
TAGS = {"mirror": "htools:together:pair", "mirrored": "", "pool": "htools:together:pair"}


@pytest.fixture(scope="module", autouse=True)
def instances() -> Iterator[None]:
    """Primary and secondary of mirrored instances on node2, and one on shared storage. Two stay together."""
    shared = "-t", "sharedfile", "--disk", "0:size=1G"
    commands = list[list[str]]()
    for name, there in PLACES.items():
        where, tags = ("-n", ":".join(filter(None, there))), ("--tags", TAGS[name]) if TAGS[name] else ()
        commands.append([*ADD, *SMALL, *(MIRRORED if there[1] else shared), *where, *tags, name])
    succeed(*commands)
    yield
    run(["gnt-instance", "remove", "-f", "mirror"], ["gnt-instance", "remove", "-f", "mirrored"])
    run(["gnt-instance", "remove", "-f", "pool"])


def names() -> set[str]:
    return {name for (name,) in table("gnt-instance", "name")}


def places() -> dict[str, tuple[str, str]]:
    rows = table("gnt-instance", "name,pnode,snodes,status")
    ours = {name: (pnode, snode, status) for name, pnode, snode, status in rows if name in PLACES}
    assert {status for *_, status in ours.values()} == {"running"}
    return {name: there[:2] for name, there in ours.items()}


def tags_of_instances() -> dict[str, str]:
    """The tags of the instances, with commas between them."""
    return dict(table("gnt-instance", "name,tags", *PLACES))


def facts() -> list[str]:
    ((drained, tags),) = table("gnt-node", "drained,tags", "node2")
    return [drained, *filter(None, tags.split(","))]


def maintain(*words: str) -> str:
    (out,) = run([HMAINTAIN, *words, "-L", "-X"])
    return out


@pytest.mark.parametrize("empty", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_node_is_emptied_started_anew_and_refilled(empty: bool) -> None:
    """In between nothing can be moved there. The end waits for the node's daemon.

    While that is silent, an instance can be created if the node is offline.
    """
    maintain("start", "node2", "--no-capacity-checks", "--empty" if empty else "--set-offline")
    left = {name for name, there in places().items() if "node2" in there}
    assert left == (set() if empty else {"mirror", "mirrored"})
    drained, *tags = facts()
    assert (drained, tags[0]) == ("Y" if empty else "N", MAINTENANCE)
    standing = "drained" if empty else "offline"
    assert standing in refusal(["gnt-instance", "migrate", "-f", "-n", "node2", "pool"])
    switch_off("node2")
    if not empty:
        run([*ADD, *SMALL, *MIRRORED, "new"])
        run(["gnt-instance", "remove", "-f", "new"])
    waiting = start([HMAINTAIN, "end", "node2", "-L", "-X"])
    switch_on("node2")
    end(waiting)
    assert places() == PLACES
    assert facts() == ["N"]
    assert tags_of_instances() == TAGS


@pytest.mark.parametrize("closed", [["--drained=yes"], []])
def test_evacuation_names_the_secondary_that_takes_no_instances(closed: list[str]) -> None:
    """It is drained, or in maintenance: Ganeti would move the instance there, or refuse the job."""
    modify = ["gnt-node", "modify", *closed, "node3"] if closed else ["gnt-node", "add-tags", "node3"]
    run(modify if closed else [*modify, MAINTENANCE])
    try:
        why = refusal(["gnt-node", "evacuate", "-f", "-p", *cluster.EXECUTABLE, "node2"])
        (status,) = run([HMAINTAIN, "status", "-L"])
    finally:
        undo = ["modify", "--drained=no", "node3"] if closed else ["remove-tags", "node3", MAINTENANCE]
        run(["gnt-node", *undo])
    assert "its secondary node3 takes no instances" in why
    assert "Without node2 not all instances would come back now" in status
    assert places() == PLACES


class After(Interposed):
    """Stops answering when so many jobs have ended."""

    def __init__(self, count: int) -> None:
        super().__init__(cluster.TOP / "interposed", cluster.luxi(), Moment.ENDED)
        self._count = count

    def _ended(self) -> bool:
        return len(self._submitted) >= self._count and super()._ended()


def cut_off(action: str, count: int) -> bool:
    """Kill the tool when so many of its jobs have ended; whether there were as many."""
    with After(count) as luxi:
        words = action, "node2", "--take-over", "--no-capacity-checks"
        process = start([HMAINTAIN, *words, f"-L{luxi.path}", "-X"])
        cluster.wait_until(lambda: luxi.reached.is_set() or process.poll() is not None)
        process.kill()
        out, err = process.communicate()
        assert luxi.reached.is_set() or process.returncode == 0, (out, err)
        return luxi.reached.is_set()


@pytest.mark.slow
def test_next_run_goes_on_with_a_killed_one() -> None:
    """And is killed two jobs later, until one has nothing to do any more."""
    for action in ("start", "end"):
        count = 1
        while cut_off(action, count):
            count += 2
        assert count >= 3
        if action == "start":
            assert {name for name, (node, _) in places().items() if node == "node2"} == set()
            assert facts()[:2] == ["Y", MAINTENANCE]
    assert places() == PLACES
    assert facts() == ["N"]


def end(process: subprocess.Popen[str]) -> None:
    """Wait for the success of a program."""
    out, err = process.communicate(timeout=cluster.PATIENCE)
    assert process.returncode == 0, (out, err)


class Roll:
    """A roll on a master. It waits while a batch is empty, until it is told to go on."""

    def __init__(self, master: str, *words: str) -> None:
        self._master = master
        common = "-L", "-X", "--pause", "--set-offline"
        self.process = start([HMAINTAIN, "roll", *common, *words], master)
        self.batches = list[list[str]]()

    def next_batch(self) -> list[str]:
        """Return the nodes that are empty now, none once the roll has ended."""
        assert self.process.stderr is not None
        told = next((line for line in self.process.stderr if "to go on" in line), None)
        if told is None:
            end(self.process)
            return []
        return told.partition(":")[0].split(", ")

    def create(self, batch: list[str]) -> None:
        """Create an instance while the nodes are off; it comes to other nodes."""
        name = f"by-{self._master}-{batch[0]}"
        for node in batch:
            switch_off(node)
        run([*ADD, *SMALL, *MIRRORED, name], node=self._master)
        rows = ask(cluster.luxi(self._master), "QueryInstances", [], ["name", "pnode", "snodes"], False)
        assert not {node for _, node, _ in rows} & {*batch}
        assert not {node for other, _, nodes in rows if other == name for node in nodes} & {*batch}
        for node in batch:
            switch_on(node)

    def go_on(self, batch: list[str]) -> list[str]:
        """End the maintenance of a batch; return the next one. Meanwhile create instances, one by one."""
        add = " ".join([*ADD, *SMALL, *MIRRORED])
        loop = f"for number in 1 2 3; do {add} after-{self._master}-{batch[0]}-$number; done"
        creations = start(["sh", "-ec", loop], self._master)
        self.process.send_signal(signal.SIGUSR1)
        following = self.next_batch()
        end(creations)
        return following


@pytest.mark.slow
def test_roll_is_not_taken_over_while_it_is_at_work() -> None:
    first = Roll("node1", "node4")
    batch = first.next_batch()
    again = [HMAINTAIN, "roll", "node4", "-L", "-X", "--command=true", "--take-over"]
    assert f"is still at work there (process {first.process.pid})" in refusal(again)
    assert table("gnt-node", "offline", *batch) == [["Y"]]
    first.process.terminate()
    _, err = first.process.communicate(timeout=cluster.PATIENCE)
    assert "The roll stops at node4: the same command goes on there" in err
    assert ":run:" not in table("gnt-node", "tags", "node4")[0][0]
    run(again[:-1])
    assert table("gnt-node", "tags,offline,drained", "node4") == [["", "N", "N"]]


Steps = dict[tuple[int, int], tuple[dict[str, Any], Any, list[int], list[int]]]


def steps(master: str, after: int) -> Steps:
    """The opcodes of later jobs that a master knows, with results, beginnings and ends, by job and place.

    A node that was offline lacks the jobs of that time.
    """
    rows = ask(cluster.luxi(master), "QueryJobs", [], ["id", "ops", "opresult", "opexec", "opend"])
    return {
        (number, place): step
        for number, *job in rows
        if number > after
        for place, step in enumerate(zip(*job, strict=True))
    }


def places_of_new(found: Steps) -> dict[str, tuple[list[str], list[str]]]:
    """The nodes of each new instance, and the nodes that were in maintenance when Ganeti chose them."""
    changes = sorted(
        (began if opcode["OP_ID"] == "OP_TAGS_DEL" else ended, opcode["OP_ID"], opcode["name"])
        for opcode, _, began, ended in found.values()
        if MAINTENANCE in opcode.get("tags", ())
    )
    new = dict[str, tuple[list[str], list[str]]]()
    for opcode, nodes, chosen, _ in found.values():
        if opcode["OP_ID"] == "OP_INSTANCE_CREATE":
            last = {name: change for time, change, name in changes if time <= chosen}
            new[opcode["instance_name"]] = nodes, [name for name in last if last[name] == "OP_TAGS_SET"]
    return new


@pytest.fixture
def sixth_node() -> Iterator[None]:
    """Six nodes, three in each group."""
    with cluster.with_spare("other"):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("sixth_node")
def test_roll_of_six_nodes_goes_on_under_another_master() -> None:
    """It is killed at its second batch. It comes to all nodes, also to the one that was the master.

    Instances are created all the time.
    """
    before, last = names(), cluster.jobs()[-1].number
    first = Roll("node1")
    done = {*(batch := first.next_batch())}
    first.create(batch)
    begun, master = first.go_on(batch), batch[0]
    first.process.kill()
    first.process.communicate()
    try:
        second = Roll(master, "--take-over", "--master-failover")
        batch = second.next_batch()
        assert batch == begun
        while batch:
            second.create(batch)
            done |= {*batch}
            batch = second.go_on(batch)
        found = steps(master, last)
    finally:
        run(["gnt-cluster", "master-failover"], node="node1")
    new = places_of_new(found | steps("node1", last))
    assert not [name for name, (nodes, maintained) in new.items() if {*nodes} & {*maintained}]
    assert any(maintained for _, maintained in new.values())
    assert done == {*cluster.GROUPS, cluster.SPARE}
    assert places() == PLACES
    assert not any(tags for (tags,) in table("gnt-node", "tags"))
    assert {drained for (drained,) in table("gnt-node", "drained")} == {"N"}
    assert {*new} == names() - before
    cluster.remove(*names() - {*PLACES})
