"""Bounds of global N+1 redundancy: the proofs that the loss of a node is fatal, or that it is survived.

The failovers of mirrored instances are exact sums. For the demand of all others :mod:`.packing_bounds` proves
most losses survived or fatal; :mod:`.simulate` or the rule decides the rest.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ganeti_htools.engine.redundancy.demand import (
    ClassLoad,
    DisplacedDemand,
    FailoverLoad,
    class_loads,
    displaced_demand,
    spindles_of,
)
from ganeti_htools.engine.redundancy.packing_bounds import (
    TargetRoom,
    surely_anywhere,
    surely_found,
    surely_missing,
)
from ganeti_htools.engine.redundancy.rule import DRBD, bound, bound_to_nodes, fatal_losses
from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.engine.rules.class_limits import refuses
from ganeti_htools.engine.rules.resources import DISK, MEMORY, SPINDLES, check_hard
from ganeti_htools.model.columns import NOWHERE, Bools, Ints, availability, sorted_unique
from ganeti_htools.model.state import RequestedInstance, State

# The resources that the sums are made of; property tests compare with the rule.
check_hard((MEMORY, DISK, SPINDLES), "global N+1 redundancy")

# A proof that the demand of lost nodes finds room.
Proof = Callable[[DisplacedDemand, Ints, Bools, TargetRoom, Bools], Bools]

# So many of a group's nodes with most free memory are tried as targets before all are.
ROOMIEST = 8


@dataclass(frozen=True)
class RedundancyBounds:
    """The bounds that hold for every placement on a state.

    ``checked`` are the nodes whose loss counts, ``fatal`` those whose loss is certainly not survived.
    ``mirrored`` are the rows of instances that fail over, ``load`` is the memory that they need for that,
    ``classes`` what they need of custom classes. ``demand`` is that of all other instances.
    """

    state: State
    scope: Bools
    checked: Bools
    fatal: Bools
    load: FailoverLoad
    mirrored: Ints
    demand: DisplacedDemand
    classes: tuple[ClassLoad, ...]

    @property
    def some_fatal(self) -> bool:
        """Whether a loss that counts is certainly fatal, so that nothing may be placed at all."""
        return bool((self.fatal & self.checked).any())

    @cached_property
    def free(self) -> Ints:
        """The free memory of nodes (MiB)."""
        return self.state.columns.unallocated

    @cached_property
    def entangled(self) -> Bools:
        """The nodes that are not simulated (:func:`.placement_rules.entangled`)."""
        return np.logical_or(*self._entangled)

    @cached_property
    def _entangled(self) -> tuple[Bools, Bools]:
        return placement_rules.entangled(self.state)

    @cached_property
    def expected(self) -> Ints:
        """The most memory that instances of one lost node need on each node (MiB).

        Less than any amount where no instance fails over.
        """
        expected = np.full(len(self.free), np.iinfo(np.int64).min)
        lost, partners, needed = self.load.pairs
        counts = self.checked[lost]
        np.maximum.at(expected, partners[counts], needed[counts])
        return expected

    def admissible(self, asked: RequestedInstance, primaries: Ints, secondaries: Ints | None) -> Bools:
        """For each primary (and secondary), False where the loss of some node would certainly be fatal."""
        size = len(self.free)
        if self.some_fatal:
            return np.zeros(
                (len(primaries),) if secondaries is None else (len(primaries), len(secondaries)), np.bool_
            )
        lost, partners, needed = self.load.pairs
        good: Bools = self.free - asked.record_mem > self.expected
        if not asked.local:  # takes spindles all the same, and may leave too few for others to fail over
            columns = self.state.columns
            left = -1 if asked.spindles is None else columns.f_spindles - asked.spindles
            good &= ~(columns.excl_stor & (left < 0) & self._with_spindles)
        for load in self.classes:
            good &= load.holds(self.state.columns, asked, self.checked)
        if secondaries is None:
            # Without its mirror, DRBD is lost with its node.
            return good[primaries] & ~(self.checked[primaries] & (asked.mirrored and not asked.forthcoming))
        takes = self.free > asked.record_mem
        admissible = good[primaries, np.newaxis] & (takes[secondaries] | ~self.checked[primaries, np.newaxis])
        # The secondary may also have to take over others of the same primary.
        row, column = np.full(size, NOWHERE), np.full(size, NOWHERE)
        row[primaries], column[secondaries] = np.arange(len(primaries)), np.arange(len(secondaries))
        tight = self.checked[lost] & (row[lost] != NOWHERE) & (column[partners] != NOWHERE)
        tight &= self.free[partners] - needed <= asked.record_mem
        admissible[row[lost[tight]], column[partners[tight]]] = False
        if self.state.allowed_migrations is not None and not asked.forthcoming:
            migrates = self.state.allowed_migrations[primaries[:, np.newaxis], secondaries]
            admissible &= migrates | ~self.checked[primaries, np.newaxis]
        for load in self.classes:
            takes = load.takes_over(self.state.columns, asked, primaries[:, np.newaxis], secondaries)
            admissible &= takes | ~self.checked[primaries, np.newaxis]
        return admissible

    @cached_property
    def _with_spindles(self) -> Bools:
        """The nodes of mirrored instances that take spindles, if the loss of their primary counts."""
        state, found = self.state, np.zeros(len(self.free), np.bool_)
        rows = self.mirrored[state.wants[self.mirrored, SPINDLES.of]]
        rows = rows[self.checked[state.pnode[rows]]]
        found[state.pnode[rows]] = found[state.snode[rows]] = True
        return found

    def unproved(self, asked: RequestedInstance | None = None, *primaries: int) -> Ints:
        """The nodes whose loss is not proved survived, as the state is or with equal new instances.

        ``primaries`` are the nodes of these, of one node if they are mirrored. They make a difference to the
        nodes of their own groups only.
        """
        if asked is None:
            return self._unproved_alone
        changed = sorted_unique(self.state.group[list(primaries)])
        alone = self._unproved_alone
        others = alone[~np.isin(self.state.group[alone], changed)]
        groups = (self._unproved_in(group, asked, [*primaries]) for group in changed.tolist())
        unproved: Ints = np.concatenate([others, *groups])
        return unproved

    @cached_property
    def _unproved_alone(self) -> Ints:
        groups = sorted_unique(self.state.group[self.scope]).tolist()
        return np.concatenate([np.zeros(0, np.int64), *map(self._unproved_in, groups)])

    def _unproved_in(
        self, group: int, asked: RequestedInstance | None = None, primaries: Sequence[int] = ()
    ) -> Ints:
        """The same for the nodes of one group.

        Of entangled nodes little is proved, and nothing with a new instance that has rules.
        """
        demand, room = self.demand_and_room(asked, primaries)
        moved_mem, primary = 0, NOWHERE
        if asked is not None and asked.mirrored:
            moved_mem, [primary] = asked.record_mem, primaries
        mates = np.flatnonzero(self.scope & (self.state.group == group))
        together, ruled = self._entangled
        if asked is not None and placement_rules.is_ruled(self.state, asked):
            ruled = placement_rules.hosts(self.state)
            ruled[list(primaries)] = True
        rows = mates[((demand.number > 0) | ruled)[mates] & self.checked[mates]]
        # Nodes with and without exclusive storage may take different instances by the same policy.
        mixed = len(sorted_unique(self.state.columns.excl_stor[mates])) > 1
        unsure = (demand.recreated[rows] & mixed) | ruled[rows]
        unknown, rows = rows[unsure], rows[~unsure]
        roomiest = mates[np.argsort(room.memory[mates])[-ROOMIEST:]]

        def unproved(rows: Ints, targets: Ints, proof: Proof) -> Ints:
            if not len(rows):
                return rows
            lost = rows[:, np.newaxis]
            # A new mirrored instance may fail over to any node.
            left = room.memory[targets] - self.load.between(lost, targets) - moved_mem * (lost == primary)
            classes = tuple(
                load.room(self.state.columns, lost, targets, asked, primaries) for load in self.classes
            )
            return rows[~_found(self.state, demand, rows, targets, room.on(targets, left, classes), proof)]

        joint = unproved(rows[together[rows]], mates, surely_anywhere)
        rows = rows[~together[rows]]
        for targets in (roomiest, mates) if len(mates) > ROOMIEST else (mates,):
            rows = unproved(rows, targets, surely_found)
        return np.concatenate([unknown, joint, rows])

    def demand_and_room(
        self, asked: RequestedInstance | None, primaries: Sequence[int], joins: bool = True
    ) -> tuple[DisplacedDemand, TargetRoom]:
        """The demand and the room with equal instances placed, whose secondary may be anywhere.

        Without ``joins`` the demand stays as it was, for callers who do not ask for the loss of its primary.
        """
        demand, room = self.demand, TargetRoom.of(self.state.columns)
        if asked is None or asked.forthcoming:
            return demand, room
        if joins and not asked.mirrored:
            joining = [node for node in primaries if not self.is_bound(asked, node)]
            demand = demand.joined(asked, np.array(joining, np.int64), self._refused(asked))
        everywhere = range(len(self.free)) if asked.mirrored else primaries
        return demand, TargetRoom(
            _less(room.memory, primaries, asked.record_mem),
            tuple(
                _less(disk, everywhere, taken) if taken else disk
                for disk, taken in zip(room.disk, asked.disk, strict=True)
            ),
            _less(room.spindles, everywhere, spindles_of(asked.spindles)),
        )

    def _refused(self, asked: RequestedInstance) -> Bools | None:
        """The nodes that refuse the amounts of a new instance; None if nodes limit none."""
        return None if self.demand.refused is None else refuses(self.state.columns, asked)

    def is_bound(self, asked: RequestedInstance, primary: int) -> bool:
        """Whether a new unmirrored instance could not come back anyway, for its storage units or rules."""
        if placement_rules.is_ruled(self.state, asked):
            return True  # perhaps; the rule decides
        if not self.state.columns.shape.binds:
            return False
        wants, row = np.array([asked.wants], np.bool_), np.array([primary])
        refused = refuses(self.state.columns, asked)[np.newaxis]
        return bool(bound(self.state, wants, refused, row, row, False, self.scope)[0])

    @property
    def proves_all(self) -> bool:
        """Whether the state is proved redundant.

        With less placed on it that is proved as well: more is free then, and the demand is smaller.
        """
        return not self.some_fatal and not len(self.unproved())

    def surely_fatal(
        self, asked: RequestedInstance, primary: int, secondary: int, nodes: Iterable[int]
    ) -> int:
        """The first of some nodes whose loss is certainly fatal with a new instance; NOWHERE if none."""
        nodes = list(nodes)
        demand, room = self.demand_and_room(asked, [primary], primary in nodes)
        failed_over = room
        if asked.mirrored and not asked.forthcoming:
            pairs = zip(TargetRoom.of(self.state.columns).disk, asked.disk, strict=True)
            disk = tuple(_less(free, [primary, secondary], taken) for free, taken in pairs)
            room = room._replace(disk=disk)
            failed_over = room._replace(memory=_less(self.free, [secondary], asked.record_mem))
        rooms = ((node, failed_over if node == primary else room) for node in nodes)
        return next((node for node, left in rooms if self._lacks(node, demand, left)), NOWHERE)

    def rule_out(self, asked: RequestedInstance, primaries: Ints, secondaries: Ints) -> bool:
        """Whether some loss is certainly fatal with a new instance on any one of these candidates (rows).

        Secondaries are NOWHERE for an instance that needs one node. What is ruled out is so for larger
        instances, and with more instances besides.
        """
        everyone = np.arange(len(self.free))
        if asked.mirrored:
            good = self.admissible(asked, everyone, everyone)[primaries, secondaries]
        else:
            good = self.admissible(asked, primaries, None)
        for primary in sorted_unique(primaries[good]).tolist():
            lost = self.unproved(asked, primary).tolist()
            for secondary in secondaries[good & (primaries == primary)].tolist():
                if self.surely_fatal(asked, primary, secondary, lost) == NOWHERE:
                    return False
        return True

    def _lacks(self, node: int, demand: DisplacedDemand, room: TargetRoom) -> bool:
        """Whether the demand of a lost node certainly does not find room in its group."""
        mates = self.scope & (self.state.group == self.state.group[node])
        mates[node] = False
        left = room.memory - self.load.between(node, np.arange(len(mates)))
        return surely_missing(demand, node, room.on(np.flatnonzero(mates), left[mates]))

    def find_fatal(self) -> None:
        """Add the losses whose demand certainly finds no room to ``fatal``."""
        room = TargetRoom.of(self.state.columns)
        for node in self.unproved().tolist():
            self.fatal[node] |= self._lacks(node, self.demand, room)


def bounds(state: State, scope: Bools, checked: Bools) -> RedundancyBounds:
    """The bounds for the nodes in scope; only the loss of ``checked`` nodes counts."""
    columns, size = state.columns, len(state.group)
    settled = ~state.forthcoming & (state.pnode != NOWHERE) & scope[state.pnode]
    if state.binds:
        rows = np.flatnonzero(settled)
        settled[rows[bound_to_nodes(state, rows, scope)]] = False
    mirrored = np.flatnonzero(settled & (state.template == DRBD) & (state.snode != NOWHERE))
    load = FailoverLoad.of(state.pnode[mirrored], state.snode[mirrored], state.record_mem[mirrored], size)
    lost, partners, needed = load.pairs
    stuck = MEMORY.relation.broken(columns.unallocated[partners] - needed, 0)
    classes = class_loads(state, mirrored)
    for each in classes:
        stuck |= each.missing(columns, lost, partners) > 0
    if state.allowed_migrations is not None:
        stuck |= ~state.allowed_migrations[lost, partners]
    fatal = fatal_losses(state, settled, mirrored, scope)
    fatal[lost[stuck]] = True
    refused = state.pnode[mirrored[~placement_rules.can_fail_over(state, mirrored)]]
    fatal[refused[~np.logical_or(*placement_rules.entangled(state))[refused]]] = True
    demand = displaced_demand(state, settled)
    found = RedundancyBounds(state, scope, checked, fatal, load, mirrored, demand, classes)
    found.find_fatal()
    return found


def unproved_losses(state: State, lost: Ints, takers: Ints) -> Ints:
    """The nodes of which it is not proved that their instances come back on other nodes of their group.

    ``lost`` are nodes of one group, ``takers`` the nodes that take instances (rows). Nothing is proved of
    instances that fail over or are created anew.
    """
    here = np.isin(state.pnode, lost) & ~state.forthcoming
    demand, room = displaced_demand(state, here), TargetRoom.of(state.columns)
    sure = (
        ~demand.recreated[lost]
        & ~np.logical_or(*placement_rules.entangled(state))[lost]
        & ~np.isin(lost, state.pnode[here & (state.template == DRBD)])
    )
    rows = lost[sure]
    if len(rows) and len(takers):
        left = np.broadcast_to(room.memory[takers], (len(rows), len(takers)))
        alone, columns = class_loads(state, np.zeros(0, np.int64)), state.columns
        at = rows[:, np.newaxis]
        classes = tuple(load.room(columns, at, takers) for load in alone)
        sure[sure] = _found(state, demand, rows, takers, room.on(takers, left, classes))
    return lost[~sure] if len(takers) else lost


def _found(
    state: State,
    demand: DisplacedDemand,
    rows: Ints,
    targets: Ints,
    room: TargetRoom,
    proof: Proof = surely_found,
) -> Bools:
    """Whether the demand of each row certainly finds room on targets with so much room (rows by targets)."""
    lost = rows[:, np.newaxis]
    reach = targets != lost
    if state.allowed_migrations is not None:
        reach &= state.allowed_migrations[lost, targets] | ~demand.shared[lost]
    if demand.refused is not None:
        reach &= ~demand.refused[lost, targets]
    sees = availability(state.columns)[len(room.disk) :][: len(demand.pools)]
    for seen, wanted in zip(sees, demand.pools, strict=True):
        reach &= seen[targets] | ~wanted[lost]
    return proof(demand, rows, reach, room, state.columns.excl_stor[targets])


def _less(values: Ints, rows: Sequence[int], amount: int) -> Ints:
    values = values.copy()
    np.subtract.at(values, rows, amount)
    return values
