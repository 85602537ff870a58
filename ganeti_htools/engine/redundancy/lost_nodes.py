"""Lost nodes of a state, and what becomes of their loss with more instances on the state."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ganeti_htools.engine.redundancy.arrivals import Arrival, Arrivals, Mirror, need_of
from ganeti_htools.engine.redundancy.loss_simulation import Displaced, LossSimulation
from ganeti_htools.engine.redundancy.nodes_left import Nodes
from ganeti_htools.engine.redundancy.packing import unplaceable
from ganeti_htools.engine.redundancy.room import Wanted, wanted
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.state import RequestedInstance, State


@dataclass(frozen=True, slots=True)
class LostNode(LossSimulation):
    """A lost node to whose state new instances may come; see :func:`lost_node`.

    What becomes of it is not found out anew with each: it is the same as if they came once the mirrored
    instances of the node have failed over. ``known`` is what instances change, ``peers`` for whom nodes keep
    memory free.
    """

    known: Arrivals
    peers: Ints

    def placed(self, asked: RequestedInstance, primaries: Sequence[int]) -> "LostNode | None":
        """With equal new instances with these primaries only, None if this cannot be told here."""
        if not self._knows(asked):
            return None
        arrival, nodes = self.arrival(asked), self.own_nodes()
        came = Counter(primaries)
        for primary, number in came.items():
            self._place(nodes, asked, arrival, primary, number)
        if self.node not in came:
            return replace(self, nodes=nodes)
        at, new = self.joined_by(asked)
        instances = [*self.instances[:at], *[new] * came[self.node], *self.instances[at:]]
        memory, disk = _wanted(instances)
        return replace(self, instances=instances, memory=memory, disk=disk, nodes=nodes)

    def mirrored(self, asked: RequestedInstance, primary: int, secondary: int) -> "LostNode | None":
        """With a new mirrored instance on these nodes, None if this cannot be told here.

        The instance fails over if its primary is lost. Then all is as if it had come the other way round once
        the others had failed over; that it can is for the caller to know.
        """
        if not self._knows(asked):
            return None
        state = self.state
        if primary == self.node:  # then what nodes have left is not what others find
            state, primary, secondary = replace(state), secondary, primary
        nodes, mirror = self.own_nodes(), self.mirror(asked)
        self._place(nodes, asked, self.arrival(asked), primary)
        reserved, peers = self.reserved.copy(), self.peers.copy()
        peers[primary, secondary] += asked.secondary_mem
        reserved[secondary] = max(reserved[secondary], int(peers[primary, secondary]))
        more = reserved[secondary] - self.reserved[secondary]
        together = replace(self, state=state, nodes=nodes, reserved=reserved, peers=peers)
        changes = mirror.taken[secondary] + more * mirror.kept[secondary]
        together._take(nodes, asked, 0, secondary, 1, changes.tolist())
        return together

    def _knows(self, asked: RequestedInstance) -> bool:
        """Whether losses with this new instance can be told of here."""
        return not len(asked.tags) and (self.exclusive is None or asked.spindles is not None)

    def joined_by(self, asked: RequestedInstance) -> tuple[int, Displaced]:
        """A new instance with the lost node as primary, and before which of the instances it finds its room.

        Of those with as much memory it goes first, as the latest to come.
        """
        moves, mem = asked.row.template.survives_node, asked.row.mem
        at = 0
        while not moves and at < len(self.instances) and _goes_before(self.instances[at].asked, mem):
            at += 1
        return at, _displaced(self.state, self.node, self.reach, asked, self.arrival(asked))

    def learn(self, several: Sequence[RequestedInstance]) -> None:
        """Find out together what instances change that differ in amounts only."""
        self.known.learn(self.state, several, self.nodes.score)

    def arrival(self, asked: RequestedInstance) -> Arrival:
        """What a new instance changes where it comes to."""
        return self.known.of(self.state, asked, need_of(asked), self.nodes.score)

    def mirror(self, asked: RequestedInstance) -> Mirror:
        """What a new mirrored instance changes as secondary."""
        return self.known.mirror_of(self.state, asked, need_of(asked), self.nodes.score)

    def survived_with(self, asked: RequestedInstance, primary: int, secondary: int = NOWHERE) -> bool | None:
        """The same with a new instance on these nodes, None if this cannot be told here."""
        if secondary != NOWHERE:
            return self._survived_with_mirrored(asked, primary, secondary)
        joins, mem, disk = primary == self.node, self.nodes.mem, self.nodes.disk
        if joins and self._lacks(mem, disk, asked):
            return False
        if joins or not self._knows(asked):
            together = self.placed(asked, [primary])
            return None if together is None else together.survived()
        mem = mem.copy()
        mem[primary] -= asked.record_mem
        if asked.local:
            disk = disk.copy()
            disk[primary] -= asked.dsk
        proven = self._proven(mem, disk)
        if proven is None:
            nodes = self.own_nodes()
            self._place(nodes, asked, self.arrival(asked), primary)
            proven = self._tried(nodes)
        return proven

    def _survived_with_mirrored(self, asked: RequestedInstance, primary: int, secondary: int) -> bool | None:
        if not self._knows(asked):
            return None
        proven = self._proven(*self._left_with_mirrored(asked, primary, secondary))
        if proven is None:
            together = self.mirrored(asked, primary, secondary)
            proven = None if together is None else together._tried(together.nodes)
        return proven

    def unplaceable_with(self, asked: RequestedInstance, primary: int, secondary: int) -> bool:
        """Whether instances find no room with a new mirrored instance on these nodes, wherever they go."""
        return self._knows(asked) and unplaceable(
            self.instances, *self._left_with_mirrored(asked, primary, secondary)
        )

    def _left_with_mirrored(
        self, asked: RequestedInstance, primary: int, secondary: int
    ) -> tuple[list[int], list[int]]:
        """Memory and disk that nodes have left (MiB) once a new mirrored instance has failed over, if it
        has to.
        """
        taker = secondary if primary == self.node else primary
        mem, disk = self.nodes.mem.copy(), self.nodes.disk
        mem[taker] -= asked.record_mem
        if asked.local:
            disk = disk.copy()
            disk[primary] -= asked.dsk
            disk[secondary] -= asked.dsk
        return mem, disk


def _goes_before(asked: RequestedInstance, mem: int) -> bool:
    """Whether an instance finds its room before a new one that is recreated, with as much memory (MiB)."""
    return asked.row.template.survives_node or asked.row.mem > mem


def _wanted(instances: Sequence[Displaced]) -> tuple[Wanted, Wanted]:
    """The memory and the disk that instances want together."""
    disk = [each.disk for each in instances if each.disk is not None]
    return wanted([each.mem for each in instances]), wanted(disk)


def _displaced(
    state: State, node: int, reach: list[int], asked: RequestedInstance, arrival: Arrival
) -> Displaced:
    """An instance of a lost node, for which nodes in reach may have room."""
    targets = reach if arrival.welcome else [at for at in reach if arrival.allowed[at]]
    if state.allowed_migrations is not None and asked.row.template.survives_node:
        targets = [at for at in targets if state.allowed_migrations[node, at]]
    return Displaced(asked, arrival, asked.record_mem, asked.dsk if asked.local else None, targets)


def lost_node(
    known: Arrivals,
    state: State,
    node: int,
    displaced: Sequence[int],
    scope: Bools,
    others: Sequence[LostNode | None] = (),
) -> LostNode | None:
    """A lost node of which these instances need room, in this order; the state must not change any more.

    None if it cannot be simulated here: nodes tell their storage units, some node has no score, or an
    instance does not say how many spindles it needs and some node counts them. Those on shared storage have
    to come before all others. Of ``others``, lost nodes on the same state, those figures are taken that are
    the same.
    """
    known.tidy()
    if state.columns.shape.binds:
        return None
    columns, online = state.columns, ~state.columns.offline
    mates = scope & (state.group == state.group[node])
    asked_for = [known.asked(state, index) for index in displaced]
    exclusive = bool(columns.excl_stor[mates].any())
    if exclusive and any(asked.spindles is None for asked, _ in asked_for):
        return None
    alike = (
        each.nodes for each in others if each and each.state is state and bool(each.exclusive) is exclusive
    )
    nodes = next(alike, None) or Nodes(state, exclusive)
    if not nodes.rated:
        return None
    reach = [at for at in np.flatnonzero(mates).tolist() if at != node]
    instances = [
        _displaced(state, node, reach, asked, known.of(state, asked, need, nodes.score))
        for asked, need in asked_for
    ]
    memory, disk = _wanted(instances)
    moving = mates & online
    recreating = scope & online if (scope & online & ~moving).any() else moving
    return LostNode(
        state=state,
        known=known,
        node=node,
        moving=moving,
        recreating=recreating,
        reach=reach,
        online=online.tolist(),
        reserved=columns.r_mem.tolist(),
        peers=state.peers.copy(),
        exclusive=columns.excl_stor.tolist() if exclusive else None,
        instances=instances,
        memory=memory,
        disk=disk,
        nodes=nodes,
    )
