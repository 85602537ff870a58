"""Scores of all places equal those of the states that the rules of moves lead to."""

from collections.abc import Iterator

import numpy as np
from hypothesis import given, settings

from ganeti_htools.engine.balancing.balance import candidates, score_of
from ganeti_htools.engine.balancing.place_scores import PlaceScores, place_scores
from ganeti_htools.engine.balancing.scoring import SearchSpace
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.batches import Batch, batches_of
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.relocate import try_move
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.moves import KINDS
from ganeti_htools.model.state import State
from tests.property.narrow import cases, figures
from tests.property.test_moves import ROUNDED, described, everywhere


def blocks(state: State, force: bool) -> Iterator[tuple[SearchSpace, Batch, PlaceScores]]:
    scope = everywhere(state)
    batches, facts = batches_of(state, candidates(state, scope, None))
    space = SearchSpace.of(facts, scope, force)
    for batch in batches:
        yield space, batch, place_scores(space, space.baseline(), batch)


@settings(max_examples=15)
@given(case=cases)
def test_settled_place_has_its_score_and_equals_the_derived_state(case: tuple[State, Instance]) -> None:
    state, new = case
    for space, _, block in blocks(state, force=False):
        for member, primary, secondary in np.argwhere(np.isfinite(block.scores))[::5].tolist():
            after = state.copy()
            settling.settle(after, block.trial(member, primary, secondary))
            np.testing.assert_allclose(
                block.scores[member, primary, secondary],
                score_of(after, space.scope),
                rtol=1e-9,
                atol=ROUNDED,
            )
            fresh = described(after, new)
            for name in after.columns.changing():
                if name != "fail_n1":  # judged by other rules once something changes
                    ours, theirs = (figures(getattr(each.columns, name)) for each in (after, fresh))
                    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9, err_msg=name)
            np.testing.assert_array_equal(after.peers, fresh.peers)
            np.testing.assert_array_equal(after.tag_counts, fresh.tag_counts)


@settings(max_examples=15)
@given(case=cases)
def test_places_of_possible_moves_have_the_score_of_the_move(case: tuple[State, Instance]) -> None:
    state, _ = case
    for force in (False, True):
        for space, batch, block in blocks(state, force):
            at = {int(node): position for position, node in enumerate(space.targets)} | {NOWHERE: 0}
            for member, kind in (
                (one, each) for one in range(len(batch.rows)) for each in KINDS[batch.mirror]
            ):
                index = int(batch.rows[member])
                own = int(state.pnode[index]), int(state.snode[index])
                for node in space.targets.tolist() if kind.takes_node else [NOWHERE]:
                    place = kind.nodes(*own, node)
                    if node in own or not set(place) <= set(at):
                        continue
                    trial = try_move(space.facts, batch, member, kind, node, force)
                    if trial.codes[0] == FITS:
                        after = state.copy()
                        settling.settle(after, trial)
                        score = block.scores[member, at[place[0]], at[place[1]]]
                        np.testing.assert_allclose(
                            score, score_of(after, space.scope), rtol=1e-9, atol=ROUNDED, err_msg=kind.value
                        )
