"""Changes of the nodes that instances leave, or on which their role changes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.baseline import Baseline
from ganeti_htools.engine.balancing.chords import Chords, Span
from ganeti_htools.engine.balancing.effects import Effect, ScoreParts
from ganeti_htools.engine.balancing.new_nodes import NewNodes
from ganeti_htools.engine.rules.batches import Batch, NodeFacts
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.relocate import own_node_changes
from ganeti_htools.engine.rules.trial import NodeChange
from ganeti_htools.model.columns import Bools, Floats, Ints
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.state import State


class NodeProducts:
    """Changes of ``spreads`` on the nodes of a batch's instances by kinds of moves.

    An instance takes from a node what it brings to a new one (:class:`.NewNodes`): ``amounts`` (roles by
    spreads by instances) times ``units`` (roles by spreads by targets, and 0 for all other nodes).
    """

    def __init__(
        self,
        state: State,
        batch: Batch,
        kinds: Iterable[MoveKind],
        new: Mapping[bool, NewNodes],
        spreads: Sequence[int],
    ) -> None:
        self.state, self.rows, self.spreads = state, batch.rows, np.array(spreads, np.int64)
        targets = next((each.targets for each in new.values()), np.zeros(0, np.int64))
        self.places = np.full(len(state.group) + 1, len(targets))  # the last entry stands for NOWHERE
        self.places[targets] = np.arange(len(targets))
        self.amounts = np.zeros((len(new), len(spreads), len(batch.rows)))
        self.units = np.zeros((len(new), len(spreads), len(targets) + 1))
        for role, to_primary in enumerate(sorted(new, reverse=True)):
            table = new[to_primary]
            for row, which in enumerate(spreads):
                if which in table.amounts:
                    self.amounts[role, row] = table.amounts[which][table.classes]
                    self.units[role, row, :-1] = table.units[which]
        # 1 if the instance comes to one of its nodes in a role, -1 if it goes (kinds by nodes by roles).
        roles = np.arange(len(new))
        after = np.array([kind.nodes(0, 1, 2) for kind in kinds])[:, : len(new)]
        self.signs = (after[:, np.newaxis] == roles[:, np.newaxis]) - np.eye(len(new))

    def changes(self, members: Ints, heights: Floats) -> tuple[Floats, Floats]:
        """Compute the changes of sums and of sums of squares (kinds by spreads by members).

        ``heights`` are those of the targets (all spreads by targets, see :class:`.Totals`).
        """
        rows = self.rows[members]
        nodes = np.stack([self.state.pnode[rows], self.state.snode[rows]])[: len(self.amounts)]
        places = self.places[nodes]
        amounts, units = self.amounts.take(members, axis=2), self.units.take(places, axis=2)
        parts = amounts[:, np.newaxis] * units.swapaxes(1, 2)
        changes = (self.signs[..., np.newaxis, np.newaxis] * parts.swapaxes(0, 1)).sum(axis=2)
        above = heights.take(np.minimum(places, heights.shape[1] - 1), axis=1)[self.spreads]
        squares = changes * (changes + 2 * above.swapaxes(0, 1))
        return changes.sum(axis=1), squares.sum(axis=1)


BLOCK = 1 << 15  # instances in one computation
May = Callable[[Batch, MoveKind], Bools]  # selects the members that may move in this way at all


class OwnNodes(NamedTuple):
    """Changes of the nodes of a batch's instances by moves of one kind.

    ``changes`` and ``squares`` are those of each spread (spreads by members), ``rest`` the change of all
    other components. ``may`` marks the members that may move in this way, ``free`` those of them that their
    own nodes do not prevent. ``base`` is the members' part of linear bounds (:mod:`.chords`), ``start`` is
    the start of all these bounds.
    """

    changes: Floats
    squares: Floats
    rest: Floats
    may: Bools
    free: Bools
    base: Floats
    start: Floats


class OwnNodesByKind:
    """Changes of the nodes of a batch, for each kind of moves that it may make.

    ``every`` has the same for all kinds: arrays with one more axis, the first. ``span`` covers the parts of
    free members (kinds by spreads) since the slopes of bounds were chosen.

    Where an instance changes a new node by a product (:class:`.NewNodes`), it changes its own nodes by the
    same product (``products``). The rules compute all other changes.
    """

    def __init__(
        self,
        facts: NodeFacts,
        parts: ScoreParts,
        batch: Batch,
        kinds: Sequence[MoveKind],
        force: bool,
        may: May,
        new: Mapping[bool, NewNodes],
    ) -> None:
        self.facts, self.parts, self.batch, self.force, self.may = facts, parts, batch, force, may
        number, spreads, size = len(kinds), len(parts.leaders), len(batch.rows)
        changes, squares = np.zeros((2, number, spreads, size))
        rest, base = np.zeros((2, number, size))
        allowed, free = np.zeros((2, number, size), np.bool_)
        self.every = OwnNodes(changes, squares, rest, allowed, free, base, np.zeros((number, 1)))
        self.kinds = {kind: OwnNodes(*(each[row] for each in self.every)) for row, kind in enumerate(kinds)}
        self.span = Span.none(number, spreads)
        irregular = {which for each in new.values() for which in each.pairs} if new else range(spreads)
        regular = [which for which in range(spreads) if which not in irregular]
        self._irregular = sorted(irregular)
        self.products = NodeProducts(facts.state, batch, kinds, new, regular)
        self._chords: Chords | None = None
        self._stale = list[tuple[Ints, Floats]]()  # members with changes and squares
        everyone = np.arange(size)
        for start in range(0, size, BLOCK):
            self.refresh(everyone[start : start + BLOCK])

    def refresh(self, members: Ints) -> None:
        """Compute the changes of members of the batch anew."""
        batch, every = self.batch.take(members), self.every
        found = own_node_changes(self.facts, batch, self.kinds, self.force)
        effects, before = dict[NodeChange, Effect](), dict[int, dict[int, Any]]()
        rest = np.zeros((len(found), len(members)))
        figures = np.zeros((2, *every.changes.shape[:2], len(members)))  # changes and squares
        for row, (touched, _) in enumerate(found.values()):
            for own, node in enumerate(touched):  # the primary, then the secondary
                if node not in effects:
                    known = before.setdefault(own, {})
                    effects[node] = self.parts.effect(node, self._irregular, known)
                rest[row] += effects[node].rest
                for which, (change, square) in effects[node].spreads.items():
                    figures[0, row, which] += change
                    figures[1, row, which] += square
        may = np.array([self.may(batch, kind) for kind in found])
        every.rest[:, members], every.may[:, members] = rest, may
        every.free[:, members] = may & (np.array([codes for _, codes in found.values()]) == FITS)
        self._stale.append((members, figures))

    def bound(self, chords: Chords, heights: Floats) -> None:
        """Bring the members' parts of bounds and their ranges up to date.

        ``heights`` are those of the nodes that may be new (:class:`.Totals`).
        """
        every = self.every
        for members, figures in self._stale:
            figures[:, :, self.products.spreads] = self.products.changes(members, heights)
            every.changes[:, :, members], every.squares[:, :, members] = figures
            if chords is self._chords:
                self._extend(chords, members, *figures)
        if chords is not self._chords:
            self._chords, self.span = chords, Span.none(*self.span.low.shape)
            self._extend(chords, slice(None), every.changes, every.squares)
        self._stale = []

    def _extend(self, chords: Chords, members: Ints | slice, changes: Floats, squares: Floats) -> None:
        """Compute the parts of bounds of members, with their changes (kinds by spreads by members)."""
        about, every = chords.squares(changes, squares), self.every
        every.base[:, members] = np.einsum("i,kij->kj", chords.slopes, about) + every.rest[:, members]
        self.span = self.span.covering(Span.of(about, changes, every.free[:, np.newaxis, members]))


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
