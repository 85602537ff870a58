"""A node emptied for maintenance on a real Ganeti, started anew, and refilled: three commands."""

import signal
from collections.abc import Iterator

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


@pytest.fixture(scope="module", autouse=True)
def instances() -> Iterator[None]:
    """Primary and secondary of mirrored instances on node2, and one on shared storage."""
    shared = "-t", "sharedfile", "--disk", "0:size=1G"
    succeed(
        *(
            [*ADD, *SMALL, *(MIRRORED if there[1] else shared), "-n", ":".join(filter(None, there)), name]
            for name, there in PLACES.items()
        )
    )
    yield
    run(["gnt-instance", "remove", "-f", "mirror"], ["gnt-instance", "remove", "-f", "mirrored"])
    run(["gnt-instance", "remove", "-f", "pool"])


def places() -> dict[str, tuple[str, str]]:
    rows = table("gnt-instance", "name,pnode,snodes,status")
    ours = {name: (pnode, snode, status) for name, pnode, snode, status in rows if name in PLACES}
    assert {status for *_, status in ours.values()} == {"running"}
    return {name: there[:2] for name, there in ours.items()}


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
    out, err = waiting.communicate(timeout=cluster.PATIENCE)
    assert waiting.returncode == 0, (out, err)
    assert places() == PLACES
    assert facts() == ["N"]
    assert not any(tags for (tags,) in table("gnt-instance", "tags", *PLACES))


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
            out, err = self.process.communicate(timeout=cluster.PATIENCE)
            assert self.process.returncode == 0, (out, err)
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

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGUSR1)


@pytest.mark.slow
def test_roll_goes_on_under_another_master() -> None:
    """It is killed at its second batch. It comes to all nodes, also to the one that was the master."""
    first = Roll("node1")
    done = {*(batch := first.next_batch())}
    first.create(batch)
    first.go_on()
    begun, master = first.next_batch(), batch[0]
    first.process.kill()
    first.process.communicate()
    try:
        second = Roll(master, "--take-over", "--master-failover")
        batch = second.next_batch()
        assert batch == begun
        while batch:
            second.create(batch)
            done |= {*batch}
            second.go_on()
            batch = second.next_batch()
    finally:
        run(["gnt-cluster", "master-failover"], node="node1")
    assert done == {*cluster.GROUPS}
    assert places() == PLACES
    assert not any(tags for (tags,) in table("gnt-node", "tags"))
    assert {drained for (drained,) in table("gnt-node", "drained")} == {"N"}
    cluster.remove(*(name for (name,) in table("gnt-instance", "name") if name not in PLACES))
