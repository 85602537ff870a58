"""Search for the best of all moves of all instances to all nodes, without looking at most moves.

``docs/engine.md`` has an example with numbers.

A move replaces the figures of up to three nodes. The changes of the nodes that are left are known for each
instance, those of new nodes for each class of instances and each node.

A lower bound of each move follows from chords (:mod:`.chords`): the score of a move is at least a part of the
nodes that are left plus a part of the new node. Both parts are kept from step to step. A step computes those
of the nodes that it has touched, and a start for all bounds. The lowest bound of an instance decides whether
any of its moves can be the best. Only those moves are scored, the most promising ones first. Moves whose
scores lie close together are scored afresh, as Ganeti's htools do it.

A new node that has instances in common with the instance's other node keeps memory free for them already. The
bound neglects this, which makes a score lower, but on few nodes it can be higher (see
:func:`.step_search.worth`). Such moves are scored by the rules if they would win.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ganeti_htools.engine.balancing.baseline import Baseline
from ganeti_htools.engine.balancing.chords import Chords, Span
from ganeti_htools.engine.balancing.new_nodes import NewNodes
from ganeti_htools.engine.balancing.own_nodes import May, OwnNodesByKind
from ganeti_htools.engine.balancing.scoring import MoveCandidates, SearchSpace, location_exclusion_changes
from ganeti_htools.engine.balancing.step_search import LEAST, MoveReport, StepSearch
from ganeti_htools.engine.balancing.ties import CLOSE, BestMove, best_of
from ganeti_htools.engine.rules.batches import Batch, NodeFacts
from ganeti_htools.engine.rules.score import statistics
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.moves import KINDS

OLDEST = 24  # steps for which slopes are kept
# Slopes are chosen anew when bounds have let pass so many moves for each instance.
PASSED = 2.0


class KeptBounds:
    """Bounds of the moves of all batches: own parts and new parts, each with the nodes' changes."""

    def __init__(
        self, own: Sequence[OwnNodesByKind], new: Sequence[Mapping[bool, NewNodes]], instances: int
    ) -> None:
        self.own, self.new, self.instances = own, new, instances
        self.chords: Chords | None = None
        self.steps = self.passed = 0

    def update(self, baseline: Baseline) -> None:
        if not self.own:
            return
        self.steps += 1
        if self.chords is None:
            level = Chords(np.zeros_like(baseline.means), baseline.means, baseline.numbers)
            self._update(level, baseline)
            self._renew(baseline)
        else:
            self._update(self.chords, baseline)
            if self.steps > OLDEST or self.passed > PASSED * self.instances:
                self._renew(baseline)
        assert self.chords is not None
        for own, new in zip(self.own, self.new, strict=True):
            own.every.start[:, 0] = baseline.starts(self.chords, *_spans(own, new))

    def _renew(self, baseline: Baseline) -> None:
        """Choose slopes by the present ranges and variances."""
        spans = [_spans(own, new) for own, new in zip(self.own, self.new, strict=True)]
        own, new = (Span(*map(np.concatenate, zip(*each, strict=True))) for each in zip(*spans, strict=True))
        some: Bools = np.isfinite(own.low[..., 0])
        self.chords = baseline.chords(own.take(some), new.take(some))
        self.steps = self.passed = 0
        self._update(self.chords, baseline)

    def _update(self, chords: Chords, baseline: Baseline) -> None:
        for own, new in zip(self.own, self.new, strict=True):
            own.bound(chords, baseline.heights)
            for each in new.values():
                each.bound(chords, baseline.heights)


def _spans(own: OwnNodesByKind, new: Mapping[bool, NewNodes]) -> tuple[Span, Span]:
    """Find the ranges of own and new parts for each kind of moves (kinds by spreads)."""
    nothing = Span(*np.zeros((4, own.span.low.shape[-1])))
    spans = [new[kind.to_primary].span if kind.takes_node and new else nothing for kind in own.kinds]
    return own.span, Span(*np.array(spans).swapaxes(0, 1))


class Search:
    """The search for the best move, repeated as moves are made. ``may`` selects the allowed moves.

    For each batch it keeps the changes of the instances' own nodes (``own``) and of new nodes (``new``: as
    secondaries and as primaries, see :attr:`MoveKind.to_primary`).
    """

    @np.errstate(invalid="ignore", divide="ignore", over="ignore")  # nodes that report nothing
    def __init__(
        self, facts: NodeFacts, batches: Sequence[Batch], scope: Bools, force: bool, may: May
    ) -> None:
        self.state, offline = facts.state, facts.state.columns.offline
        self.space = SearchSpace.of(facts, scope, force)
        parts, targets = self.space.parts, self.space.targets
        forces = [force] if force or not (scope & offline).any() else [False, True]
        self.batches, self.own, self.new = list(batches), list[OwnNodesByKind](), list[dict[bool, NewNodes]]()
        for batch in batches:
            kinds = KINDS[batch.mirror]
            first_of = {kind.to_primary: kind for kind in reversed(kinds) if kind.takes_node and len(targets)}
            new = {
                to_primary: NewNodes(facts, parts, batch, kind, targets, forces)
                for to_primary, kind in first_of.items()
            }
            self.new.append(new)
            self.own.append(OwnNodesByKind(facts, parts, batch, kinds, force, may, new))
        self.share = LEAST  # of the highest possible gain, where the next step begins
        self.baseline: Baseline | None = None  # once it is needed
        self.bounds = KeptBounds(self.own, self.new, sum(len(batch.rows) for batch in batches))

    def note(self, *trials: Trial) -> None:
        """Update the search after moves that have been settled."""
        nodes = np.array(sorted({int(node.rows[0]) for trial in trials for node in trial.changes}))
        self.space.facts.refresh(nodes)
        self.baseline = None
        concerned = np.zeros(len(self.space.scope) + 1, np.bool_)  # the last entry stands for NOWHERE
        concerned[nodes] = True
        there = concerned[self.state.pnode] | concerned[self.state.snode]
        for batch, own, new in zip(self.batches, self.own, self.new, strict=True):
            members = np.flatnonzero(there[batch.rows])
            if len(members):
                own.refresh(members)
            for each in new.values():
                each.refresh(nodes)

    @np.errstate(invalid="ignore", divide="ignore", over="ignore")  # nodes that report nothing
    def score(self) -> float:
        """Compute the present score from nothing."""
        baseline = self.baseline = self.baseline or self.space.baseline()
        columns = self.space.parts.columns()
        return float(statistics(columns, baseline.values, baseline.location_exclusion).score())

    @np.errstate(invalid="ignore", divide="ignore", over="ignore")  # nodes that report nothing
    def best(
        self,
        current: float,
        barred: Bools | None = None,
        report: MoveReport | None = None,
        rough: bool = False,
        enough: float | None = None,
    ) -> BestMove | None:
        """Find the move that leaves the lowest score below the ``current`` one; of equal ones the first.

        The order is that of instances; a failover comes before all other moves, then new nodes in order, and
        for each new node the kinds in the order of their table. Instances that are ``barred`` stay.
        ``report`` gets each move. With ``rough``, ``current`` is right to about 1e-8 only. So is the score of
        a single best move that is clearly better than ``enough``.
        """
        baseline = self.baseline = self.baseline or self.space.baseline()
        self.bounds.update(baseline)
        search = StepSearch(self.space, baseline, current, CLOSE if rough else 0.0, report, self.share)
        found = search.moves(list(self.candidates(barred)))
        self.bounds.passed += search.scored
        self.share = search.share
        return best_of(self.space, baseline, found, search.limit, enough)

    def candidates(self, barred: Bools | None = None) -> Iterator[MoveCandidates]:
        """Yield all moves that may be made now, by batch and kind."""
        for batch, own, new in zip(self.batches, self.own, self.new, strict=True):
            exclusion = location_exclusion_changes(self.space, batch)
            for kind, nodes in own.kinds.items():
                may, free = nodes.may, nodes.free
                if barred is not None:
                    may, free = may & ~barred[batch.rows], free & ~barred[batch.rows]
                arriving = new.get(kind.to_primary) if kind.takes_node else None
                yield MoveCandidates(batch, kind, may, free, nodes, arriving, exclusion)
