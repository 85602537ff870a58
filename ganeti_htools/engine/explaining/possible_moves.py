"""All single moves of instances: the reason against each, or its effect on the score."""

from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.balancing.balance import search_of
from ganeti_htools.engine.balancing.scoring import ScoredMoves
from ganeti_htools.engine.explaining.places import ExplainedPlace, places, with_broken_rules, with_lacks
from ganeti_htools.engine.rules import choice
from ganeti_htools.engine.rules.batches import batches_of
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import Fail


@dataclass(frozen=True, slots=True)
class PossibleMove:
    """A move: the row of the new node (NOWHERE for a failover), and the resulting place."""

    kind: MoveKind
    node: int
    place: ExplainedPlace


def possible_moves(
    state: State, scope: Bools, chosen: Bools, options: BalancingOptions
) -> dict[int, list[PossibleMove]]:
    """Explain all moves of each chosen instance (row) in the search for a balancing step.

    These are all moves that the options allow, to the online nodes in scope, in node order. Instances on
    local storage without a mirror have none.
    """
    found: dict[int, list[PossibleMove]] = {index: [] for index in np.flatnonzero(chosen).tolist()}
    base = choice.base(state, scope)

    def report(judged: ScoredMoves, trial: Trial) -> None:
        rows, each = (
            judged.batch.rows[judged.members],
            places(trial, np.ones(trial.codes.shape, np.bool_), base),
        )
        for index, node, place in zip(rows.tolist(), judged.new.tolist(), each, strict=True):
            if judged.kind.takes_node:
                source = judged.kind.copied_from(*state.node_pair(index))
                asked = state.instance(index)
                place = with_lacks(place, state, asked, node, NOWHERE if source is None else source)
            elif place.why == Fail.RULE.value:
                place = with_broken_rules(place, state, state.instance(index))
            found[index].append(PossibleMove(judged.kind, node, place))

    batches, facts = batches_of(state, chosen)
    search_of(facts, batches, scope, options).best(float(base.score()), report=report)
    return {index: sorted(moves, key=lambda move: move.node) for index, moves in found.items()}
