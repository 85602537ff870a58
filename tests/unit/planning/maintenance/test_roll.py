"""Batches of a roll: their nodes may be down together, and every node is in one of them or left out."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.maintenance_tags import roll_tag, rolled_tag
from ganeti_htools.model.tags import MAINTENANCE
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.maintenance.hmaintain import HMAINTAIN, MaintainOptions
from ganeti_htools.planning.maintenance.roll import Roll, RollBatch, RollOptions, roll_of
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.clusters import Shape
from tests.support.rows import with_master
from tests.support.seeds import few

EXT, DRBD, PLAIN = DiskTemplate.EXT, DiskTemplate.DRBD, DiskTemplate.PLAIN
ANN = "20200101T000000Z:ann@boss"
OPTIONS = RollOptions(
    nodes=(), group=None, node_tags=None, ignore_non_redundant=False, start=MaintainOptions(run=f"{ANN}:7")
)
NAMES = ("boss", "one", "two", "three", "four")


def tagged(rows: Cluster, tags: dict[str, Iterable[str]]) -> Cluster:
    nodes = (replace(node, tags=(*node.tags, *tags.get(node.name, ()))) for node in rows.nodes)
    return replace(rows, nodes=tuple(nodes))


@pytest.fixture
def described() -> Cluster:
    """The master and four nodes in a ring of mirrors, one of which has a plain instance."""
    rows = [instance(f"m-{name}", DRBD, name, NAMES[place - 1]) for place, name in enumerate(NAMES)]
    made = by_hand.cluster(dict.fromkeys(NAMES, 20_000), [*rows, instance("local", PLAIN, "four")])
    return replace(made, nodes=(replace(made.nodes[0], master=True), *made.nodes[1:]))


def found(rows: Cluster, options: RollOptions = OPTIONS) -> Roll:
    return roll_of(rows, options, lambda _text: None)


def batches(rows: Cluster, options: RollOptions = OPTIONS) -> list[set[str]]:
    return [set(batch.nodes) for batch in found(rows, options).batches]


def test_mirrors_are_never_both_down(described: Cluster) -> None:
    roll = found(described)
    assert sorted(map(sorted, (batch.nodes for batch in roll.batches))) == [["one", "three"], ["two"]]
    assert roll.aside["boss"].startswith("it is the master; on another candidate: ")
    assert roll.refused == {"four": "local: plain instances neither migrate nor fail over"}


def test_instances_that_never_leave_can_be_ignored(described: Cluster) -> None:
    roll = found(described, replace(OPTIONS, ignore_non_redundant=True))
    assert {name for batch in roll.batches for name in batch.nodes} == {*NAMES} - {"boss"}
    assert not roll.refused


def test_some_of_the_nodes(described: Cluster) -> None:
    assert batches(described, replace(OPTIONS, nodes=("two", "boss"))) == [{"two"}]
    with_tag = tagged(described, {"three": ("new",)})
    assert batches(with_tag, replace(OPTIONS, node_tags=("new",))) == [{"three"}]
    assert found(described, replace(OPTIONS, nodes=("boss",))).batches == ()
    with pytest.raises(HtoolsError, match="Cannot find target group"):
        found(described, replace(OPTIONS, group="other"))


def test_batches_keep_redundancy() -> None:
    """There is room for the instances of two nodes, but not for the loss of another one."""
    rows = [instance(name, EXT, name, mem=3_000) for name in NAMES]
    made = by_hand.cluster(dict.fromkeys(NAMES, 7_000), rows)
    assert [len(batch) for batch in batches(made)] == [1] * 5
    unchecked = replace(OPTIONS, start=replace(OPTIONS.start, check_redundancy=False))
    assert [len(batch) for batch in batches(made, unchecked)] == [2, 2, 1]
    full = by_hand.cluster(dict.fromkeys(NAMES, 5_000), rows)
    assert found(full).batches == ()
    assert {*found(full).refused} == {*NAMES}


def test_tags_tell_what_is_done(described: Cluster) -> None:
    by = f"{MAINTENANCE}:by:{ANN}"
    rows = tagged(
        described,
        {
            "one": (rolled_tag(ANN),),
            "two": (MAINTENANCE, by, roll_tag(ANN)),
            "three": (MAINTENANCE, by, roll_tag(ANN), rolled_tag(ANN)),
            "four": (MAINTENANCE, by),
        },
    )
    roll = found(rows)
    assert (roll.name, roll.done) == (ANN, ("one",))
    assert roll.batches == (RollBatch(("three",), 0, "done"), RollBatch(("two",), 0, "begun"))
    assert roll.aside["four"] == "it is in maintenance already"
    by_hand_again = found(tagged(rows, {"one": (MAINTENANCE, by)}))
    assert (by_hand_again.done, by_hand_again.batches) == (("one",), roll.batches)


@pytest.mark.parametrize("seeds", few(range(2), 200))
def test_maintenance_of_each_batch_can_begin(seeds: range) -> None:
    """Each node is in one batch or left out. What is refused cannot begin by itself."""
    for seed in seeds:
        rows = with_master(seed, Shape(nodes=6, instances=18, drained=1, fill=0.3))
        options = replace(OPTIONS, ignore_non_redundant=seed % 2 == 0)
        roll = found(rows, options)
        names = [name for batch in roll.batches for name in batch.nodes]
        assert sorted([*names, *roll.refused, *roll.aside]) == sorted(node.name for node in rows.nodes)
        for batch in roll.batches:
            down = {*batch.nodes}
            start = replace(OPTIONS.start, nodes=batch.nodes)
            proposal = HMAINTAIN.propose(rows, start, lambda _text: None)
            assert len(proposal.found["steps"]) == batch.moves
            assert not any({row.pnode, row.snode} <= down for row in rows.instances if row.snode)
            assert options.ignore_non_redundant or not proposal.found["staying"]
        for name in roll.refused:
            assert not begins(rows, replace(OPTIONS.start, nodes=(name,)))


def begins(rows: Cluster, start: MaintainOptions) -> bool:
    try:
        return not HMAINTAIN.propose(rows, start, lambda _text: None).found["staying"]
    except HtoolsError:
        return False
