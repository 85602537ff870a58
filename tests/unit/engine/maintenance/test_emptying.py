"""Instances that must not run on their secondary leave a node on another way, and come home on one."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.maintenance.emptying import Emptying, empty_nodes
from ganeti_htools.engine.maintenance.returning import return_home
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand

APART, SPREAD, EXCLUSION = "htools:apart:db", "htools:spread:rack:db", "service:db"


def state_of(tags: tuple[str, ...] = (), nodes: int = 4, mem: int = 1_000) -> State:
    """One database on n0, with its secondary on n1, where another one runs; racks are single nodes."""
    rows = [
        by_hand.instance("one", DiskTemplate.DRBD, "n0", "n1", tags=tags),
        by_hand.instance("other", DiskTemplate.PLAIN, "n1", mem=mem, tags=tags),
    ]
    made = by_hand.cluster({f"n{number}": 10_000 for number in range(nodes)}, rows)
    racks = tuple(replace(node, tags=(f"rack:{node.name}",)) for node in made.nodes)
    return derive(replace(made, nodes=racks, tags=("htools:iextags:service", "htools:nlocation:rack")))


def emptied(state: State, secondaries: bool = True) -> Emptying:
    first, all_of = np.arange(len(state.group)) == 0, np.ones(len(state.pnode), np.bool_)
    return empty_nodes(state, first, secondaries, all_of, PlacementOptions())


@pytest.mark.parametrize(
    "state",
    [
        *(state_of((tag,), nodes) for tag in (APART, SPREAD, EXCLUSION) for nodes in (3, 4)),
        state_of(mem=9_500),
    ],
)
def test_another_node_becomes_primary_where_the_secondary_cannot(state: State) -> None:
    (moved,) = emptied(state).moved
    assert [part.operation.value for part in moved.parts] == ["r", "f", "r"]
    assert moved.nodes[0] > 1
    assert moved.nodes[1] != 0


@pytest.mark.parametrize("nodes", [3, 4])
def test_instance_comes_home_without_running_on_its_secondary(nodes: int) -> None:
    away, everybody = derive(emptied(state_of((APART,), nodes)).state.to_cluster()), np.ones(2, np.bool_)
    back = return_home(away, {0: (0, 1)}, everybody, PlacementOptions(), safe=False)
    assert [move.nodes for move in back.moved] == [(0, 1)]


def test_without_copies_it_stays() -> None:
    ((_, why),) = emptied(state_of((APART,)), secondaries=False).refused
    assert why.startswith("FailRule; most missing: nodes that its tags allow")
