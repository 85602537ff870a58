import numpy as np
import pytest

from ganeti_htools.backends import simu
from ganeti_htools.engine.capacity.counting import fill_redundantly
from ganeti_htools.engine.capacity.scope import AllocationScope
from ganeti_htools.engine.redundancy.assessment import Assessment
from ganeti_htools.model.derive import derive
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate

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
