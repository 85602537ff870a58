import random

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.balancing.shared_instances import shared_instances
from ganeti_htools.engine.balancing.shared_storage import SharedTable
from ganeti_htools.engine.rules import node_rules, settling
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.relocate import move
from ganeti_htools.model.columns import Columns
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance

EXT = DiskTemplate.EXT


def table_of(*pnodes: str) -> SharedTable:
    """Three nodes and an offline one, with instances of growing size."""
    rows = [instance(f"i{row}", EXT, pnode, mem=1000 + 100 * row) for row, pnode in enumerate(pnodes)]
    state = derive(by_hand.cluster(dict.fromkeys(("a", "b", "c", "lost"), 9000), rows))
    state.columns.offline[3] = True
    state.columns.f_spindles[:] = 5  # which no node has without exclusive storage
    found = shared_instances(state, np.ones(len(rows), np.bool_))
    assert found is not None
    return SharedTable(state, np.ones(4, np.bool_), found)


def test_offline_nodes_are_no_place() -> None:
    table = table_of("a", "b", "lost")
    assert table.nodes.tolist() == [0, 1, 2]
    assert table.place.tolist() == [0, 1, -1]


@pytest.mark.parametrize(("member", "forced"), [(0, False), (1, False), (2, True)])
def test_table_scores_equal_the_score_after_the_move(member: int, forced: bool) -> None:
    table = table_of("a", "b", "lost")
    everywhere, before = np.ones(4, np.bool_), score_of(table.state, np.ones(4, np.bool_)) - table.score()
    (scores,) = table.scores(np.array([member]), forced)
    for node in np.flatnonzero(np.isfinite(scores)).tolist():
        other = table_of("a", "b", "lost")
        other.move(member, node)
        assert other.current == pytest.approx(scores[node], abs=1e-7)
        assert score_of(other.settled(), everywhere) - other.score() == pytest.approx(before, abs=1e-9)


def test_moves_are_settled_by_the_rules() -> None:
    table = table_of("a", "a", "a", "lost")
    expected = table.state.copy()
    for member, node in ((3, 2), (0, 1), (3, 1), (0, 0)):
        trial = move(
            expected, expected.instance(member), MoveKind.FAILOVER_TO, table.nodes[[node]], force=True
        )
        settling.settle(expected, trial)
        table.move(member, node)
    found = table.settled()
    for name in Columns._fields:
        assert getattr(found.columns, name).tolist() == getattr(expected.columns, name).tolist(), name
    assert found.pnode.tolist() == expected.pnode.tolist()
    assert np.argsort(found.stamp).tolist() == np.argsort(expected.stamp).tolist()


@pytest.mark.parametrize("forced", [False, True])
def test_table_limits_equal_the_rules(forced: bool) -> None:
    rng, kinds = random.Random(7), set[int]()
    for _ in range(150):
        names = [f"n{number}" for number in range(4)]
        made = [
            instance(f"i{number}", EXT, rng.choice(names), mem=rng.randrange(1, 5)) for number in range(6)
        ]
        described = by_hand.cluster({name: rng.randrange(5, 14) for name in names}, made)
        state = derive(described)
        state.columns.r_mem[:] = [rng.randrange(3) for _ in names]
        state.columns.fail_n1[:] = state.columns.unallocated <= state.columns.r_mem
        state.columns.f_mem_forth[:] -= np.array([rng.randrange(3) for _ in names])
        state.columns.t_cpu[:] = 1.0
        state.columns.vcpu_ratio[:] = [rng.randrange(-1, 5) for _ in names]
        found = shared_instances(state, np.ones(len(made), np.bool_))
        assert found is not None
        table = SharedTable(state, np.ones(4, np.bool_), found)
        members = np.arange(len(made))
        possible = np.isfinite(table.scores(members, forced))
        for member in members.tolist():
            here = state.columns.take(np.arange(4))
            _, codes = node_rules.add_primary(here, state.instance(member), 0, 0, force=forced)
            fits = codes == FITS
            if not forced:
                # Its own node is none to move to.
                fits[state.pnode[member]] = False
            kinds |= set(codes.tolist())
            assert possible[member].tolist() == fits.tolist()
    assert len(kinds) > 1
