import numpy as np
import pytest

from ganeti_htools.backends import simu
from ganeti_htools.engine.capacity.counting import check_enough, standard, tiered
from ganeti_htools.engine.capacity.scope import AllocationScope
from ganeti_htools.engine.capacity.shrinking import by_frequency
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Fail

PLAIN, DRBD = InstanceKind(DiskTemplate.PLAIN, 1), InstanceKind(DiskTemplate.DRBD, 1)


def simulated(*specs: str) -> State:
    return derive(simu.parse(specs))


def site(state: State, capacity: bool = True) -> AllocationScope:
    everyone = np.arange(len(state.group))
    return AllocationScope(everyone, np.zeros(len(everyone), np.bool_), PlacementOptions(capacity=capacity))


def test_sizes_shrink_by_a_unit_down_to_a_unit() -> None:
    size = InstanceSize(mem=200, dsk=1000, vcpus=2, spindles=1)
    assert size.smaller(Fail.MEM) == InstanceSize(136, 1000, 2, 1)
    assert size.smaller(Fail.DISK) == InstanceSize(200, 744, 2, 1)
    assert size.smaller(Fail.CPU) == InstanceSize(200, 1000, 1, 1)
    assert size.smaller(Fail.SPINDLES) is None
    assert size.smaller(Fail.N1) is None
    assert InstanceSize(127, 1, 1).smaller(Fail.MEM) is None


def test_the_least_is_where_shrinking_ends() -> None:
    for size in (
        InstanceSize(200, 1000, 3, 2),
        InstanceSize(64, 256, 1, 1),
        InstanceSize(63, 100, 1, 0),
        InstanceSize(128, 512, 2, 1),
    ):
        end = size
        for fail in (Fail.MEM, Fail.DISK, Fail.CPU, Fail.SPINDLES):
            while (smaller := end.smaller(fail)) is not None:
                end = smaller
        assert size.least() == end


def test_reasons_are_ranked_by_number_then_from_the_last() -> None:
    failures = dict.fromkeys(Fail, 0) | {Fail.MEM: 3, Fail.DISK: 5, Fail.CPU: 5}
    assert by_frequency(failures)[:3] == [Fail.CPU, Fail.DISK, Fail.MEM]


def test_ignored_nodes_may_be_lost() -> None:
    state = simulated("p,2,1t,4100,16,64")
    where = AllocationScope(np.arange(2), np.ones(2, np.bool_), PlacementOptions())
    assert (
        standard(state, InstanceKind(DiskTemplate.EXT, 1), InstanceSize(1000, 2000, 1), where, None).placed
        == 8
    )


def test_no_tier_is_below_what_the_policy_allows() -> None:
    state = simulated("p,1,900,64g,16,64")  # the least disk is 1024
    result = tiered(state, PLAIN, [InstanceSize(128, 4096, 1)], site(state, capacity=False), None)
    assert result.tiers == ()
    assert result.failures[Fail.DISK] == 1


def test_the_limit_counts_all_tiers() -> None:
    state = simulated("p,4,1t,64g,16,64")
    sizes = [InstanceSize(2048, 2048, 1), InstanceSize(1024, 2048, 1)]
    assert standard(state, DRBD, sizes[0], site(state), 3).placed == 3
    assert tiered(state, DRBD, sizes, site(state), 5).tiers == ((sizes[0], 5),)
    assert tiered(state, DRBD, sizes, site(state), 0).placed == 0


@pytest.mark.parametrize("limit", [*range(1, 7), None])
def test_the_limit_is_the_number_of_instances(limit: int | None) -> None:
    state = simulated("p,3,4T,64g,32,64")
    found = tiered(state, PLAIN, [InstanceSize(32768, 1 << 20, 8)], site(state), limit)
    assert found.placed == min(4, limit or 4)
    assert len(found.tiers) == (1 if limit in (1, 2) else 2)


def test_too_few_nodes() -> None:
    state = simulated("p,1,100g,64g,16,64", "p,1,100g,64g,16,64")
    check_enough(state, DiskTemplate.EXT, np.arange(2))
    with pytest.raises(RequestFailed, match="Not enough online nodes"):
        check_enough(state, DiskTemplate.DRBD, np.arange(2))
    with pytest.raises(RequestFailed, match="No online nodes"):
        check_enough(state, DiskTemplate.EXT, np.arange(0))
