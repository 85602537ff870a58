"""Scores of many moves at once, computed from what the moves change (``docs/engine.md``).

:func:`relocations` combines the known changes of own and new nodes. :func:`exact` applies the rules to all
nodes of a move. Tests compare the two with each other and with the score of the state after the move.
"""

from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.baseline import Baseline
from ganeti_htools.engine.balancing.effects import ScoreParts, added
from ganeti_htools.engine.balancing.new_nodes import NewNodes
from ganeti_htools.engine.balancing.own_nodes import OwnNodes
from ganeti_htools.engine.rules import affinity
from ganeti_htools.engine.rules.batches import Batch, NodeFacts
from ganeti_htools.engine.rules.components import COMPONENTS, LOCATION_EXCLUSION, WEIGHTS
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.relocate import (
    location_exclusion_of_moves,
    migrates,
    nodes_after,
    obeys,
    relocate,
)
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints
from ganeti_htools.model.moves import MoveKind

# Change of the score by one more in the column of locations.
PER_LOCATION = sum(
    each.weight * (each.formula(None, 1) - each.formula(None, 0))
    for each in COMPONENTS
    if each.figures == ("location",)
)


class SearchSpace(NamedTuple):
    """The space of a search: the nodes in scope, the nodes that may be new to instances (``targets``, rows),
    and whether soft limits are dropped (``force``).
    """

    facts: NodeFacts
    parts: ScoreParts
    scope: Bools
    targets: Ints
    force: bool

    @classmethod
    def of(cls, facts: NodeFacts, scope: Bools, force: bool) -> "SearchSpace":
        targets = np.flatnonzero(scope & ~facts.state.columns.offline)
        return cls(facts, ScoreParts(facts.state, scope), scope, targets, force)

    def baseline(self) -> Baseline:
        return Baseline(self.parts, affinity.location_exclusion(self.facts.state, self.scope))


class MoveCandidates(NamedTuple):
    """The moves of one kind that members of a batch may make now.

    * ``may``: the members that are allowed to move.
    * ``free``: those of them that their own nodes do not prevent.
    * ``own`` and ``new``: the changes of nodes; ``new`` is None if the move takes no new node.
    * ``location_exclusion``: the weighted change of the location exclusion score when members go to nodes
      (members by nodes), None if there is none.
    """

    batch: Batch
    kind: MoveKind
    may: Bools
    free: Bools
    own: OwnNodes
    new: NewNodes | None
    location_exclusion: Floats | None


class ScoredMoves(NamedTuple):
    """Moves of one kind: members of a batch, rows of new nodes (NOWHERE for failovers), scores.

    ``changes`` and ``squares`` are those of each spread (spreads by moves).
    """

    batch: Batch
    kind: MoveKind
    members: Ints
    new: Ints
    scores: Floats
    changes: Floats
    squares: Floats

    def take(self, which: Any) -> "ScoredMoves":
        members, new, scores = self.members[which], self.new[which], self.scores[which]
        changes, squares = self.changes[:, which], self.squares[:, which]
        return ScoredMoves(self.batch, self.kind, members, new, scores, changes, squares)

    @property
    def new_nodes(self) -> Ints | None:
        return self.new if self.kind.takes_node else None

    def trial(self, space: SearchSpace) -> Trial:
        """Try the moves: a trial whose candidates each have a member of their own."""
        batch, new = self.batch.take(self.members), self.new_nodes
        changes, codes = relocate(space.facts, batch, self.kind, space.force, new)
        location_exclusion = location_exclusion_of_moves(space.facts, batch, self.kind, new, space.scope)
        nodes = nodes_after(space.facts.state, batch, self.kind, new)
        return Trial(batch.asked, codes, *nodes, tuple(changes), location_exclusion)


def weighted_location_exclusion(space: SearchSpace, batch: Batch) -> Floats | None:
    """Compute the weighted change of location exclusion when members go to nodes; None if there is none."""
    facts = space.facts
    state = facts.state
    if batch.asked.forthcoming or not batch.tags.any() or not state.location_rows:
        return None
    sources = state.pnode[batch.rows]
    changes = affinity.location_exclusion_changes(state, facts.tag_sets, batch.tags, sources, space.scope)
    return WEIGHTS[LOCATION_EXCLUSION] * changes


def failovers(
    space: SearchSpace, baseline: Baseline, candidates: MoveCandidates, members: Ints
) -> ScoredMoves:
    """Score failovers of members that their nodes do not prevent."""
    batch, own, location_exclusion = candidates.batch, candidates.own, candidates.location_exclusion
    state = space.facts.state
    if state.rules is not None:
        rows = batch.rows[members]
        members = members[obeys(state, candidates.kind, rows, state.pnode[rows], state.snode[rows], None)]
    rest = own.rest[members]
    if location_exclusion is not None:
        rest = rest + location_exclusion[members, state.snode[batch.rows[members]]]
    nowhere = np.full(len(members), NOWHERE)
    changes, squares = own.changes[:, members], own.squares[:, members]
    scores = baseline.scores(changes, squares, rest)
    return ScoredMoves(batch, candidates.kind, members, nowhere, scores, changes, squares)


def relocations(
    space: SearchSpace, baseline: Baseline, candidates: MoveCandidates, members: Ints, places: Ints
) -> tuple[ScoredMoves, Bools]:
    """Score possible moves of members to new nodes, given by their places among the targets.

    Also marks the moves with an inexact score. Their secondary already keeps something free for the
    instance's new primary, which the score neglects, and which may count.
    """
    state, batch, kind = space.facts.state, candidates.batch, candidates.kind
    own, arriving = candidates.own, candidates.new
    assert arriving is not None
    new = space.targets[places]
    p, s = state.pnode[batch.rows[members]], state.snode[batch.rows[members]]
    good = (new != p) & (new != s) & migrates(state, kind, p, s, new)
    good &= obeys(state, kind, batch.rows[members], p, s, new)
    if not good.all():
        members, places, new, p, s = members[good], places[good], new[good], p[good], s[good]
    came = arriving.changes(arriving.classes[members], places)
    changes = own.changes.take(members, axis=1) + came
    squares = own.squares.take(members, axis=1) + came * (came + 2 * baseline.heights.take(places, axis=1))
    rest = own.rest[members] + arriving.rest[arriving.classes[members], places]
    after = kind.nodes(p, s, new)
    if candidates.location_exclusion is not None and not kind.keeps_primary:
        rest = rest + candidates.location_exclusion[members, after[0]]
    if state.location_rows and kind.mirrored and not batch.asked.forthcoming:
        counts = ~state.columns.offline[p] if kind.keeps_primary else True
        rest = rest + PER_LOCATION * affinity.shared_locations(state, *after) * counts
    scores = baseline.scores(changes, squares, rest)
    found = ScoredMoves(batch, kind, members, new, scores, changes, squares)
    if not kind.mirrored:
        return found, np.zeros(len(new), np.bool_)
    kept = state.peers[after]
    doubtful: Bools = kept > 0
    if kind.after[1] != "secondary":  # a new secondary may keep free more for others anyway
        own_memory: Any = batch.asked.secondary_mem
        doubtful &= kept + own_memory[members] > state.columns.r_mem[after[1]]
    for peers in state.class_peers:
        doubtful |= peers[after] > 0
    return found, doubtful


def exact(space: SearchSpace, baseline: Baseline, trial: Trial) -> tuple[Floats, Floats, Floats]:
    """Score moves by the rules, infinite for impossible ones.

    Also returns the changes of each spread's sum and sum of squares (spreads by moves).
    """
    effects = [space.parts.effect(node) for node in trial.changes]
    changes, squares = added(effects, len(baseline.means), len(trial.codes))
    rest = sum((effect.rest for effect in effects), WEIGHTS[LOCATION_EXCLUSION] * trial.location_exclusion)
    scores = np.where(trial.codes == FITS, baseline.scores(changes, squares, rest), np.inf)
    return scores, changes, squares
