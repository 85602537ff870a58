"""Many instances moved at once equal each one moved by itself."""

import random

import numpy as np
import pytest

from ganeti_htools.engine.rules.batches import batches_of
from ganeti_htools.engine.rules.relocate import move, own_node_changes, try_move
from ganeti_htools.model.columns import NOWHERE, Columns
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import KINDS
from tests.support.clusters import Shape
from tests.support.rows import any_cluster, generated


def same(one: Columns, other: Columns) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("seed", range(8))
def test_moves_of_one_operation(seed: int) -> None:
    rng = random.Random(seed)
    state = derive(any_cluster(rng))
    scope = np.ones(len(state.group), np.bool_)
    batches, facts = batches_of(state, np.ones(len(state.pnode), np.bool_))
    for batch in batches:
        member = rng.randrange(len(batch.rows))
        asked = state.instance(int(batch.rows[member]))
        others = set(range(len(scope))) - {int(state.pnode[asked.index]), int(state.snode[asked.index])}
        for node in sorted(others):
            target = np.array([node])
            for kind in (each for each in KINDS[batch.mirror] if len(each.operations) == 1):
                trial = move(state, asked, kind, target if kind.takes_node else None)
                found = try_move(facts, batch, member, kind, node if kind.takes_node else NOWHERE, False)
                assert found.codes.tolist() == trial.codes.tolist()
                assert (found.pnode[0], found.snode[0]) == (trial.pnode[0], trial.snode[0])
                after = {int(each.rows[0]): each.new for each in found.changes}
                for change in trial.changes:
                    assert same(change.new, after[int(change.rows[0])]), (kind, asked.row.name)


@pytest.mark.parametrize("tags", [(), ("location",), ("location", "desired", "exclusion")])
@pytest.mark.parametrize("known", [False, True])
def test_kinds_tried_together_equal_each_kind_alone(tags: tuple[str, ...], known: bool) -> None:
    state = derive(generated(5, Shape(nodes=6, instances=25, templates={"drbd": 2, "ext": 1}, tags=tags)))
    batches, facts = batches_of(state, np.ones(len(state.pnode), np.bool_))
    for batch in batches:
        kinds = KINDS[batch.mirror]
        free = [
            next(row for row in range(6) if row not in (state.pnode[index], state.snode[index]))
            for index in batch.rows.tolist()
        ]
        new = np.array(free) if known else None
        together = own_node_changes(facts, batch, kinds, False, new)
        for kind in kinds:
            changes, codes = own_node_changes(facts, batch, [kind], False, new)[kind]
            assert together[kind][1].tolist() == codes.tolist()
            for one, other in zip(together[kind][0], changes, strict=True):
                assert same(one.new, other.new), kind
