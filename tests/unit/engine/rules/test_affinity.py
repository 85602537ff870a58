"""Effects of tags on an instance's places."""

from dataclasses import replace

import numpy as np

from ganeti_htools.engine.rules import affinity
from ganeti_htools.engine.rules.node_rules import CODE, FITS
from ganeti_htools.engine.rules.relocate import move
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import cluster, instance

RACKS = {"a": "rack:1", "b": "rack:1", "c": "rack:2"}
WEB, NEAR_1 = ("service:web",), ("rack:1",)
CLUSTER_TAGS = (
    *("htools:iextags:service", "htools:nlocation:rack", "htools:desiredlocation:rack"),
    *("htools:migration:cpu", "htools:allowmigration:cpu:old::cpu:new"),
)
EVERYWHERE = np.ones(3, np.bool_)
ALL = np.arange(3)


def state_of(*instances: Instance) -> State:
    """Nodes a and b in one rack, c in another; b and c have newer CPUs."""
    made = cluster(dict.fromkeys(RACKS, 10_000), instances)
    cpu = {"a": "cpu:old", "b": "cpu:new", "c": "cpu:new"}
    nodes = tuple(replace(node, tags=(RACKS[node.name], cpu[node.name])) for node in made.nodes)
    return derive(replace(made, nodes=nodes, tags=CLUSTER_TAGS))


def web(name: str, pnode: str, snode: str) -> Instance:
    return instance(name, DiskTemplate.DRBD, pnode, snode, tags=WEB)


def test_an_instance_does_not_conflict_with_itself() -> None:
    state = state_of(web("one", "a", "b"), web("two", "b", "a"))
    assert affinity.tag_conflicts(state, state.instance(0)).tolist() == [0, 1, 0]
    new = instance("new", DiskTemplate.DRBD, "", tags=WEB)
    assert affinity.tag_conflicts(state, state.requested_instance(new)).tolist() == [1, 1, 0]


def test_counts_unknown_desired_locations_as_unmet_on_every_node() -> None:
    state = state_of(instance("one", DiskTemplate.DRBD, "a", "b", tags=(*NEAR_1, "rack:9")))
    assert affinity.unmet_locations(state, state.instance(0)).tolist() == [1, 1, 2]


def test_nodes_of_one_rack_share_a_location() -> None:
    state = state_of(web("one", "a", "b"), web("two", "a", "c"), instance("alone", DiskTemplate.PLAIN, "a"))
    assert [affinity.location_score(state, state.instance(row)) for row in range(3)] == [1, 0, 0]
    assert affinity.shared_locations(state, 0, ALL).tolist() == [1, 1, 0]


def test_location_exclusion_change_equals_the_difference_after_the_move() -> None:
    moved = {"a": web("one", "a", "c"), "b": web("one", "b", "c"), "c": web("one", "c", "a")}
    after = {name: state_of(row, web("two", "b", "a"), web("three", "c", "a")) for name, row in moved.items()}
    before = after["a"]
    assert affinity.location_exclusion(before, EVERYWHERE) == 1.0
    change = affinity.location_exclusion_change(before, before.instance(0), ALL, EVERYWHERE)
    expected = [affinity.location_exclusion(after[name], EVERYWHERE) - 1.0 for name in RACKS]
    assert change.tolist() == expected == [0.0, 0.0, 0.0]
    alone = state_of(web("one", "a", "c"), web("two", "b", "a"))
    assert affinity.location_exclusion_change(alone, alone.instance(0), ALL, EVERYWHERE).tolist() == [
        0.0,
        0.0,
        -1.0,
    ]


def test_migration_goes_only_where_tags_allow_it() -> None:
    state = state_of(*(instance(name, DiskTemplate.EXT, name) for name in "ab"))
    old, new = (move(state, state.instance(row), MoveKind.FAILOVER_TO, ALL) for row in range(2))
    assert old.codes.tolist() == [FITS] * 3
    assert new.codes.tolist() == [CODE[Fail.MIGRATION], FITS, FITS]
