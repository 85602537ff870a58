"""Why nothing fits although there is room."""

from collections.abc import Callable

import numpy as np
import pytest

from ganeti_htools.engine.capacity.counting import Capacity, standard
from ganeti_htools.engine.capacity.obstacles import Obstacle, obstacles, obstruction
from ganeti_htools.engine.capacity.scope import AllocationScope, chosen_scope
from ganeti_htools.model.derive import derive
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance

SHARED, DRBD = InstanceKind(DiskTemplate.EXT, 1), InstanceKind(DiskTemplate.DRBD, 1)
SIZE = InstanceSize(1_000, 1_024, 1)


def allocated(state: State, kind: InstanceKind) -> Callable[[AllocationScope], Capacity]:
    return lambda site: standard(state, kind, SIZE, site, 2)


def two_nodes(small: int) -> State:
    """Node a with two instances of 2000 MiB that any node can start, and a smaller node b."""
    rows = [instance(name, DiskTemplate.EXT, "a", mem=2_000) for name in ("one", "two")]
    return derive(cluster({"a": 10_000, "b": small}, rows))


def test_instances_that_find_no_room_are_named_in_the_way_of_their_node() -> None:
    state = two_nodes(3_000)
    # They leave a latest first; then nothing of b is left for the other.
    assert obstacles(state, chosen_scope(state, PlacementOptions())) == (Obstacle("a", ("one",)),)


def test_nodes_that_may_be_lost_are_in_nobodys_way() -> None:
    state = two_nodes(3_000)
    assert obstacles(state, AllocationScope(np.arange(2), np.ones(2, np.bool_), PlacementOptions())) == ()


def test_a_node_with_too_little_kept_free_is_named_alone() -> None:
    rows = [instance("a-b", DiskTemplate.DRBD, "a", "b", mem=4_000)]
    state = derive(cluster({"a": 10_000, "b": 3_000}, rows))
    lost = AllocationScope(np.arange(2), np.ones(2, np.bool_), PlacementOptions())
    assert obstacles(state, lost) == (Obstacle("b", ()),)


def test_what_is_in_the_way_already() -> None:
    state = two_nodes(3_000)
    why = obstruction(state, SHARED, chosen_scope(state, PlacementOptions()), allocated(state, SHARED))
    assert why is not None
    assert (why.unchecked, why.more, why.obstacles) == (2, False, (Obstacle("a", ("one",)),))


def test_what_one_instance_more_would_bring_in_the_way() -> None:
    """Both instances of a fit on b, but not a third one, which would go to a."""
    state = two_nodes(4_500)
    site = chosen_scope(state, PlacementOptions())
    assert standard(state, SHARED, SIZE, site, 2).placed == 0
    why = obstruction(state, SHARED, site, allocated(state, SHARED))
    assert why is not None
    assert (why.unchecked, why.more) == (2, True)
    assert [obstacle.node for obstacle in why.obstacles] == ["a"]
    assert len(state.pnode) == 2  # the state is as it was


@pytest.mark.parametrize("capacity", [True, False])
def test_a_closed_site_is_looked_at_as_if_it_were_open(capacity: bool) -> None:
    rows = [instance("a-b", DiskTemplate.DRBD, "a", "b", mem=4_000)]
    state = derive(cluster({"a": 10_000, "b": 3_000, "c": 10_000}, rows))
    site = chosen_scope(state, PlacementOptions(capacity=capacity))
    assert site.closed
    why = obstruction(state, DRBD, site, allocated(state, DRBD))
    assert why is not None
    assert (why.unchecked, why.obstacles) == (2, (Obstacle("a", ("a-b",)),))


@pytest.mark.parametrize(
    "options", [PlacementOptions(capacity=False), PlacementOptions(accept_existing=True)]
)
def test_where_nobody_looks_nothing_is_in_the_way(options: PlacementOptions) -> None:
    state = two_nodes(3_000)
    assert obstruction(state, DRBD, chosen_scope(state, options), allocated(state, DRBD)) is None


def test_where_there_is_no_room_either_nothing_is_in_the_way() -> None:
    state = two_nodes(3_000)
    nothing = Capacity(state, (), {})
    assert obstruction(state, SHARED, chosen_scope(state, PlacementOptions()), lambda site: nothing) is None


def test_too_few_nodes_are_no_matter_of_redundancy() -> None:
    state = derive(cluster({"a": 10_000}, []))
    assert obstruction(state, DRBD, chosen_scope(state, PlacementOptions()), allocated(state, DRBD)) is None
