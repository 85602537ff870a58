"""Global N+1 redundancy: could every node be lost, one at a time, and all its instances live on?

The rule is that of Ganeti's htools (``GlobalN1.hs``); :mod:`.node_loss` has it. Trying it is slow, and rarely
needed: only nodes of which :mod:`.sums` prove neither that their loss is survived nor that it is not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ganeti_htools.engine.redundancy.class_loads import class_loads
from ganeti_htools.engine.redundancy.displaced import DRBD, displaced_by_node
from ganeti_htools.engine.redundancy.irrecoverable import irrecoverable
from ganeti_htools.engine.redundancy.known_losses import KnownLosses
from ganeti_htools.engine.redundancy.node_loss import (
    all_can_be_lost,
    bound_to_units,
    can_be_lost,
)
from ganeti_htools.engine.redundancy.sums import free_on, proved
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.resources import MEMORY
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Ints, sorted_unique
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State


class Check(Protocol):
    """What a search for a place needs to know of redundancy."""

    def admits(self, asked: RequestedInstance, primaries: Ints, secondaries: Ints | None) -> Bools:
        """For each primary (and secondary), False where the state would certainly not be redundant."""

    def confirms(self, trial: Trial, suspects: list[int]) -> bool:
        """Whether a placement on one candidate is redundant, by simulation where need be.

        ``suspects`` are nodes that failed before; they are tried first, and the list is updated.
        """

    def bears(
        self, asked: RequestedInstance, primary: int, secondary: int, suspects: list[int], few: bool = True
    ) -> bool | None:
        """As :meth:`confirms` says, for a new instance on these nodes; None if that takes a trial.

        Losses are looked at in any order, so ``suspects`` tell nothing for :meth:`hopeless`; unless there are
        ``few`` candidates, that takes a state that is redundant as it is, or an instance without a mirror.
        """
        return None

    def hopeless(self, suspects: list[int]) -> bool:
        """Whether the first of the suspects, which has just failed, would fail even with nothing placed."""


@dataclass(frozen=True, slots=True)
class Redundancy(KnownLosses):
    """The sums, and what is simulated where they prove nothing; see :func:`assess`."""

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
        known = self.bears(asked, primary, secondary, suspects, few=False)
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
        placed: list[State] = []

        def survived(node: int) -> bool:
            found = self._survived_with(asked, primary, secondary, node) if self._quick(asked) else None
            if found is None:
                if not placed:
                    placed.append(self.state.copy())
                    settling.settle(placed[0], trial)
                found = can_be_lost(placed[0], node, self.scope, self.arrivals)
            return found

        return all_can_be_lost(survived, unsettled, suspects)

    def bears(
        self, asked: RequestedInstance, primary: int, secondary: int, suspects: list[int], few: bool = True
    ) -> bool | None:
        """As :class:`Check` says; of a mirrored instance :meth:`admits` has to say so of the nodes.

        It may as well come after the mirrored instances of a lost node have failed over, which then need not
        be done again for each placement.
        """
        if not self._quick(asked):
            return None
        likely = [node for node in suspects if self.looked[node]]
        if asked.mirrored:
            if not likely and not self._concerned(asked, primary):
                return True
            if not few and not self.tried.get(NOWHERE):  # to find it out takes longer than a trial
                return None

        survived: set[int] = set()
        for node in self._likeliest_first(asked, primary, likely):
            if node in survived:
                continue
            verdict = self._survived_with(asked, primary, secondary, node)
            if verdict is False:
                suspects[:] = [node, *(each for each in suspects if each != node)]
            if not verdict:
                return verdict
            survived.add(node)
        return True

    def _likeliest_first(self, asked: RequestedInstance, primary: int, likely: list[int]) -> Iterator[int]:
        """Nodes that may not be lost with a new instance; some come twice."""
        yield from likely[:1]
        if not asked.mirrored and self.looked[primary]:  # there is an instance more that needs room
            yield primary
        yield from likely
        yield from self._concerned(asked, primary)

    def redundant(self) -> bool:
        """Whether the state is redundant as it is; NOWHERE stands for all nodes in ``tried``."""
        if NOWHERE not in self.tried:
            self.tried[NOWHERE] = self.holds()
        return self.tried[NOWHERE]

    def after(self, asked: RequestedInstance, places: Sequence[tuple[int, int]]) -> "Redundancy | None":
        """The same once equal new instances on these nodes, which it bears, are on the state.

        None if this cannot be told here.
        """
        if asked.forthcoming:
            return None
        if asked.mirrored:
            return self._after_mirrored(asked, places)
        quick, primaries = self._quick(asked), [primary for primary, _ in places]
        joining = [node for node in primaries if not self._bound(asked, node)]
        return replace(
            self,
            free=self.state.columns.unallocated,
            displaced=self.displaced.joined(asked, np.array(joining)) if joining else self.displaced,
            tried={NOWHERE: True},
            doubtful={},
            concerned={},
            lost={node: lost and lost.placed(asked, primaries) for node, lost in self.lost.items() if quick},
        )

    def _after_mirrored(
        self, asked: RequestedInstance, places: Sequence[tuple[int, int]]
    ) -> "Redundancy | None":
        if self.state.columns.shape.binds:
            return None
        load, size, known = self.load.copy(), len(self.free), self.lost if self._quick(asked) else {}
        np.add.at(load, tuple(np.array(places).T), asked.record_mem)
        pairs = [primary * size + secondary for primary, secondary in places]
        together = sorted_unique(np.append(self.pairs[0] * size + self.pairs[1], pairs))
        rows = np.arange(len(self.state.pnode) - len(places), len(self.state.pnode))
        for place in places:
            known = {node: lost and lost.mirrored(asked, *place) for node, lost in known.items()}
        return replace(
            self,
            free=self.state.columns.unallocated,
            load=load,
            pairs=(together // size, together % size),
            mirrored=np.append(self.mirrored, rows),
            tried={NOWHERE: True},
            doubtful={},
            concerned={},
            lost=known,
        )

    def hopeless(self, suspects: list[int]) -> bool:
        """As :class:`Check` says."""
        node = suspects[0]
        if node not in self.tried:
            doubtful = node in self.unsettled()
            self.tried[node] = not doubtful or self._survived(node)
        return not self.tried[node]


def assess(state: State, scope: Bools, options: PlacementOptions) -> Redundancy:
    """What can be said of the redundancy of the nodes in scope before anything is placed."""
    columns, size = state.columns, len(state.group)
    looked = scope & ~columns.offline if options.accept_existing else scope
    settled = ~state.forthcoming & (state.pnode != NOWHERE) & scope[state.pnode]
    if columns.shape.binds:
        rows = np.flatnonzero(settled)
        settled[rows[bound_to_units(state, rows, scope)]] = False
    mirrored = np.flatnonzero(settled & (state.template == DRBD) & (state.snode != NOWHERE))
    lost, partners = state.pnode[mirrored], state.snode[mirrored]
    load = np.zeros((size, size), np.int64)
    np.add.at(load, (lost, partners), state.record_mem[mirrored])
    pairs = sorted_unique(lost * size + partners)
    lost, partners = pairs // size, pairs % size
    free = columns.unallocated
    stuck = MEMORY.relation.broken(free[partners] - load[lost, partners], 0)
    classes = class_loads(state, mirrored)
    for each in classes:
        stuck |= each.missing(columns, lost, partners) > 0
    if state.allowed_migrations is not None:
        stuck |= ~state.allowed_migrations[lost, partners]
    broken = irrecoverable(state, settled, mirrored, scope)
    broken[lost[stuck]] = True
    for each in classes:
        broken[state.pnode[mirrored[each.barred(state, mirrored)]]] = True
    displaced = displaced_by_node(state, settled)
    found = lost, partners
    redundancy = Redundancy(state, scope, looked, broken, free, load, found, mirrored, displaced, classes)
    for node in redundancy.unsettled().tolist():
        broken[node] |= redundancy.lacks(node, displaced, free_on(columns))
    return redundancy


def unproved(state: State, lost: Ints, takers: Ints) -> Ints:
    """The nodes of which sums do not prove that their instances come back on other nodes of their group.

    ``lost`` are nodes of one group, ``takers`` the others that count (rows). Nothing is proved of instances
    that fail over or are recreated.
    """
    here = np.isin(state.pnode, lost) & ~state.forthcoming
    displaced, free = displaced_by_node(state, here), free_on(state.columns)
    sure = ~displaced.recreated[lost] & ~np.isin(lost, state.pnode[here & (state.template == DRBD)])
    rows = lost[sure]
    if len(rows) and len(takers):
        left = np.broadcast_to(free.memory[takers], (len(rows), len(takers)))
        alone, columns = class_loads(state, np.zeros(0, np.int64)), state.columns
        at = rows[:, np.newaxis]
        classes = tuple(each.left(columns, displaced, at, takers, None, NOWHERE) for each in alone)
        sure[sure] = proved(state, displaced, rows, takers, free, left, classes)
    return lost[~sure] if len(takers) else lost
