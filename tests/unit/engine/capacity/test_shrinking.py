"""Which sizes fit, and how many in a row do not for the same reason."""

import numpy as np

from ganeti_htools.engine.capacity.scope import AllocationScope
from ganeti_htools.engine.capacity.shrinking import Shrinking
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.derive import derive
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.policy import DEFAULT_IPOLICY, IPolicy
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import node

EVERYTHING = IPolicy((), DEFAULT_IPOLICY.std, tuple(DiskTemplate), 64.0, 64.0)


def shrinking(template: DiskTemplate = DiskTemplate.PLAIN, capacity: bool = False) -> Shrinking:
    """About two nodes of one group, with 1,000 and 2,000 MiB of memory."""
    nodes = node("a", mem=1000), node("b", mem=2000)
    state = derive(Cluster((Group("group1", "uuid-1", ipolicy=EVERYTHING),), nodes))
    site = AllocationScope(np.arange(2), np.zeros(2, np.bool_), PlacementOptions(capacity=capacity))
    return Shrinking(state, InstanceKind(template, 1), site)


def test_nodes_that_take_a_size_and_why_others_do_not() -> None:
    both, one, none = shrinking().verdicts.of(
        InstanceSize(900, 1024, 1), InstanceSize(1500, 1024, 1), InstanceSize(3000, 1024, 1)
    )
    assert (both.fits, one.fits, none.fits) == (2, 1, 0)
    assert (one.failures[Fail.MEM], none.failures[Fail.MEM]) == (1, 2)
    assert one.places is not None
    assert one.places.primaries.tolist() == [1]


def test_candidates_of_mirrored_instances_are_pairs() -> None:
    both, one = shrinking(DiskTemplate.DRBD).verdicts.of(
        InstanceSize(900, 1024, 1), InstanceSize(1500, 1024, 1)
    )
    assert (both.fits, one.fits) == (2, 0)
    assert one.failures[Fail.MEM] == 2


def test_sizes_that_fail_alike_are_one_run() -> None:
    """Of memory units of 64 MiB: 2,088 MiB is too much on both nodes, so are 2,024, but 1,960 fit on one."""
    run = shrinking().failed(InstanceSize(2088, 1024, 1))
    assert run is not None
    assert (run.number, run.failures[Fail.MEM]) == (2, 2)
    assert shrinking().failed(InstanceSize(1960, 1024, 1)) is None


def test_what_is_larger_in_everything_is_as_hopeless() -> None:
    found = shrinking()
    assert found.hopeless(InstanceSize(2001, 1024, 1))
    assert found.hopeless(InstanceSize(3000, 2048, 2))
    assert not found.hopeless(InstanceSize(500, 1024, 1))


def test_one_node_must_take_all_should_the_other_be_lost() -> None:
    """1,500 MiB fit on one node only, and nowhere else when that is lost."""
    assert shrinking(capacity=True).failed(InstanceSize(900, 1024, 1)) is None
    assert shrinking(capacity=True).failed(InstanceSize(1500, 1024, 1)) is not None
