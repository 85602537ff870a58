"""Changes of own nodes as products, against the rules."""

import random

import numpy as np
import pytest

from ganeti_htools.engine.balancing.effects import added
from ganeti_htools.engine.balancing.search import Search
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.relocate import own_node_changes
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.rows import any_cluster
from tests.support.searches import baseline_of, searching

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
DRBD = DiskTemplate.DRBD


def assert_equals_the_rules(search: Search) -> None:
    """The changes of all spreads are those of the nodes' figures by the rules."""
    parts = search.space.parts
    for batch, own in zip(search.batches, search.own, strict=True):
        found = own_node_changes(search.space.facts, batch, own.kinds, search.space.force)
        for kind, (touched, _) in found.items():
            effects = [parts.effect(node) for node in touched]
            changes, squares = added(effects, len(parts.leaders), len(batch.rows))
            assert own.kinds[kind].changes == pytest.approx(changes, abs=1e-9)
            assert own.kinds[kind].squares == pytest.approx(squares, abs=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_products_and_rules_are_equal_while_moves_are_made(seed: int) -> None:
    search = searching(derive(any_cluster(random.Random(seed))))
    assert_equals_the_rules(search)
    for _ in range(3):
        best = search.best(np.inf)
        if best is None:
            return
        settling.settle(search.state, best.trial)
        search.note(best.trial)
        search.bounds.update(baseline_of(search.space))
        assert_equals_the_rules(search)


def test_most_spreads_change_by_products() -> None:
    rows = [instance("a", DRBD, "n0", "n1"), instance("b", DRBD, "n1", "n2", mem=300)]
    search = searching(derive(by_hand.cluster(dict.fromkeys(("n0", "n1", "n2"), 9000), rows)))
    names = [search.space.parts.table.components[which].name for which in search.space.parts.leaders]
    (own,) = search.own
    others = set(range(len(names))).difference(own.products.spreads.tolist())
    assert {names[which] for which in others} == {"reserved_mem_cv"}


def test_lost_nodes_change_no_spread() -> None:
    rows = [instance("a", DRBD, "n0", "n1"), instance("b", DRBD, "n1", "n2", mem=300)]
    state = derive(by_hand.cluster(dict.fromkeys(("n0", "n1", "n2"), 9000), rows))
    state.columns.offline[0] = True
    search = searching(state)
    assert_equals_the_rules(search)
