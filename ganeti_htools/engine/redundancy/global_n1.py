"""Global N+1 redundancy: could every node be lost, one at a time, and all its instances live on?

The rule is that of Ganeti's htools (``GlobalN1.hs``); :mod:`.node_loss` has it. Trying it is slow, and rarely
needed. What mirrored instances need follows from sums, and :mod:`.room` proves for most nodes that the
others find room, or that they do not. Only nodes where neither settles it are tried.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from ganeti_htools.engine.redundancy.arrivals import Arrivals
from ganeti_htools.engine.redundancy.displaced import (
    DRBD,
    SURVIVES,
    Displaced,
    displaced_by_node,
    spindles_of,
)
from ganeti_htools.engine.redundancy.loss_simulation import LostNode
from ganeti_htools.engine.redundancy.node_loss import (
    all_can_be_lost,
    bound,
    bound_to_units,
    can_be_lost,
    failed_over,
)
from ganeti_htools.engine.redundancy.room import Free, surely_found, surely_missing
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.options import Options
from ganeti_htools.engine.rules.resources import DISK, MEMORY, SPINDLES, check_hard, declared_limits
from ganeti_htools.engine.rules.storage_limits import disk_limits
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Ints, by_unit, present, sorted_unique
from ganeti_htools.model.policy import Demand, violation
from ganeti_htools.model.state import Asked, State

# Sums are made of these. The property tests of redundancy compare what follows from sums with simulations.
check_hard((MEMORY, DISK, SPINDLES), "global N+1 redundancy")

# How many of a group's roomiest nodes are looked at before all are.
ROOMIEST = 8

# Up to so many nodes, looking at each lost node by itself takes no longer than sums about all.
SMALL = 16

# Up to so many nodes, the states after the failovers off each of them are remembered.
FEW = 64


class Check(Protocol):
    """What a search for a place needs to know of redundancy."""

    def admits(self, asked: Asked, primaries: Ints, secondaries: Ints | None) -> Bools:
        """For each primary (and secondary), False where the state would certainly not be redundant."""

    def confirms(self, trial: Trial, suspects: list[int]) -> bool:
        """Whether a placement on one candidate is redundant, by simulation where need be.

        ``suspects`` are nodes that failed before; they are tried first, and the list is updated.
        """

    def hopeless(self, suspects: list[int]) -> bool:
        """Whether the first of the suspects, which has just failed, would fail even with nothing placed."""


@dataclass(frozen=True, slots=True)
class Redundancy:
    """What holds for every placement on a state; see :func:`assess`.

    ``looked`` are the nodes whose loss counts, ``broken`` those whose loss cannot be survived.
    ``load[p, s]`` is the memory (MiB) that instances of ``p`` need on ``s`` should ``p`` be lost;
    ``pairs`` are the rows of the ``p`` and ``s`` between which there are any, ``mirrored`` those of the
    instances. ``tried`` tells of nodes whether a loss that was simulated is survived, ``doubtful`` of groups
    which losses have to be. ``lost`` are lost nodes once their mirrored instances have failed over, None
    where this cannot be simulated.
    """

    state: State
    scope: Bools
    looked: Bools
    broken: Bools
    free: Ints
    load: Ints
    pairs: tuple[Ints, Ints]
    mirrored: Ints
    displaced: Displaced
    tried: dict[int, bool] = field(default_factory=dict)
    doubtful: dict[int, Ints] = field(default_factory=dict)
    lost: dict[int, LostNode | None] = field(default_factory=dict)
    arrivals: Arrivals = field(default_factory=Arrivals)

    @property
    def missing(self) -> bool:
        """Whether a loss certainly cannot be survived, so that nothing may be placed at all."""
        return bool((self.broken & self.looked).any())

    def admits(self, asked: Asked, primaries: Ints, secondaries: Ints | None) -> Bools:
        """As :class:`Check` says, for a new instance."""
        size = len(self.free)
        if self.missing:
            return np.zeros(
                (len(primaries),) if secondaries is None else (len(primaries), len(secondaries)), np.bool_
            )
        expected = np.full(size, np.iinfo(np.int64).min)
        lost, partners = self.pairs
        counts = self.looked[lost]
        np.maximum.at(expected, partners[counts], self.load[lost, partners][counts])
        good: Bools = self.free - asked.record_mem > expected
        if not asked.local:  # takes spindles all the same, and may leave too few for others to fail over
            columns = self.state.columns
            left = -1 if asked.spindles is None else columns.f_spindles - asked.spindles
            good &= ~(columns.excl_stor & (left < 0) & self._paired)
        if secondaries is None:
            # Without its mirror, DRBD is lost with its node.
            return good[primaries] & ~(self.looked[primaries] & (asked.mirrored and not asked.forthcoming))
        room = self.free > asked.record_mem
        admitted = good[primaries, np.newaxis] & (room[secondaries] | ~self.looked[primaries, np.newaxis])
        # Where the secondary would also have to take over others of the same primary:
        row, column = np.full(size, NOWHERE), np.full(size, NOWHERE)
        row[primaries], column[secondaries] = np.arange(len(primaries)), np.arange(len(secondaries))
        tight = counts & (row[lost] != NOWHERE) & (column[partners] != NOWHERE)
        tight &= self.free[partners] - self.load[lost, partners] <= asked.record_mem
        admitted[row[lost[tight]], column[partners[tight]]] = False
        if self.state.migrates is not None and not asked.forthcoming:
            admitted &= (
                self.state.migrates[primaries[:, np.newaxis], secondaries]
                | ~self.looked[primaries, np.newaxis]
            )
        return admitted

    def _after(self, asked: Asked | None, primary: int, joins: bool = True) -> tuple[Displaced, Free]:
        """What is displaced and what is free with an instance placed; its secondary may be anywhere.

        It takes what RESOURCES declares: ``test_sums_take_what_resources_declare`` compares them. Unless it
        ``joins``, what its primary's loss displaces is not wanted, and stays what it was.
        """
        displaced, columns = self.displaced, self.state.columns
        free = free_on(columns)
        if asked is None or asked.forthcoming:
            return displaced, free
        if joins and not asked.mirrored and not self._bound(asked, primary):
            displaced = displaced.joined(asked, primary)
        everywhere = slice(None) if asked.mirrored else primary
        return displaced, Free(
            _less(free.memory, primary, asked.record_mem),
            tuple(
                _less(room, everywhere, taken) if taken else room
                for room, taken in zip(free.disk, asked.disk, strict=True)
            ),
            _less(free.spindles, everywhere, spindles_of(asked.spindles)),
        )

    def _bound(self, asked: Asked, primary: int) -> bool:
        """Whether a new instance with that primary only could not come back anyway, for its storage units."""
        if not self.state.columns.shape.binds:
            return False
        wants, row = np.array([asked.wants], np.bool_), np.array([primary])
        return bool(bound(self.state, wants, row, row, False, self.scope)[0])

    @property
    def _paired(self) -> Bools:
        """Nodes with a mirrored instance that takes spindles, of a node whose loss counts."""
        state, paired = self.state, np.zeros(len(self.free), np.bool_)
        rows = self.mirrored[state.wants[self.mirrored, SPINDLES.of]]
        rows = rows[self.looked[state.pnode[rows]]]
        paired[state.pnode[rows]] = paired[state.snode[rows]] = True
        return paired

    def unsettled(self, asked: Asked | None = None, primary: int = NOWHERE) -> Ints:
        """Nodes of which only simulation tells whether their loss is survived, after a placement or as is."""
        found = []
        for group in sorted_unique(self.state.group[self.scope]).tolist():
            if asked is None or group != self.state.group[primary]:
                if group not in self.doubtful:
                    self.doubtful[group] = self._doubtful(group, None, NOWHERE)
                found.append(self.doubtful[group])
            else:
                found.append(self._doubtful(group, asked, primary))
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def _doubtful(self, group: int, asked: Asked | None, primary: int) -> Ints:
        """Those of a group, to whose nodes alone the placement makes a difference."""
        displaced, free = self._after(asked, primary)
        moved_mem = asked.record_mem if asked is not None and asked.mirrored else 0
        mates = np.flatnonzero(self.scope & (self.state.group == group))
        rows = mates[(displaced.number[mates] > 0) & self.looked[mates]]
        # What some nodes of a group take by its policy others may not, if only some have exclusive storage.
        exclusive = self.state.columns.excl_stor
        mixed = len(sorted_unique(exclusive[mates])) > 1
        unsure = displaced.recreated[rows] & mixed
        unknown, rows = rows[unsure], rows[~unsure]
        roomiest = mates[np.argsort(free.memory[mates])[-ROOMIEST:]]
        for targets in (roomiest, mates) if len(mates) > ROOMIEST else (mates,):
            if len(rows):
                lost = rows[:, np.newaxis]
                # A new mirrored instance may fail over to any node.
                left = free.memory[targets] - self.load[lost, targets] - moved_mem * (lost == primary)
                rows = rows[~_proved(self.state, displaced, rows, targets, free, left)]
        return np.concatenate([unknown, rows])

    def certain(self) -> bool:
        """Whether sums prove that the state is redundant.

        With less placed on it they would prove it as well: what is free is more then, what is displaced less.
        """
        return not self.missing and not len(self.unsettled())

    def holds(self) -> bool:
        """Whether the state is redundant as it is, by simulation where need be."""
        if self.missing:
            return False
        return all_can_be_lost(self._survived, self.unsettled().tolist(), [])

    def fragile(self) -> Bools:
        """The nodes whose loss is not survived, by simulation where need be."""
        fragile = self.broken & self.looked
        for node in self.unsettled().tolist():
            fragile[node] = fragile[node] or not self._survived(node)
        return fragile

    def confirms(self, trial: Trial, suspects: list[int]) -> bool:
        """As :class:`Check` says, for a new instance."""
        asked, primary, secondary = trial.asked, int(trial.pnode[0]), int(trial.snode[0])
        known = self.bears(asked, primary, suspects)
        if known is not None:
            return known
        if self.rejects(asked, primary, suspects):
            return False
        unsettled = self.unsettled(asked, primary).tolist()
        if not unsettled:
            return True
        without_room = self._without_room(asked, primary, secondary, unsettled)
        if without_room is not None:
            suspects[:] = [without_room, *(node for node in suspects if node != without_room)]
            return False
        placed = self.state.copy()
        settling.settle(placed, trial)
        return all_can_be_lost(
            lambda node: can_be_lost(placed, node, self.scope, self.arrivals), unsettled, suspects
        )

    def bears(self, asked: Asked, primary: int, suspects: list[int]) -> bool | None:
        """As :meth:`confirms` says, for a new instance with that primary only; None if it has to be tried
        otherwise.

        It may as well come after the mirrored instances of a lost node have failed over, which then need not
        be done again for each placement.
        """
        if not self._quick(asked):
            return None

        def survived(node: int) -> bool | None:
            lost = self._lost(node)
            return None if lost is None else lost.survived_with(asked, primary)

        likely = [node for node in suspects if self.looked[node]]
        if not all(found := [survived(node) for node in likely[:1]]):
            return found[0]
        concerned = self._concerned(asked, primary)
        for node in [*likely[1:], *(node for node in concerned if node not in likely)]:
            if not (verdict := survived(node)):
                if verdict is False:
                    suspects[:] = [node, *(each for each in suspects if each != node)]
                return verdict
        return True

    def _concerned(self, asked: Asked, primary: int) -> list[int]:
        """Nodes of which it is not known whether their loss is survived with a new instance."""
        if len(self.free) > SMALL:
            rows = self.unsettled(asked, primary)
        else:
            concerned = self.looked & (self.displaced.number > 0)
            concerned[primary] = self.looked[primary]
            rows = np.flatnonzero(concerned)
        nodes: list[int] = rows.tolist()
        return nodes

    def _survived(self, node: int) -> bool:
        """Whether the loss of a node is, as it is."""
        lost = self._lost(node)
        return can_be_lost(self.state, node, self.scope) if lost is None else lost.survived()

    def _lost(self, node: int) -> LostNode | None:
        """A lost node, remembered on clusters with few nodes."""
        if node in self.lost:
            return self.lost[node]
        lost = failed_over(self.state, node, self.scope, self.arrivals, list(self.lost.values()))
        if len(self.free) <= FEW:
            self.lost[node] = lost
        return lost

    def _quick(self, asked: Asked) -> bool:
        """Whether losses with a new instance are simulated on what is known of those without it."""
        if asked.mirrored or asked.forthcoming or len(asked.tags) or len(self.free) > FEW:
            return False
        return asked.spindles is not None or not self.state.columns.excl_stor.any()

    def after(self, asked: Asked, primary: int) -> "Redundancy | None":
        """The same once a new instance with that primary only, which it bears, is on the state.

        None if this cannot be told here.
        """
        if asked.mirrored or asked.forthcoming:
            return None
        bound, quick = self._bound(asked, primary), self._quick(asked)
        return replace(
            self,
            free=self.state.columns.unallocated,
            displaced=self.displaced if bound else self.displaced.joined(asked, primary),
            tried={},
            doubtful={},
            lost={node: lost and lost.placed(asked, primary) for node, lost in self.lost.items() if quick},
        )

    def rejects(self, asked: Asked, primary: int, suspects: Sequence[int]) -> bool:
        """Whether the node that failed last certainly fails with this unmirrored instance as well."""
        if asked.mirrored or asked.forthcoming or not suspects or not self.looked[suspects[0]]:
            return False
        joins = suspects[0] == primary and not self._bound(asked, primary)
        if not joins and not self.displaced.number[suspects[0]]:
            return False
        return self._without_room(asked, primary, NOWHERE, suspects[:1]) is not None

    def rules_out(self, asked: Asked, nodes: Ints) -> bool:
        """Whether a new instance certainly leaves no state redundant, wherever on the nodes it is.

        Nor does then a larger one, nor that one and others together.
        """
        if asked.mirrored:
            pairs = self.admits(asked, nodes, nodes) & ~np.eye(len(nodes), dtype=np.bool_)
            return not pairs.any()
        admitted = nodes[self.admits(asked, nodes, None)].tolist()
        return all(
            self._without_room(asked, node, NOWHERE, self.unsettled(asked, node).tolist()) is not None
            for node in admitted
        )

    def _without_room(self, asked: Asked, primary: int, secondary: int, lost: Sequence[int]) -> int | None:
        """The first of some nodes whose instances certainly find no room after a placement."""
        displaced, free = self._after(asked, primary, primary in lost)
        away = free
        if asked.mirrored and not asked.forthcoming:
            before = free_on(self.state.columns).disk
            pairs = zip(before, asked.disk, strict=True)
            disk = tuple(_less(_less(room, primary, taken), secondary, taken) for room, taken in pairs)
            free = free._replace(disk=disk)
            # What it takes when its primary is lost:
            away = free._replace(memory=_less(self.free, secondary, asked.record_mem))
        return next(
            (node for node in lost if self.lacks(node, displaced, away if node == primary else free)), None
        )

    def lacks(self, node: int, displaced: Displaced, free: Free) -> bool:
        """Whether what a lost node displaces certainly does not all find what it needs in its group."""
        mates = self.scope & (self.state.group == self.state.group[node])
        mates[node] = False
        left = free.memory - self.load[node]
        return surely_missing(displaced, node, free.on(np.flatnonzero(mates), left[mates]))

    def hopeless(self, suspects: list[int]) -> bool:
        """As :class:`Check` says."""
        node = suspects[0]
        if node not in self.tried:
            doubtful = node in self.unsettled()
            self.tried[node] = not doubtful or self._survived(node)
        return not self.tried[node]


def _less(values: Ints, row: int | slice, amount: int) -> Ints:
    values = values.copy()
    values[row] -= amount
    return values


def assess(state: State, scope: Bools, options: Options) -> Redundancy:
    """What can be said of the redundancy of the nodes in scope before anything is placed."""
    columns, size = state.columns, len(state.group)
    looked = scope & ~columns.offline if options.accept_existing else scope
    settled = ~state.forthcoming & (state.pnode != NOWHERE) & scope[state.pnode]
    if columns.shape.binds:
        rows = np.flatnonzero(settled)
        settled[rows[bound_to_units(state, rows, scope)]] = False
    drbd, alone = settled & (state.template == DRBD), state.snode == NOWHERE
    mirrored = np.flatnonzero(drbd & ~alone)
    lost, partners = state.pnode[mirrored], state.snode[mirrored]
    load = np.zeros((size, size), np.int64)
    np.add.at(load, (lost, partners), state.record_mem[mirrored])
    pairs = sorted_unique(lost * size + partners)
    lost, partners = pairs // size, pairs % size
    free = columns.unallocated
    stuck = MEMORY.relation.broken(free[partners] - load[lost, partners], 0)
    if state.migrates is not None:
        stuck |= ~state.migrates[lost, partners]
    broken = np.zeros(size, np.bool_)
    broken[lost[stuck]] = True
    broken[state.pnode[mirrored[_held_by_disks(state, mirrored)]]] = True
    broken[state.pnode[drbd & alone]] = True
    exclusive = columns.excl_stor[state.pnode[mirrored]] | columns.excl_stor[state.snode[mirrored]]
    for index in mirrored[exclusive].tolist():
        if state.instance(index).spindles is None:
            broken[state.pnode[index]] = True
    displaced = displaced_by_node(state, settled)
    broken |= _against_policy(state, settled, scope)
    redundancy = Redundancy(state, scope, looked, broken, free, load, (lost, partners), mirrored, displaced)
    for node in redundancy.unsettled().tolist():
        broken[node] |= redundancy.lacks(node, displaced, free_on(columns))
    return redundancy


def _proved(state: State, displaced: Displaced, rows: Ints, targets: Ints, free: Free, left: Ints) -> Bools:
    """Whether sums prove that what each of the rows displaces finds room on targets, which have so much
    memory ``left`` for it (rows by targets).
    """
    lost = rows[:, np.newaxis]
    reach = targets != lost
    if state.migrates is not None:
        reach &= state.migrates[lost, targets] | ~displaced.shared[lost]
    for sees, wanted in zip(present(state.columns)[len(free.disk) :], displaced.pools, strict=True):
        reach &= sees[targets] | ~wanted[lost]
    there = free.on(targets, left)
    return surely_found(displaced, rows, reach, there, state.columns.excl_stor[targets])


def unproved(state: State, lost: Ints, takers: Ints) -> Ints:
    """Those of some nodes of a group (rows) of which sums do not prove that what they have comes back on
    other nodes of it, the ``takers`` (rows), alone. What fails over or is recreated is not proved.
    """
    here = np.isin(state.pnode, lost) & ~state.forthcoming
    displaced, free = displaced_by_node(state, here), free_on(state.columns)
    sure = ~displaced.recreated[lost] & ~np.isin(lost, state.pnode[here & (state.template == DRBD)])
    rows = lost[sure]
    if len(rows) and len(takers):
        left = np.broadcast_to(free.memory[takers], (len(rows), len(takers)))
        sure[sure] = _proved(state, displaced, rows, takers, free, left)
    return lost[~sure] if len(takers) else lost


def free_on(columns: Columns) -> Free:
    """What nodes have free."""
    return Free(columns.unallocated, tuple(by_unit(columns, "f_dsk")), columns.f_spindles)


def _held_by_disks(state: State, mirrored: Ints) -> Bools:
    """Which mirrored instances cannot fail over: a node breaks a hard limit on their disks already."""
    columns, held = state.columns, np.zeros(len(mirrored), np.bool_)
    lost, partners = state.pnode[mirrored], state.snode[mirrored]
    for limit in declared_limits(columns.shape):
        if limit.of is None or limit.soft or limit.fixed:
            continue
        full = limit.broken_now(columns)
        if full.any():
            here = full & ~columns.offline if limit in disk_limits(columns.shape) else full
            held |= (full[partners] | here[lost]) & state.wants[mirrored, limit.of]
    return held


def _against_policy(state: State, settled: Bools, scope: Bools) -> Bools:
    """Nodes with an instance to be recreated that the policy of its own group would refuse everywhere."""
    refused = np.zeros(len(state.group), np.bool_)
    recreated = np.flatnonzero(settled & (state.template != DRBD) & ~SURVIVES[state.template])
    recreated = recreated[recreated < len(state.figures.rows)]  # what is placed anew has been checked
    nodes, wants = state.pnode[recreated], state.figures.values["demand"][recreated]
    demands = list(state.figures.demands)
    keys = state.group[nodes] * len(demands) + wants
    rules: dict[int, list[Callable[[int], bool]]] = {}
    for group in sorted_unique(state.group[nodes]).tolist():
        kinds = sorted_unique(state.columns.excl_stor[scope & (state.group == group)]).tolist()
        rules[group] = [_refuses(state, group, kind, demands) for kind in kinds]
    for key in sorted_unique(keys).tolist():
        group, demand = divmod(key, len(demands))
        if all(refuses(demand) for refuses in rules[group]):
            refused[nodes[keys == key]] = True
    return refused


def _refuses(state: State, group: int, exclusive: bool, demands: list[Demand]) -> Callable[[int], bool]:
    """Whether the policy of a group refuses a demand, remembered with the figures."""
    policy = state.policies[group]
    known = state.figures.verdicts.setdefault((policy, exclusive), {})

    def refuses(demand: int) -> bool:
        if demand not in known:
            known[demand] = violation(demands[demand], policy, exclusive) is not None
        return known[demand]

    return refuses
