import numpy as np
import pytest

from ganeti_htools.backends import simu
from ganeti_htools.engine.capacity.counting import fill_redundantly
from ganeti_htools.engine.capacity.scope import AllocationScope
from ganeti_htools.engine.redundancy.assessment import Assessment, assess
from ganeti_htools.model.derive import derive
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Fail

EXT, DRBD = InstanceKind(DiskTemplate.EXT, 1), InstanceKind(DiskTemplate.DRBD, 1)


def simulated(spec: str) -> State:
    return derive(simu.parse([spec]))


def site(state: State) -> AllocationScope:
    everyone = np.arange(len(state.group))
    return AllocationScope(everyone, np.zeros(len(everyone), np.bool_), PlacementOptions())


@pytest.mark.parametrize("kind", [EXT, DRBD])
def test_many_are_placed_before_anybody_looks_while_there_is_plenty(
    kind: InstanceKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = 0
    plain = AllocationScope.assess

    def counted(self: AllocationScope, *arguments: object) -> Assessment:
        nonlocal looked
        looked += 1
        return plain(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(AllocationScope, "assess", counted)
    state = simulated("p,4,8t,256g,64,64")
    row = kind.instance(InstanceSize(1024, 1024, 1))
    after, filled = fill_redundantly(state, row, site(state), 0, 100)
    assert filled.placed == 100
    assert after.columns.primaries.sum() == 100
    assert looked < 10


def test_the_last_ones_leave_room_to_lose_a_node() -> None:
    state = simulated("p,3,8t,10000,16,64")
    after, filled = fill_redundantly(state, EXT.instance(InstanceSize(1000, 1024, 1)), site(state), 0, None)
    # 29 would fit; those of a lost node, nine at most, have to find room on the other two.
    assert filled.placed == 18
    assert filled.failures == dict.fromkeys(Fail, 0) | {Fail.N1: 3}
    assert assess(after, np.ones(3, np.bool_), PlacementOptions()).holds()


def test_names_go_on_from_the_first() -> None:
    state = simulated("p,3,8t,10000,16,64")
    after, _ = fill_redundantly(state, EXT.instance(InstanceSize(4000, 1024, 1)), site(state), 7, None)
    # A node takes two, so the two on one find room on the others, which have one each.
    assert [each.name for each in after.cluster.instances] == ["new-7", "new-8", "new-9", "new-10"]
