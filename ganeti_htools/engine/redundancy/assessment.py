"""Global N+1 redundancy: could every node be lost, one at a time, and all its instances live on?

The rule is that of Ganeti's htools (``GlobalN1.hs``); :mod:`.rule` has it. Only losses that :mod:`.bounds`
leaves unproved are simulated, and the rule itself is tried where :mod:`.simulate` cannot tell.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ganeti_htools.engine.redundancy.bounds import RedundancyBounds, bounds
from ganeti_htools.engine.redundancy.cache import LossCache
from ganeti_htools.engine.redundancy.rule import can_be_lost, recover
from ganeti_htools.engine.redundancy.simulate import FIGURES, LossBatch, Losses, NewInstances, simulated
from ganeti_htools.engine.rules import placement_rules, placements, settling
from ganeti_htools.engine.rules.components import COMPONENTS
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State

# So many suspects are tried before all losses that are not proved survived.
LIKELY = 6

# On up to so many nodes the losses of all are prepared at once.
FEW_NODES = 64


@dataclass(frozen=True)
class Assessment:
    """The redundancy of a state, with and without new instances; the state must not change."""

    bounds: RedundancyBounds
    cache: LossCache = field(default_factory=LossCache)

    @property
    def state(self) -> State:
        """The state without new instances."""
        return self.bounds.state

    def admissible(self, asked: RequestedInstance, primaries: Ints, secondaries: Ints | None) -> Bools:
        """For each primary (and secondary), False where the state would certainly not be redundant."""
        return self.bounds.admissible(asked, primaries, secondaries)

    def survives(self, asked: RequestedInstance, primary: int, secondary: int = NOWHERE) -> bool:
        """Whether every node can be lost with a new instance on admissible nodes (rows)."""
        return self.fatal_loss(asked, primary, secondary) == NOWHERE

    def fatal_loss(self, asked: RequestedInstance, primary: int, secondary: int = NOWHERE) -> int:
        """A node that cannot be lost with a new instance on admissible nodes; NOWHERE if every node can.

        Nodes whose loss was fatal before are tried first.
        """
        nodes = self.cache.suspects_first(self.bounds.unproved(asked, primary).tolist())
        if not nodes:
            return NOWHERE
        found, entangled = NOWHERE, self.bounds.entangled
        if self.can_batch(asked):
            found = self._first_fatal(
                [each for each in nodes if not entangled[each]], asked, primary, secondary
            )
            nodes = [each for each in nodes if entangled[each]]
        if nodes and found == NOWHERE:
            found = self.bounds.surely_fatal(asked, primary, secondary, nodes)
            if found == NOWHERE:
                placed = self.placed(asked, primary, secondary)
                lost = (node for node in nodes if not can_be_lost(placed, node, self.bounds.scope))
                found = next(lost, NOWHERE)
        if found != NOWHERE:
            self.cache.suspect(found)
        return found

    def fatal_alone(self, node: int) -> bool:
        """Whether the loss of a node is fatal as the state is, by simulation where need be."""
        return node in self.bounds.unproved() and not self._survived([node])[0]

    def refuted(self, new: NewInstances) -> Bools:
        """For each new instance by itself, True where the loss of a likely suspect is fatal with it.

        All False where only the rule can tell, for it is slow.
        """
        number = len(new.which)
        known = self.bounds.checked & ~self.bounds.entangled
        suspects = [node for node in self.cache.suspects if known[node]][:LIKELY]
        if not suspects or not number or not all(map(self.can_batch, new.sizes)):
            return np.zeros(number, np.bool_)
        losses = self._losses(suspects)
        assert losses is not None
        each = np.repeat(np.arange(number), len(suspects))
        survived = _in_chunks(losses, np.tile(losses.positions(suspects), number), new.take(each))
        return np.asarray(~survived.reshape(number, -1).all(axis=1))

    def survives_in_turn(self, asked: RequestedInstance, primaries: Sequence[int]) -> int:
        """The number of equal unmirrored instances on these primaries, one after the other, that are
        survived.

        It may be less than the truth: it is 0 where only the rule can tell.
        """
        bounds, exclusive = self.bounds, self.state.columns.excl_stor.any()
        if bounds.some_fatal or not self.can_batch(asked) or (exclusive and len(bounds.mirrored)):
            return 0
        came = _one_hot(primaries, len(bounds.free)).cumsum(axis=0)
        tight = (bounds.free - came * asked.record_mem <= bounds.expected).any(axis=1)
        number = int(tight.argmax()) if tight.any() else len(primaries)
        nodes = bounds.unproved(asked, *primaries[:number]).tolist() if number else []
        if not nodes or bounds.entangled[nodes].any():
            return 0 if nodes else number
        losses = self._losses(nodes)
        assert losses is not None
        positions = losses.positions(nodes)
        steps = max(1, FIGURES // (losses.values[0].size * len(positions)))
        for start in range(0, number, steps):
            some = np.arange(start, min(start + steps, number))
            batch = LossBatch(losses, np.tile(positions, len(some)))
            which = np.zeros(len(batch.rows), np.int64)
            batch.place_primaries([asked], which, np.repeat(came[some], len(positions), axis=0))
            fails = ~batch.survived().reshape(len(some), -1).all(axis=1)
            if fails.any():
                return start + int(fails.argmax())
        return number

    def holds(self) -> bool:
        return not self.bounds.some_fatal and bool(self._survived(self.bounds.unproved().tolist()).all())

    def fragile(self) -> Bools:
        """The nodes whose loss is fatal as the state is."""
        fragile = self.bounds.fatal & self.bounds.checked
        nodes = [node for node in self.bounds.unproved().tolist() if not fragile[node]]
        fragile[nodes] = ~self._survived(nodes)
        return fragile

    def fatal_by_rules(self) -> list[int]:
        """The nodes whose loss is fatal, perhaps for rules of their instances."""
        hosts = placement_rules.hosts(self.state)
        fatal = hosts & self.bounds.fatal & self.bounds.checked
        unsure = [node for node in self.bounds.unproved().tolist() if hosts[node] and not fatal[node]]
        fatal[unsure] = ~self._survived(unsure)
        return np.flatnonzero(fatal).tolist()

    def can_batch(self, asked: RequestedInstance) -> bool:
        """Whether losses with a new instance are simulated; otherwise the rule is tried."""
        columns = self.state.columns
        if asked.forthcoming or len(asked.tags) or placement_rules.is_ruled(self.state, asked):
            return False
        if not self._simulable:
            return False
        return asked.spindles is not None or not columns.excl_stor.any()

    @cached_property
    def _simulable(self) -> bool:
        nodes = np.flatnonzero(self.bounds.checked)[:1].tolist()
        return self._losses(nodes) is not None

    @cached_property
    def _all_losses(self) -> Losses | None:
        lost = np.flatnonzero(self.bounds.checked & ~self.bounds.fatal)
        return simulated(self.state, lost, self.bounds.scope, self.cache)

    def _losses(self, nodes: Sequence[int]) -> Losses | None:
        """The losses of some nodes, and perhaps others."""
        if len(self.state.group) <= FEW_NODES:
            return self._all_losses
        return simulated(self.state, np.sort(np.array(nodes, np.int64)), self.bounds.scope, self.cache)

    def _parts(self, nodes: Sequence[int]) -> Iterator[Sequence[int]]:
        """The nodes, so many at a time that their losses are prepared together."""
        size = len(self.state.group)
        number = len(nodes) if size <= FEW_NODES else max(1, FIGURES // (size * len(COMPONENTS)))
        for start in range(0, len(nodes), max(1, number)):
            yield nodes[start : start + number]

    def _survived(self, nodes: Sequence[int]) -> Bools:
        """Whether the loss of each node is survived as the state is."""
        entangled, survived = self.bounds.entangled, dict[int, bool]()
        for some in self._parts([node for node in nodes if not entangled[node]]):
            losses = self._losses(some)
            if losses is not None:
                batch = LossBatch(losses, losses.positions(some))
                survived |= zip(some, batch.survived().tolist(), strict=True)
        others = (node for node in nodes if node not in survived)
        survived |= {node: can_be_lost(self.state, node, self.bounds.scope) for node in others}
        return np.array([survived[node] for node in nodes], np.bool_)

    def _first_fatal(
        self, nodes: Sequence[int], asked: RequestedInstance, primary: int, secondary: int
    ) -> int:
        """The first of some nodes that cannot be lost with a new instance, NOWHERE if all can."""
        likely = LIKELY if nodes and nodes[0] in self.cache.suspects else 0
        for some in (*self._parts(nodes[:likely]), *self._parts(nodes[likely:])):
            losses = self._losses(some)
            assert losses is not None
            rows = losses.positions(some)
            survived = _in_chunks(
                losses, rows, NewInstances.of(asked, np.full(len(some), primary), secondary)
            )
            if not survived.all():
                return some[int(np.argmin(survived))]
        return NOWHERE

    def placed(self, asked: RequestedInstance, primary: int, secondary: int) -> State:
        """The state with a new instance on these nodes."""
        state, p, s = self.state.copy(), np.array([primary]), np.array([secondary])
        if secondary == NOWHERE:
            trial = placements.allocate_one(state, asked, p, state.everywhere, force=True)
        else:
            trial = placements.allocate_pairs(state, asked, p, s, state.peers[p, s], force=True)
        settling.settle(state, trial)
        return state


def _in_chunks(losses: Losses, rows: Ints, new: NewInstances) -> Bools:
    """Whether each loss (row) is survived with a new instance placed before."""
    survived = np.ones(len(rows), np.bool_)
    number = max(1, FIGURES // losses.values[0].size)
    for start in range(0, len(rows), number):
        some = slice(start, start + number)
        batch = LossBatch(losses, rows[some])
        batch.place(new.take(some))
        survived[some] = batch.survived()
    return survived


def _one_hot(nodes: Sequence[int] | Ints, size: int) -> Ints:
    found = np.zeros((len(nodes), size), np.int64)
    found[np.arange(len(nodes)), nodes] = 1
    return found


def assess(
    state: State,
    scope: Bools,
    options: PlacementOptions,
    spared: Bools | None = None,
    cache: LossCache | None = None,
) -> Assessment:
    """Assess the nodes in scope before anything is placed; the loss of ``spared`` nodes does not count.

    Measured load decides nothing here.
    """
    state = state.without_load()
    checked = scope & ~state.columns.offline if options.accept_existing else scope
    if spared is not None:
        checked = checked & ~spared
    return Assessment(bounds(state, scope, checked), cache or LossCache())


def excusing(found: Assessment) -> Assessment:
    """Return the assessment for requests: rules of a few instances do not refuse all of them.

    A loss that is fatal already, and would not be without the rules of the node's instances, refuses nobody:
    these instances are excused, that is, judged without their rules.
    """
    state, scope = found.state, found.bounds.scope
    excused = [row for node in found.fatal_by_rules() for row in _excused(state, node, scope)]
    if not excused:
        return found
    without = placement_rules.without_rules(state, excused)
    return replace(found, bounds=bounds(without, scope, found.bounds.checked))


def _excused(state: State, node: int, scope: Bools) -> frozenset[int]:
    """Find the instances (rows) without whose rules the loss of a node is survived; none if it is not.

    Few of them: those that do not come back first, then all that have rules.
    """
    assert state.rules is not None
    ruled = frozenset(np.flatnonzero(state.rules.instances.any & (state.pnode == node)).tolist())
    excused = frozenset[int]()
    while True:
        tried = placement_rules.without_rules(state, excused).copy()
        lost = {each.instance for each in recover(tried, node, scope) if each.node == NOWHERE}
        if not lost:
            return excused
        more = (lost & ruled) - excused or ruled - excused
        if not more:
            return more
        excused |= more
