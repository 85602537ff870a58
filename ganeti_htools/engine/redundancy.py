"""Global N+1 redundancy: could every node be lost, one at a time, and all its instances live on?

Ganeti's htools (``GlobalN1.hs``) empty each node in turn: mirrored instances fail over to their
secondaries, instances on shared storage go one by one to the node of the group that leaves it best
balanced, and the rest are recreated, largest first, on the best node. Only what exists limits
(memory, disk, spindles, migration tags, policy), not what balances.

Emptying by simulation is slow, and rarely needed. What mirrored instances need follows from sums.
For the others, whatever the order and choice, an instance of size m finds no room only if every
candidate is filled until less than m is left; so if the candidates' room beyond the largest instance
adds up to more than all the others take, none can fail. Only nodes where that does not settle it are
simulated.
"""

from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine import choice, moves
from ganeti_htools.engine.moves import Trial
from ganeti_htools.engine.options import Options
from ganeti_htools.model.policy import Demand, violation
from ganeti_htools.model.state import NOWHERE, TEMPLATE_CODE, Asked, Bools, Ints, State
from ganeti_htools.model.types import DiskTemplate

DRBD = TEMPLATE_CODE[DiskTemplate.DRBD]
SURVIVES = np.array([template.survives_node for template in DiskTemplate])
LOCAL = np.array([template.local_storage for template in DiskTemplate])


@dataclass(frozen=True, slots=True)
class Refugees:
    """What has to find room when a node is lost and does not fail over; arrays over nodes.

    Memory and disk: the sum without the smallest, and the largest (MiB). ``shared`` tells whether
    any is on shared storage, so that migration tags matter.
    """

    some: Bools
    mem_others: Ints
    mem_largest: Ints
    dsk_others: Ints
    dsk_largest: Ints
    shared: Bools


@dataclass(slots=True)
class Redundancy:
    """What holds for every placement on a state; see :func:`assess`.

    ``looked`` are the nodes whose loss counts, ``broken`` those whose loss cannot be survived.
    ``load[n, s]`` is the memory (MiB) that instances of ``n`` need on ``s`` should ``n`` be lost,
    ``depends[n, s]`` whether there are any. ``unsettled`` nodes have to be simulated.
    """

    state: State
    scope: Bools
    looked: Bools
    broken: Bools
    free: Ints
    load: Ints
    depends: Bools
    refugees: Refugees
    reach: Bools

    def admits(self, asked: Asked, primaries: Ints, secondaries: Ints | None) -> Bools:
        """For each primary (and secondary), False where the state would certainly not be redundant."""
        shape = (len(primaries),) if secondaries is None else (len(primaries), len(secondaries))
        if (self.broken & self.looked).any():
            return np.zeros(shape, np.bool_)
        expected = np.where(self.depends & self.looked[:, np.newaxis], self.load, -1).max(axis=0, initial=-1)
        after = self.free[primaries] - asked.record_mem
        good = (expected[primaries] < 0) | (after > expected[primaries])
        if secondaries is None:
            return good
        p = primaries[:, np.newaxis]
        survives = self.free[secondaries] - self.load[p, secondaries] - asked.record_mem > 0
        if self.state.migrates is not None:
            survives &= self.state.migrates[p, secondaries]
        return good[:, np.newaxis] & (survives | ~self.looked[p])

    def unsettled(self, asked: Asked, primary: int) -> Ints:
        """Nodes that must be simulated to know that a placement with this primary is redundant."""
        refugees, extra = self.refugees, 0 if asked.mirrored else 1
        load = self.load
        free = self.free.copy()
        free[primary] -= asked.record_mem
        disk = self.state.columns.f_dsk.copy()
        disk[primary] -= asked.dsk if asked.local else 0
        loss = asked.dsk if asked.mirrored else 0  # on a secondary that may be any node
        some, mem_others, mem_largest = refugees.some, refugees.mem_others, refugees.mem_largest
        dsk_others, dsk_largest, shared = refugees.dsk_others, refugees.dsk_largest, refugees.shared
        if extra:
            some, mem_others, mem_largest = some.copy(), mem_others.copy(), mem_largest.copy()
            dsk_others, dsk_largest, shared = dsk_others.copy(), dsk_largest.copy(), shared.copy()
            had = bool(some[primary])
            some[primary] = True
            mem_others[primary] += asked.record_mem if had else 0
            mem_largest[primary] = max(mem_largest[primary], asked.record_mem)
            local = asked.dsk if asked.local else 0
            dsk_others[primary] += local if had else 0
            dsk_largest[primary] = max(dsk_largest[primary], local)
            shared[primary] |= asked.row.template.survives_node
        rows = np.flatnonzero(some & self.looked)
        if not len(rows):
            return rows
        away = load[rows] + (asked.record_mem if asked.mirrored else 0) * (rows == primary)[:, np.newaxis]
        room = np.maximum(free - away - mem_largest[rows, np.newaxis], 0)
        share = room / np.maximum(mem_others[rows, np.newaxis], 0.5)
        limit = np.ones(len(rows))
        needs_disk = dsk_largest[rows] > 0
        if needs_disk.any():
            spare = np.maximum(disk - loss - dsk_largest[rows, np.newaxis], 0)
            with_disk = np.minimum(share, spare / np.maximum(dsk_others[rows, np.newaxis], 0.5))
            share = np.where(needs_disk[:, np.newaxis], with_disk, share)
            limit[needs_disk] = 2.0
        reach = self.reach[rows] if self.state.migrates is None else self.reach[rows] & (
            self.state.migrates[rows] | ~shared[rows, np.newaxis]
        )
        return rows[np.where(reach, share, 0.0).sum(axis=1) <= limit]

    def confirms(self, trial: Trial, suspects: list[int]) -> bool:
        """Whether a placement on one candidate is redundant, by simulation where need be.

        ``suspects`` are nodes that failed before; they are tried first, and the list is updated.
        """
        unsettled = self.unsettled(trial.asked, int(trial.pnode[0])).tolist()
        if not unsettled:
            return True
        state = self.state.copy()
        moves.settle(state, trial)
        for node in [*(n for n in suspects if n in unsettled), *(n for n in unsettled if n not in suspects)]:
            if not can_be_emptied(state, node, self.scope):
                suspects[:] = [node, *(n for n in suspects if n != node)]
                return False
        return True


def _summary(state: State, settled: Bools) -> Refugees:
    size = len(state.group)
    rows = np.flatnonzero(settled & (state.template != DRBD))
    nodes = state.pnode[rows]
    survives = SURVIVES[state.template[rows]]
    mem = state.record_mem[rows]
    dsk = np.where(LOCAL[state.template[rows]], state.dsk[rows], 0)

    def figures(values: Ints) -> tuple[Ints, Ints]:
        total, largest = np.zeros(size, np.int64), np.zeros(size, np.int64)
        smallest = np.full(size, np.iinfo(np.int64).max)
        np.add.at(total, nodes, values)
        np.maximum.at(largest, nodes, values)
        np.minimum.at(smallest, nodes, values)
        return np.maximum(total - smallest, 0), largest

    some = np.zeros(size, np.bool_)
    some[nodes] = True
    shared = np.zeros(size, np.bool_)
    shared[nodes[survives]] = True
    return Refugees(some, *figures(mem), *figures(dsk), shared)


def assess(state: State, scope: Bools, options: Options) -> Redundancy:
    """What can be said of the redundancy of the nodes in scope before anything is placed."""
    columns, size = state.columns, len(state.group)
    looked = scope & ~columns.offline if options.accept_existing else scope
    settled = ~state.forthcoming & (state.pnode != NOWHERE) & scope[state.pnode]
    mirrored = np.flatnonzero(settled & (state.template == DRBD) & (state.snode != NOWHERE))
    primary, secondary = state.pnode[mirrored], state.snode[mirrored]
    load = np.zeros((size, size), np.int64)
    depends = np.zeros((size, size), np.bool_)
    np.add.at(load, (primary, secondary), state.record_mem[mirrored])
    depends[primary, secondary] = True
    free = columns.unallocated
    full = columns.f_dsk <= 0
    stuck = (free - load <= 0) | full | (full & ~columns.offline)[:, np.newaxis]
    short = columns.excl_stor & (columns.f_spindles < 0)
    stuck |= short | short[:, np.newaxis]
    if state.migrates is not None:
        stuck |= ~state.migrates
    broken = (depends & stuck).any(axis=1)
    for index in mirrored[columns.excl_stor[primary] | columns.excl_stor[secondary]].tolist():
        if state.cluster.instances[index].spindles is None:
            broken[state.pnode[index]] = True
    reach = (state.group[:, np.newaxis] == state.group) & scope
    np.fill_diagonal(reach, False)
    refugees = _summary(state, settled)
    unplaceable = _room_missing(state, refugees, free - load, reach) | _against_policy(state, settled, reach)
    return Redundancy(state, scope, looked, broken | unplaceable, free, load, depends, refugees, reach)


def _room_missing(state: State, refugees: Refugees, left: Ints, reach: Bools) -> Bools:
    """Nodes whose largest refugee fits nowhere, or that have more to place than there is room."""
    if not refugees.some.any():
        return refugees.some
    largest = reach & (left > refugees.mem_largest[:, np.newaxis])
    room = np.where(reach, np.maximum(left - 1, 0), 0).sum(axis=1)
    disk = reach & (state.columns.f_dsk > refugees.dsk_largest[:, np.newaxis])
    no_disk = (refugees.dsk_largest > 0) & ~disk.any(axis=1)
    return refugees.some & (~largest.any(axis=1) | (room < refugees.mem_others) | no_disk)


def _against_policy(state: State, settled: Bools, reach: Bools) -> Bools:
    """Nodes with an instance to be recreated that the policy of its own group would refuse everywhere."""
    refused = np.zeros(len(state.group), np.bool_)
    known: dict[tuple[int, Demand, bool], bool] = {}
    exclusive = state.columns.excl_stor
    for index in np.flatnonzero(settled & (state.template != DRBD) & ~SURVIVES[state.template]).tolist():
        node = int(state.pnode[index])
        demand, group = state.cluster.instances[index].demand, int(state.group[node])
        kinds = set(exclusive[reach[node]].tolist())
        for kind in kinds:
            if (group, demand, kind) not in known:
                known[group, demand, kind] = violation(demand, state.policies[group], kind) is not None
        refused[node] |= all(known[group, demand, kind] for kind in kinds)
    return refused


def can_be_emptied(state: State, node: int, scope: Bools) -> bool:
    """Whether all instances of a node find a place should it be lost, by trying."""
    state = state.copy()
    mates = scope & (state.group == state.group[node])
    others = mates.copy()
    others[node] = False
    targets = np.flatnonzero(others)
    here = [state.instance(index) for index in state.primaries_of(node).tolist()]
    for asked in here:
        if asked.mirrored and not _settled(state, moves.failover(state, asked, mates, force=True), mates):
            return False
    if not len(targets):
        return all(asked.mirrored for asked in here)
    for asked in here:
        if asked.row.template.survives_node and not _settled(
            state, moves.failover_to(state, asked, targets, mates, force=True), mates
        ):
            return False
    lost = [asked for asked in here if not asked.mirrored and not asked.row.template.survives_node]
    return all(
        _settled(state, moves.allocate_one(state, asked, targets, scope, force=True), scope)
        for asked in sorted(lost, key=lambda asked: -asked.mem)
    )


def _settled(state: State, trial: Trial, scope: Bools) -> bool:
    candidate = choice.best(state, trial, scope, exact=False)
    if candidate is None:
        return False
    moves.settle(state, trial.only(candidate))
    return True
