"""A move of several operations equals these operations one after the other."""

import numpy as np
import pytest
from hypothesis import given, settings

from ganeti_htools.engine.allocation.move_parts import try_operation
from ganeti_htools.engine.rules import affinity, settling
from ganeti_htools.engine.rules.batches import batches_of
from ganeti_htools.engine.rules.node_rules import CODE
from ganeti_htools.engine.rules.relocate import location_exclusion_of_moves, try_move
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.moves import KINDS
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import Fail, MirrorType
from tests.property.narrow import cases, figures


@settings(max_examples=8)
@given(case=cases)
@pytest.mark.parametrize("force", [False, True])
def test_move_equals_its_operations_one_after_the_other(force: bool, case: tuple[State, Instance]) -> None:
    state, _ = case
    scope = np.ones(len(state.group), np.bool_)
    batches, facts = batches_of(state, np.ones(len(state.pnode), np.bool_), unmirrored=True)
    for batch in batches:
        member = len(batch.rows) // 2
        row = int(batch.rows[member])
        own = {int(state.pnode[row]), int(state.snode[row])}
        if batch.mirror is MirrorType.NONE and state.columns.offline[state.pnode[row]]:
            continue  # only balancing before the node is off moves it
        for kind in KINDS[batch.mirror]:
            for node in sorted({*range(len(scope))} - own) if kind.takes_node else [NOWHERE]:
                found = try_move(facts, batch, member, kind, node, force)
                after, expected, codes = state.copy(), state.copy(), []
                settling.settle(after, found)
                for each in kind.operations:
                    asked, options = expected.instance(row), PlacementOptions(ignore_soft_errors=force)
                    trial = try_operation(expected, asked, each, np.array([node]), options)
                    codes.append(int(trial.codes[0]))
                    settling.settle(expected, trial)
                assert (after.pnode[row], after.snode[row]) == (expected.pnode[row], expected.snode[row])
                for name in state.columns.changing():
                    ours, theirs = getattr(after.columns, name), getattr(expected.columns, name)
                    np.testing.assert_allclose(
                        figures(ours), figures(theirs), rtol=0, atol=1e-9, err_msg=f"{kind}: {name}"
                    )
                if found.codes[0] != CODE[Fail.RULE]:  # which comes before others
                    assert (found.codes[0] == CODE[Fail.MIGRATION]) == (CODE[Fail.MIGRATION] in codes)
                if len(codes) == 1:
                    assert found.codes.tolist() == codes
                change = affinity.location_exclusion(after, scope) - affinity.location_exclusion(state, scope)
                new = np.array([node]) if kind.takes_node else None
                moved = location_exclusion_of_moves(facts, batch.take(np.array([member])), kind, new, scope)
                assert np.ravel(moved).tolist() == [change]
