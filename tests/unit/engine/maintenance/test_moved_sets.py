"""Sets that stay together and are not whole when nodes are emptied, or have got a member since."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from ganeti_htools.engine.maintenance.emptying import Emptying, concerned, empty_nodes
from ganeti_htools.engine.maintenance.returning import return_home
from ganeti_htools.model.cluster import Cluster, Group, Instance
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand

NAMES = [f"n{number}" for number in range(6)]
SET = ("htools:together:x",)
EXT, DRBD = DiskTemplate.EXT, DiskTemplate.DRBD


def member(name: str, pnode: str, snode: str | None = None, *tags: str) -> Instance:
    template = DRBD if snode else EXT
    return by_hand.instance(name, template, pnode, snode, tags=(*SET, *tags))


def state_of(cluster: Cluster) -> State:
    """The state without limits of instances."""
    group = Group("group1", "uuid-1", ipolicy=replace(DEFAULT_IPOLICY, minmax=()))
    return derive(replace(cluster, groups=(group,)))


def marked(number: int, *rows: int) -> Bools:
    return np.isin(np.arange(number), rows)


def emptied(state: State, *rows: int, empty: bool = True) -> Emptying:
    everybody = np.ones(len(state.pnode), np.bool_)
    return empty_nodes(state, marked(len(state.group), *rows), empty, everybody, PlacementOptions())


@pytest.mark.parametrize("left", [(0,), (0, 1)])
def test_set_leaves_as_one_wherever_it_was_interrupted(left: tuple[int, ...]) -> None:
    """Each member has made some parts of its way, and the others others."""
    places = {"a": ("n0", "n1"), "b": ("n0", "n1"), "c": ("n0", None)}
    sizes = dict.fromkeys(NAMES, 20_000)
    state = state_of(by_hand.cluster(sizes, [member(name, *nodes) for name, nodes in places.items()]))
    plan = emptied(state, *left)
    assert [move.with_next for move in plan.moved] == [True, True, False]
    for made in product(*(range(len(move.parts) + 1) for move in plan.moved)):
        now = state.copy()
        for move, count in zip(plan.moved, made, strict=True):
            nodes = int(state.pnode[move.instance]), int(state.snode[move.instance])
            for part in move.parts[:count]:
                nodes = part.operation.nodes(*nodes, part.node)
            now.pnode[move.instance], now.snode[move.instance] = nodes
        rest = emptied(derive(now.to_cluster()), *left)
        assert not rest.refused
        after = rest.state
        assert not concerned(after, marked(6, *left), True)
        assert len({*after.pnode.tolist()}) == 1
        assert len({*after.snode.tolist()} - {NOWHERE}) == 1


def test_disks_are_not_copied_to_unite_a_set() -> None:
    rows = [member("a", "n0", "n1"), member("b", "n0", "n2")]
    state = state_of(by_hand.cluster(dict.fromkeys(NAMES, 20_000), rows))
    (_, why), _ = emptied(state, 0, empty=False).refused
    assert why == (
        "no place for all of a, b, which stay together: they have several secondaries; --empty copies disks"
    )


def test_set_finds_its_only_nodes_among_many() -> None:
    """The others have more free memory."""
    names = [f"n{number:02}" for number in range(40)]
    rows = [member(name, "n00", "n01", "htools:on:ssd") for name in "ab"]
    made = by_hand.cluster({name: 20_000 + 100 * (name > "n03") for name in names}, rows)
    nodes = tuple(replace(node, tags=("ssd",)) if node.name < "n04" else node for node in made.nodes)
    plan = emptied(state_of(replace(made, nodes=nodes)), 0, 1)
    assert [{*move.nodes} for move in plan.moved] == [{2, 3}] * 2


def test_set_leaves_while_another_node_reports_nothing() -> None:
    made = by_hand.cluster(dict.fromkeys(NAMES, 20_000), [member("a", "n0"), member("b", "n0")])
    nodes = (*made.nodes[:5], replace(made.nodes[5], t_mem=0.0, f_mem=0))
    plan = emptied(state_of(replace(made, nodes=nodes)), 0)
    assert [move.instance for move in plan.moved] == [0, 1]


def test_member_joins_the_others_on_a_full_node() -> None:
    names = [f"n{number:02}" for number in range(40)]
    rows = [member("a", "n00"), member("b", "n39")]
    sizes = {name: 20_000 if name < "n39" else 5_000 for name in names}
    plan = emptied(state_of(by_hand.cluster(sizes, rows)), 0)
    assert [move.nodes for move in plan.moved] == [(39,)]


def test_set_stays_with_a_member_that_has_no_home() -> None:
    """It has been created while the others were away."""
    rows = [member(name, "n1") for name in "abc"]
    state = state_of(by_hand.cluster(dict.fromkeys(NAMES, 20_000), rows))
    everybody, homes = np.ones(3, np.bool_), {0: (0, NOWHERE), 1: (0, NOWHERE)}
    found = return_home(state, homes, everybody, PlacementOptions())
    assert not found.moved
    assert dict(found.refused) == dict.fromkeys((0, 1), "it stays together with others (htools:together:x)")
    found = return_home(state, {**homes, 2: (0, NOWHERE)}, everybody, PlacementOptions())
    assert [move.instance for move in found.moved] == [0, 1, 2]
