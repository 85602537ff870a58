"""The best of all moves of all instances to all nodes, found without looking at most of them.

A move replaces the figures of up to three nodes. For each component of the score that is a standard
deviation, what the nodes that are left contribute to its variance is known for each instance, what a
new node contributes for each kind of instance and each node. The root of a sum is not the sum of the
roots, but a chord of the root, from the least to the most that a variance can become, lies below it:
with chords, the score of a move is at least what the nodes that are left give plus what the new node
gives. The least of these bounds for an instance tells whether any of its moves can be the best. Those
that can are scored; what lies closest together is scored afresh, as Ganeti's htools do it.

A new node that has instances in common with the nodes that an instance has keeps memory free for them
already. It is rated as if it had none, which is never worse (on few nodes, not by much: see
:func:`.step_search.worth`), and looked at when it would win.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ganeti_htools.engine.balancing.baseline import Baseline
from ganeti_htools.engine.balancing.batches import Batch, NodeFacts
from ganeti_htools.engine.balancing.effects import ScoreParts
from ganeti_htools.engine.balancing.new_nodes import NewNodes
from ganeti_htools.engine.balancing.own_nodes import May, OwnNodesByKind
from ganeti_htools.engine.balancing.scoring import (
    MoveCandidates,
    ScoredMoves,
    SearchSpace,
    location_exclusion_changes,
)
from ganeti_htools.engine.balancing.step_search import MoveReport, StepSearch
from ganeti_htools.engine.balancing.ties import BestMove, best_of
from ganeti_htools.engine.rules import affinity
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.moves import KINDS


class Search:
    """Finds the best move, again and again as moves are made. ``may`` says which are allowed at all.

    For each batch it keeps what becomes of the nodes its instances have (``own``), and of new ones (``new``:
    as secondaries and as primaries, see :attr:`MoveKind.to_primary`).
    """

    @np.errstate(invalid="ignore", divide="ignore", over="ignore")  # nodes that report nothing
    def __init__(
        self, facts: NodeFacts, batches: Sequence[Batch], scope: Bools, force: bool, may: May
    ) -> None:
        self.state, offline = facts.state, facts.state.columns.offline
        parts, targets = ScoreParts(self.state, scope), np.flatnonzero(scope & ~offline)
        self.space = SearchSpace(facts, parts, scope, targets, force)
        forces = [force] if force or not (scope & offline).any() else [False, True]
        self.batches, self.own, self.new = list(batches), list[OwnNodesByKind](), list[dict[bool, NewNodes]]()
        for batch in batches:
            kinds = KINDS[batch.mirror]
            self.own.append(OwnNodesByKind(facts, parts, batch, kinds, force, may))
            first_of = {kind.to_primary: kind for kind in reversed(kinds) if kind.takes_node and len(targets)}
            self.new.append(
                {
                    to_primary: NewNodes(facts, parts, batch, kind, targets, forces)
                    for to_primary, kind in first_of.items()
                }
            )

    def note(self, *trials: Trial) -> None:
        """Take note of moves that have been settled."""
        nodes = np.array(sorted({int(node.rows[0]) for trial in trials for node in trial.changes}))
        self.space.facts.refresh(nodes)
        concerned = np.zeros(len(self.space.scope) + 1, np.bool_)  # the last one stands for NOWHERE
        concerned[nodes] = True
        for batch, own, new in zip(self.batches, self.own, self.new, strict=True):
            p, s = self.state.pnode[batch.rows], self.state.snode[batch.rows]
            members = np.flatnonzero(concerned[p] | concerned[s])
            if len(members):
                own.refresh(members)
            for each in new.values():
                each.refresh(nodes)

    @np.errstate(invalid="ignore", divide="ignore", over="ignore")  # nodes that report nothing
    def best(
        self, current: float, barred: Bools | None = None, report: MoveReport | None = None
    ) -> BestMove | None:
        """The move that leaves the lowest score below the ``current`` one; of equal ones the first.

        That is in the order of instances, a failover before all else, new nodes in order, and for each of
        them kinds in the order of their table. Instances that are ``barred`` stay. Who wants to know of each
        move gives a ``report``.
        """
        baseline = self._baseline()
        search = StepSearch(self.space, baseline, current, report=report)
        found = search.moves(list(self._candidates(barred)))
        return best_of(self.space, baseline, found, search.limit)

    @np.errstate(invalid="ignore", divide="ignore", over="ignore")
    def within(self, current: float, loss: float, barred: Bools, most: int) -> list[ScoredMoves]:
        """Moves that leave a score of at most ``loss`` above the lower of ``current`` and the best: all,
        or about as many as ``most``.
        """
        search = StepSearch(self.space, self._baseline(), current, loss, most)
        return search.moves(list(self._candidates(barred)))

    def _baseline(self) -> Baseline:
        return Baseline(self.space.parts, affinity.location_exclusion(self.state, self.space.scope))

    def _candidates(self, barred: Bools | None) -> Iterator[MoveCandidates]:
        """All moves that may be made now, by batch and kind."""
        for batch, own, new in zip(self.batches, self.own, self.new, strict=True):
            exclusion = location_exclusion_changes(self.space, batch)
            for kind, nodes in own.kinds.items():
                may, free = nodes.may, nodes.free
                if barred is not None:
                    may, free = may & ~barred[batch.rows], free & ~barred[batch.rows]
                there = new.get(kind.to_primary) if kind.takes_node else None
                yield MoveCandidates(batch, kind, may, free, nodes, there, exclusion)
