"""Changes of the nodes that instances leave."""

import numpy as np
import pytest

from ganeti_htools.engine.rules.components import INDEX
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.searches import baseline_of, searching

DRBD = DiskTemplate.DRBD


def test_free_members_are_those_whose_nodes_do_not_prevent_a_move() -> None:
    rows = [instance("a", DRBD, "n0", "n1"), instance("b", DRBD, "n0", "n1", mem=9000)]
    state = derive(by_hand.cluster({"n0": 20_000, "n1": 5_000, "n2": 20_000}, rows))
    own = searching(state).own[0].kinds[MoveKind.FAILOVER]
    assert own.may.tolist() == [True, True]
    assert own.free.tolist() == [True, False]


def test_range_of_changes_covers_free_members_only_and_follows_them() -> None:
    rows = [instance("a", DRBD, "n0", "n1"), instance("b", DRBD, "n0", "n1", mem=9000)]
    state = derive(by_hand.cluster({"n0": 20_000, "n1": 5_000, "n2": 20_000}, rows))
    search = searching(state)
    (own,), chords, memory = search.own, search.bounds.chords, search.space.parts.leaders.index(0)
    assert chords is not None
    row = list(own.kinds).index(MoveKind.FAILOVER)

    def spread() -> tuple[float, float]:
        return float(own.span.least[row, memory]), float(own.span.most[row, memory])

    small, large = own.kinds[MoveKind.FAILOVER].changes[memory].tolist()
    assert spread() == (small, small)
    state.columns.t_mem[1] = 40_000
    state.columns.f_mem_forth[1] += 35_000
    own.refresh(np.array([0, 1]))
    own.bound(chords, baseline_of(search.space).heights)
    assert own.kinds[MoveKind.FAILOVER].free.all()
    small, large = sorted(own.kinds[MoveKind.FAILOVER].changes[memory].tolist())
    assert spread()[0] <= small < large <= spread()[1]


def test_changes_of_a_replaced_primary() -> None:
    rows = [instance("a", DRBD, "n0", "n1"), instance("b", DRBD, "n1", "n0", mem=2000)]
    state = derive(by_hand.cluster({f"n{number}": 10_000 for number in range(4)}, rows))
    search = searching(state)
    memory = search.space.parts.leaders.index(INDEX["free_mem_cv"])
    own = search.own[0].kinds
    # The new primary is not among their own nodes; a new secondary changes no memory.
    assert own[MoveKind.REPLACE_PRIMARY].changes[memory] == pytest.approx([0.1, 0.2])
    assert own[MoveKind.REPLACE_SECONDARY].changes[memory] == pytest.approx([0, 0])
    assert own[MoveKind.FAILOVER].changes[memory] == pytest.approx([0, 0])
    assert own[MoveKind.FAILOVER].free.all()
