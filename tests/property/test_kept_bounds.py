"""Bounds that are kept while moves are made, against every single move."""

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.balancing.balance import Search, candidates, score_of, search_of
from ganeti_htools.engine.balancing.scoring import failovers, relocations
from ganeti_htools.engine.balancing.step_search import bounds_of
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.batches import batches_of
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.relocate import try_move
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State
from tests.property.narrow import state_of
from tests.support.clusters import Shape
from tests.support.rarities import Rarely, rare
from tests.support.rows import generated

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
MOVES = 6
TAGS = ("exclusion", "location", "migration")


def narrow(seed: int) -> State:
    """A small cluster with every rule."""
    return state_of(seed)


def usual(seed: int) -> State:
    """A cluster of DRBD and external instances, with tags and a lost node."""
    shape = Shape(nodes=18, instances=60, templates={"drbd": 4, "ext": 1}, offline=1, tags=TAGS)
    return derive(generated(seed, shape))


def unusual(seed: int) -> State:
    """A cluster with exclusive storage and forthcoming instances."""
    return derive(rare(seed, Rarely(exclusive=0.3, forthcoming=0.2, nodes=20, instances=50)))


varied = given(
    kind=st.sampled_from((narrow, narrow, usual, unusual)),
    seed=st.integers(0, 1 << 30),
    force=st.booleans(),
    lost=st.integers(0, 2),
)


def search_on(state: State, force: bool) -> Search:
    scope = np.ones(len(state.group), np.bool_)
    options = BalancingOptions(ignore_soft_errors=force, unmirrored=True)
    batches, facts = batches_of(state, candidates(state, scope, None), True)
    return search_of(facts, batches, scope, options)


def move_at_random(search: Search, rng: random.Random) -> None:
    """Make some move that is possible, if one is found soon."""
    state, targets = search.state, search.space.targets.tolist()
    for _ in range(20 if search.batches else 0):
        each = rng.choice([*search.candidates()])
        members = np.flatnonzero(each.may).tolist()
        if not members or (each.kind.takes_node and not targets):
            continue
        member = rng.choice(members)
        node = rng.choice(targets) if each.kind.takes_node else -1
        if node in (state.pnode[each.batch.rows[member]], state.snode[each.batch.rows[member]]):
            continue
        trial = try_move(search.space.facts, each.batch, member, each.kind, node, search.space.force)
        if trial.codes[0] == FITS:
            settling.settle(state, trial)
            search.note(trial)
            return


@settings(max_examples=8, deadline=None)
@varied
@np.errstate(invalid="ignore", divide="ignore", over="ignore")
def test_no_move_scores_below_bounds_of_earlier_steps(
    kind: Callable[[int], State], seed: int, force: bool, lost: int
) -> None:
    state, rng = kind(seed), random.Random(seed)
    state.columns.offline[:lost] = True
    search = search_on(state, force)
    space, kept = search.space, search.bounds
    if not search.batches or not np.isfinite(score_of(state, space.scope)):
        return
    kept.update(search.space.baseline())
    chords = kept.chords
    for _ in range(MOVES):
        move_at_random(search, rng)
        baseline = search.space.baseline()
        kept.update(baseline)
        assert kept.chords is chords
        for each in search.candidates():
            everyone = np.flatnonzero(each.free)
            if not len(everyone) or (each.kind.takes_node and each.new is None):
                continue
            bounds = bounds_of(space, each)
            if each.new is None:
                found = failovers(space, baseline, each, everyone)
                assert (bounds.least[found.members] <= found.scores + baseline.doubt).all()
                continue
            for key, best in each.new.best.items():
                lowest = each.new.lines[key].min(axis=1)[each.new.classes]
                assert np.array_equal(best, lowest, equal_nan=True)
            for members, places in bounds.promising(everyone, None):
                found, _ = relocations(space, baseline, each, members, places)
                at, classes = np.searchsorted(space.targets, found.new), each.new.classes[found.members]
                some = bounds.forced[found.members]
                lines = [each.new.lines[key][classes, at] for key in sorted(each.new.lines)]
                line = np.where(some, lines[-1], lines[0])
                assert (bounds.base[found.members] + line <= found.scores + baseline.doubt).all()
                assert (bounds.least[found.members] <= bounds.base[found.members] + line).all()


@settings(max_examples=8, deadline=None)
@varied
def test_best_move_is_that_of_a_search_without_bounds(
    kind: Callable[[int], State], seed: int, force: bool, lost: int
) -> None:
    state, rng = kind(seed), random.Random(seed)
    state.columns.offline[:lost] = True
    search = search_on(state, force)
    for step in range(MOVES):
        if step:
            move_at_random(search, rng)
        current = score_of(state, search.space.scope)
        plain = search_on(state, force).best(current, report=lambda _found, _trial: None)
        found = search.best(current)
        assert (found is None) is (plain is None)
        if found and plain:
            assert found[1:] == plain[1:]
            assert found.trial.asked.index == plain.trial.asked.index
            settling.settle(state, found.trial)
            search.note(found.trial)
