"""Global N+1 redundancy: could every node be lost, one at a time, and all its instances live on?

Ganeti's htools (``GlobalN1.hs``) empty each node in turn: mirrored instances fail over to their
secondaries, instances on shared storage go one by one to the node of the group that leaves it best
balanced, and the rest are recreated, largest first, on the best node. Only what exists limits
(memory, disk, spindles, migration tags, policy), not what balances.

Emptying by simulation is slow, and rarely needed. What mirrored instances need follows from sums.
For the others, whatever the order and choice: an instance that is placed takes room on one node only,
so if as many nodes as there are instances have room for the largest of them, there is always one left.
And an instance finds no room only if every node is filled until less than its size is left; so if the
room beyond the largest adds up to more than all the others take, that cannot happen. (Sizes are
multiples of some unit; what is left and less than that does not count.) Only nodes where neither settles
it are simulated.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice
from typing import Any, Protocol

import numpy as np

from ganeti_htools.engine.redundancy import loss_simulation
from ganeti_htools.engine.rules import choice, placements, settling
from ganeti_htools.engine.rules.options import Options
from ganeti_htools.engine.rules.resources import DISK, LIMITS, MEMORY, SPINDLES, check_hard
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.cluster import MAX_MIB
from ganeti_htools.model.columns import NOWHERE, Bools, Ints, sorted_unique
from ganeti_htools.model.figures import TEMPLATE_CODE
from ganeti_htools.model.policy import Demand, violation
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.types import DiskTemplate

DRBD = TEMPLATE_CODE[DiskTemplate.DRBD]
SURVIVES = np.array([template.survives_node for template in DiskTemplate])
LOCAL = np.array([template.local_storage for template in DiskTemplate])

# Hard limits on an instance's disks: they stand in the way of a failover on both nodes.
_OF_DISKS = [limit for limit in LIMITS if limit.local and not limit.soft]

# Sums are made of these. The property tests of redundancy compare what follows from sums with simulations.
check_hard((MEMORY, DISK, SPINDLES), "global N+1 redundancy")

# How many of a group's roomiest nodes are looked at before all are.
ROOMIEST = 8

# More spindles than any node has.
UNKNOWN = 1 << 32

# By how much a sum of shares may be off.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Refugees:
    """What has to find room when a node is lost and does not fail over; arrays over nodes.

    How many; memory and disk (MiB) of all together, of the largest and the smallest, and the greatest
    common divisor of their sizes, 0 if all are 0. Spindles are those of exclusive storage, UNKNOWN if some
    instance does not say. ``shared`` tells whether any is on shared storage, so that migration tags matter,
    ``recreated`` whether any is not, so that policies matter.
    """

    number: Ints
    mem_total: Ints
    mem_largest: Ints
    mem_least: Ints
    mem_unit: Ints
    dsk_total: Ints
    dsk_largest: Ints
    dsk_least: Ints
    dsk_unit: Ints
    spindles_total: Ints
    spindles_largest: Ints
    shared: Bools
    recreated: Bools

    def joined(self, asked: Asked, node: int) -> "Refugees":
        """With one more, on a node."""
        new = Refugees(*(getattr(self, name).copy() for name in self.__slots__))
        new.number[node] += 1
        new.mem_total[node] += asked.record_mem
        new.mem_largest[node] = max(asked.record_mem, int(self.mem_largest[node]))
        new.mem_least[node] = min(asked.record_mem, int(self.mem_least[node]))
        new.mem_unit[node] = math.gcd(asked.record_mem, int(self.mem_unit[node]))
        dsk = asked.dsk if asked.local else 0
        new.dsk_total[node] += dsk
        new.dsk_largest[node] = max(dsk, int(self.dsk_largest[node]))
        new.dsk_least[node] = min(dsk, int(self.dsk_least[node]))
        new.dsk_unit[node] = math.gcd(dsk, int(self.dsk_unit[node]))
        spindles = _spindles(asked.spindles)
        new.spindles_total[node] += spindles
        new.spindles_largest[node] = max(spindles, int(self.spindles_largest[node]))
        new.shared[node] |= asked.row.template.survives_node
        new.recreated[node] |= not asked.row.template.survives_node
        return new


def _usable(free: Any, unit: Any) -> Any:
    """How much of what is free can be taken by sizes that are multiples of a unit; something stays free."""
    unit = np.maximum(unit, 1)
    return (free - 1) // unit * unit


def _shares(free: Any, total: Any, largest: Any, unit: Any) -> Any:
    """What has to go to a node before the largest does not fit there, as a share of all others."""
    room = np.maximum(_usable(free, unit) - largest + np.maximum(unit, 1), 0)
    return room / np.maximum(total - largest, 0.5)


def _most(values: Any, weights: Any) -> Any:
    """At least the largest sum of values of each row whose weights add up to 1; parts of a value count."""
    values, weights = np.where(weights > 1 + ROUNDING, 0.0, values), np.minimum(weights, 1 + ROUNDING)
    order = np.argsort(-values / np.maximum(weights, ROUNDING), axis=1)
    values, weights = (np.take_along_axis(each, order, axis=1) for each in (values, weights))
    before = np.add.accumulate(weights, axis=1) - weights
    parts = np.clip((1 + ROUNDING - before) / np.maximum(weights, ROUNDING), 0.0, 1.0)
    return (values * parts).sum(axis=1)


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
    ``pairs`` are the rows of the ``p`` and ``s`` between which there are any. ``tried`` tells of nodes
    whether a loss that was simulated is survived, ``doubtful`` of groups which losses have to be.
    """

    state: State
    scope: Bools
    looked: Bools
    broken: Bools
    free: Ints
    load: Ints
    pairs: tuple[Ints, Ints]
    refugees: Refugees
    tried: dict[int, bool] = field(default_factory=dict)
    doubtful: dict[int, Ints] = field(default_factory=dict)
    memory: loss_simulation.Memory = field(default_factory=loss_simulation.Memory)

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
        lost, heirs = self.pairs
        counts = self.looked[lost]
        np.maximum.at(expected, heirs[counts], self.load[lost, heirs][counts])
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
        tight = counts & (row[lost] != NOWHERE) & (column[heirs] != NOWHERE)
        tight &= self.free[heirs] - self.load[lost, heirs] <= asked.record_mem
        admitted[row[lost[tight]], column[heirs[tight]]] = False
        if self.state.migrates is not None and not asked.forthcoming:
            admitted &= (
                self.state.migrates[primaries[:, np.newaxis], secondaries]
                | ~self.looked[primaries, np.newaxis]
            )
        return admitted

    def _after(
        self, asked: Asked | None, primary: int, joins: bool = True
    ) -> tuple[Refugees, Ints, Ints, Ints]:
        """Refugees, free memory, disk, spindles, with an instance placed; its secondary may be anywhere.

        Unless it ``joins``, the refugees of its primary are not wanted, and stay what they were.
        """
        refugees, free, disk = self.refugees, self.free, self.state.columns.f_dsk
        spindles = self.state.columns.f_spindles
        if asked is not None and not asked.forthcoming:
            free = _less(free, primary, asked.record_mem)
            if asked.local:
                disk = disk - asked.dsk if asked.mirrored else _less(disk, primary, asked.dsk)
            taken = _spindles(asked.spindles)
            spindles = spindles - taken if asked.mirrored else _less(spindles, primary, taken)
            if joins and not asked.mirrored:
                refugees = refugees.joined(asked, primary)
        return refugees, free, disk, spindles

    @property
    def _paired(self) -> Bools:
        """Nodes that have to do with a mirrored instance of a node whose loss counts."""
        paired = np.zeros(len(self.free), np.bool_)
        for rows in self.pairs:
            paired[rows[self.looked[self.pairs[0]]]] = True
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
        refugees, free, disk, spindles = self._after(asked, primary)
        moved_mem = asked.record_mem if asked is not None and asked.mirrored else 0
        mates = np.flatnonzero(self.scope & (self.state.group == group))
        rows = mates[(refugees.number[mates] > 0) & self.looked[mates]]
        # What some nodes of a group take by its policy others may not, if only some have exclusive storage.
        mixed = len(sorted_unique(self.state.columns.excl_stor[mates])) > 1
        unsure = refugees.recreated[rows] & mixed
        unknown, rows = rows[unsure], rows[~unsure]
        roomiest = mates[np.argsort(free[mates])[-ROOMIEST:]]
        for targets in (roomiest, mates) if len(mates) > ROOMIEST else (mates,):
            if len(rows):
                # A new mirrored instance may fail over to any node.
                away = moved_mem * (rows == primary)[:, np.newaxis]
                left = free[targets] - self.load[rows[:, np.newaxis], targets] - away
                rows = rows[~self._surely(refugees, rows, targets, left, disk, spindles)]
        return np.concatenate([unknown, rows])

    def _surely(
        self, refugees: Refugees, rows: Ints, targets: Ints, left: Ints, disk: Ints, spindles: Ints
    ) -> Bools:
        """Whether the refugees of each of the rows find room on the targets, whatever goes where.

        A target with less left than the largest needs has taken a share of what the others need. It may
        be full of anything: it must not be possible that some are full of disk or spindles, and all others
        of memory.
        """
        lost = rows[:, np.newaxis]
        reach = targets != lost
        if self.state.migrates is not None:
            reach &= self.state.migrates[lost, targets] | ~refugees.shared[lost]
        share = _shares(left, refugees.mem_total[lost], refugees.mem_largest[lost], refugees.mem_unit[lost])
        share = np.where(reach, share, 0.0)
        room, full = share > 0, np.zeros(len(rows))
        on_disk = (refugees.dsk_largest[rows] > 0)[:, np.newaxis]
        if on_disk.any():
            sizes = refugees.dsk_total[lost], refugees.dsk_largest[lost], refugees.dsk_unit[lost]
            others = [np.where(on_disk, _shares(disk[targets], *sizes), np.inf)]
            exclusive = self.state.columns.excl_stor[targets]
            if exclusive.any():
                needs = refugees.spindles_total[lost], refugees.spindles_largest[lost]
                free = spindles[targets] + 1  # none need be left
                others.append(np.where(on_disk & exclusive, _shares(free, *needs, 1), np.inf))
            for other in others:
                room = room & (other > 0)
                if (other <= 1 + ROUNDING).any():
                    full = full + _most(share, other)
        enough = np.count_nonzero(room, axis=1) >= refugees.number[rows]
        return np.asarray(enough | (share.sum(axis=1) - full > 1 + ROUNDING))

    def holds(self) -> bool:
        """Whether the state is redundant as it is, by simulation where need be."""
        if self.missing:
            return False
        return _all_can_be_emptied(self.state, self.unsettled().tolist(), self.scope, [], self.memory)

    def fragile(self) -> Bools:
        """The nodes whose loss is not survived, by simulation where need be."""
        fragile = self.broken & self.looked
        for node in self.unsettled().tolist():
            fragile[node] = fragile[node] or not can_be_emptied(self.state, node, self.scope, self.memory)
        return fragile

    def confirms(self, trial: Trial, suspects: list[int]) -> bool:
        """As :class:`Check` says, for a new instance."""
        asked, primary, secondary = trial.asked, int(trial.pnode[0]), int(trial.snode[0])
        if self.rejects(asked, primary, suspects):
            return False
        unsettled = self.unsettled(asked, primary).tolist()
        if not unsettled:
            return True
        lost = self._without_room(asked, primary, secondary, unsettled)
        if lost is not None:
            suspects[:] = [lost, *(node for node in suspects if node != lost)]
            return False
        state = self.state.copy()
        settling.settle(state, trial)
        return _all_can_be_emptied(state, unsettled, self.scope, suspects, self.memory)

    def rejects(self, asked: Asked, primary: int, suspects: Sequence[int]) -> bool:
        """Whether the node that failed last certainly fails with this unmirrored instance as well."""
        if asked.mirrored or asked.forthcoming or not suspects or not self.looked[suspects[0]]:
            return False
        if suspects[0] != primary and not self.refugees.number[suspects[0]]:
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
        """The first of some nodes whose refugees certainly find no room after a placement."""
        refugees, free, disk, _ = self._after(asked, primary, primary in lost)
        away = free
        if asked.mirrored and not asked.forthcoming:
            away = _less(self.free, secondary, asked.record_mem)  # what it takes when its primary is lost
            disk = _less(_less(self.state.columns.f_dsk, primary, asked.dsk), secondary, asked.dsk)
        found = (
            node
            for node in lost
            if _room_missing(self, node, refugees, away if node == primary else free, disk)
        )
        return next(found, None)

    def hopeless(self, suspects: list[int]) -> bool:
        """As :class:`Check` says."""
        node = suspects[0]
        if node not in self.tried:
            doubtful = node in self.unsettled()
            self.tried[node] = not doubtful or can_be_emptied(self.state, node, self.scope, self.memory)
        return not self.tried[node]


@dataclass(frozen=True, slots=True)
class Unmirrored:
    """Redundancy where an instance only gets a secondary: it counts as what it still is without.

    ``before`` is of the state in which it has none.
    """

    before: Redundancy

    def admits(self, asked: Asked, primaries: Ints, secondaries: Ints | None) -> Bools:
        """As :class:`Check` says."""
        assert secondaries is not None
        return np.full((len(primaries), len(secondaries)), not self.before.missing)

    def confirms(self, trial: Trial, suspects: list[int]) -> bool:
        """As :class:`Check` says: nodes have the figures they get, the instance is what it was."""
        asked, primary, secondary = trial.asked, int(trial.pnode[0]), int(trial.snode[0])
        unsettled = self.before.unsettled(replace(asked, record_mem=0), primary).tolist()
        state = self.before.state.copy()
        for node in trial.changes:
            state.columns.put(int(node.rows[0]), node.new)
        if not asked.forthcoming:
            state.peers[primary, secondary] += asked.secondary_mem
        return _all_can_be_emptied(state, unsettled, self.before.scope, suspects, self.before.memory)

    def hopeless(self, suspects: list[int]) -> bool:
        """As :class:`Check` says."""
        return self.before.hopeless(suspects)


def _all_can_be_emptied(
    state: State, nodes: list[int], scope: Bools, suspects: list[int], memory: loss_simulation.Memory
) -> bool:
    for node in [*(n for n in suspects if n in nodes), *(n for n in nodes if n not in suspects)]:
        if not can_be_emptied(state, node, scope, memory):
            suspects[:] = [node, *(n for n in suspects if n != node)]
            return False
    return True


def _less(values: Ints, row: int, amount: int) -> Ints:
    values = values.copy()
    values[row] -= amount
    return values


def _spindles(spindles: int | None) -> int:
    return UNKNOWN if spindles is None else spindles


def _refugees(state: State, settled: Bools) -> Refugees:
    size = len(state.group)
    rows = np.flatnonzero(settled & (state.template != DRBD))
    nodes = state.pnode[rows]
    dsk = np.where(LOCAL[state.template[rows]], state.dsk[rows], 0)

    def figures(values: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        total, largest, unit = np.zeros((3, size), np.int64)
        least = np.full(size, MAX_MIB)
        np.add.at(total, nodes, values)
        np.maximum.at(largest, nodes, values)
        np.minimum.at(least, nodes, values)
        np.gcd.at(unit, nodes, values)
        return total, largest, least, unit

    spindles = np.zeros(len(rows), np.int64)
    if state.columns.excl_stor.any():
        instances = state.cluster.instances
        spindles[:] = [_spindles(instances[row].spindles) for row in rows.tolist()]
    spindles_total, spindles_largest, _, _ = figures(spindles)
    survives, (shared, recreated) = SURVIVES[state.template[rows]], np.zeros((2, size), np.bool_)
    shared[nodes[survives]], recreated[nodes[~survives]] = True, True
    return Refugees(
        np.bincount(nodes, minlength=size),
        *figures(state.record_mem[rows]),
        *figures(dsk),
        spindles_total,
        spindles_largest,
        shared,
        recreated,
    )


def assess(state: State, scope: Bools, options: Options) -> Redundancy:
    """What can be said of the redundancy of the nodes in scope before anything is placed."""
    columns, size = state.columns, len(state.group)
    looked = scope & ~columns.offline if options.accept_existing else scope
    settled = ~state.forthcoming & (state.pnode != NOWHERE) & scope[state.pnode]
    drbd, alone = settled & (state.template == DRBD), state.snode == NOWHERE
    mirrored = np.flatnonzero(drbd & ~alone)
    lost, heirs = state.pnode[mirrored], state.snode[mirrored]
    load = np.zeros((size, size), np.int64)
    np.add.at(load, (lost, heirs), state.record_mem[mirrored])
    pairs = sorted_unique(lost * size + heirs)
    lost, heirs = pairs // size, pairs % size
    free = columns.unallocated
    stuck = MEMORY.relation.broken(free[heirs] - load[lost, heirs], 0)
    for limit in _OF_DISKS:
        full = limit.broken_now(columns)
        stuck |= full[heirs] | (full & ~columns.offline if limit is DISK else full)[lost]
    if state.migrates is not None:
        stuck |= ~state.migrates[lost, heirs]
    broken = np.zeros(size, np.bool_)
    broken[lost[stuck]] = True
    broken[state.pnode[drbd & alone]] = True
    exclusive = columns.excl_stor[state.pnode[mirrored]] | columns.excl_stor[state.snode[mirrored]]
    for index in mirrored[exclusive].tolist():
        if state.cluster.instances[index].spindles is None:
            broken[state.pnode[index]] = True
    refugees = _refugees(state, settled)
    broken |= _against_policy(state, settled, scope)
    redundancy = Redundancy(state, scope, looked, broken, free, load, (lost, heirs), refugees)
    for node in redundancy.unsettled().tolist():
        broken[node] |= _room_missing(redundancy, node, refugees, free, columns.f_dsk)
    return redundancy


def _room_missing(redundancy: Redundancy, node: int, refugees: Refugees, free: Ints, disk: Ints) -> bool:
    """Whether the largest refugee fits nowhere, or there are more than there is room for.

    Nodes without room for the smallest take none.
    """
    mates = redundancy.scope & (redundancy.state.group == redundancy.state.group[node])
    mates[node] = False
    left = free - redundancy.load[node]
    mates &= left > refugees.mem_least[node]
    if refugees.dsk_least[node]:
        mates &= disk > refugees.dsk_least[node]
    number = refugees.number[node]

    def missing(left: Ints, total: int, largest: int, least: int, unit: int) -> bool:
        room = np.maximum(_usable(left, unit), 0)
        if not (left > largest).any() or int(room.sum()) < total:
            return True
        return bool(least and (room // least).sum() < number)

    memory = (refugees.mem_total, refugees.mem_largest, refugees.mem_least, refugees.mem_unit)
    disks = (refugees.dsk_total, refugees.dsk_largest, refugees.dsk_least, refugees.dsk_unit)
    if missing(left[mates], *(int(figures[node]) for figures in memory)):
        return True
    return bool(refugees.dsk_largest[node]) and missing(disk[mates], *(int(each[node]) for each in disks))


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


class Return(Enum):
    """How an instance of a lost node comes back: by its mirror, its shared disks, or without its data."""

    FAILOVER = "failover"
    MOVE = "move"
    RECREATE = "recreate"


@dataclass(frozen=True, slots=True)
class Refuge:
    """Where an instance (row) of a lost node comes back: a node (row), NOWHERE if it does not."""

    instance: int
    kind: Return
    node: int


def can_be_emptied(
    state: State, node: int, scope: Bools, memory: loss_simulation.Memory | None = None
) -> bool:
    """Whether all instances of a node find a place should it be lost, by trying.

    With a memory, refugees are tried with what is known already.
    """
    here = state.primaries_of(node)
    code = state.template[here]
    if memory is not None and not (code == DRBD).any():
        found = loss_simulation.find_room(memory, state, node, _in_turn(state, here), scope)
        if found is not None:
            return found
    state = state.copy()
    flight, found = flee(state, node, scope), None
    if any(each.node == NOWHERE for each in islice(flight, int(np.count_nonzero(code == DRBD)))):
        return False
    if memory is not None:
        found = loss_simulation.find_room(memory, state, node, _in_turn(state, here[code != DRBD]), scope)
    return all(each.node != NOWHERE for each in flight) if found is None else found


def _in_turn(state: State, refugees: Ints) -> list[int]:
    """Rows of instances that do not fail over, in the order in which they are moved."""
    survive = SURVIVES[state.template[refugees]]
    instances = state.cluster.instances
    shared, lost = refugees[survive].tolist(), refugees[~survive].tolist()
    return [*shared, *sorted(lost, key=lambda row: -instances[row].mem)]


def flee(state: State, node: int, scope: Bools, up: Bools | None = None) -> Iterator[Refuge]:
    """Find a place for each instance of a lost node, one after the other, on this state, in place.

    ``up`` tells which nodes take instances; all unless given, for the rule of ``hcheck(1)`` does not
    look at whether nodes are offline.
    """
    mates = scope & (state.group == state.group[node])
    others = mates.copy() if up is None else mates & up
    others[node] = False
    targets = np.flatnonzero(others)
    mirrored, refugees = _instances(state, node)
    for asked in mirrored:
        heir = int(state.snode[asked.index])
        trial = None
        if heir != NOWHERE and (up is None or up[heir]):
            trial = placements.failover(state, asked, mates, force=True)
        yield Refuge(asked.index, Return.FAILOVER, _settled(state, trial, mates))
    for asked in refugees:
        kind, counted = Return.RECREATE, scope
        if asked.row.template.survives_node:
            kind, counted = Return.MOVE, mates
        trial = None
        if len(targets):
            move = placements.failover_to if kind is Return.MOVE else placements.allocate_one
            trial = move(state, asked, targets, counted, force=True)
        yield Refuge(asked.index, kind, _settled(state, trial, counted))


def _instances(state: State, node: int) -> tuple[list[Asked], list[Asked]]:
    """The instances of a node in the order in which they are moved: those that fail over, and refugees."""
    here = [state.instance(index) for index in state.primaries_of(node).tolist()]
    mirrored = [asked for asked in here if asked.mirrored]
    shared = [asked for asked in here if asked.row.template.survives_node]
    lost = [asked for asked in here if not asked.mirrored and not asked.row.template.survives_node]
    return mirrored, [*shared, *sorted(lost, key=lambda asked: -asked.mem)]


def _settled(state: State, trial: Trial | None, scope: Bools) -> int:
    """Carry out the best candidate, if any; the node on which the instance runs then."""
    candidate = choice.best(state, trial, scope, exact=False) if trial else None
    if trial is None or candidate is None:
        return NOWHERE
    chosen = trial.only(candidate)
    settling.settle(state, chosen)
    return int(chosen.pnode[0])
