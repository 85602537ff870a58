"""Whether the instances of a lost node find room, when many placements are tried on one state.

The twin of :func:`.node_loss.recover` for what does not fail over, with the same choices: one instance after
the other goes where the nodes are best balanced then. What an instance changes on a node is remembered
(:mod:`.arrivals`); each step is then some arithmetic with what nodes have left (:mod:`.nodes_left`). Restated
are the hard limits of ``node_rules.add_primary`` and its N+1 rule; a property test compares with
:func:`.node_loss.recover`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.redundancy.arrivals import Arrival
from ganeti_htools.engine.redundancy.nodes_left import Balance, Nodes
from ganeti_htools.engine.redundancy.room import Wanted, lacking
from ganeti_htools.engine.rules import affinity, choice
from ganeti_htools.engine.rules.components import COMPONENTS, INDEX, LOCATION_EXCLUSION, WEIGHTS
from ganeti_htools.engine.rules.resources import DISK, MEMORY, SPINDLES, check_hard
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.state import RequestedInstance, State

N1, TAGS, LOCATION = INDEX["n1_cnt"], INDEX["pri_tags_score"], INDEX["location_score"]
# What a primary changes in other ways than in proportion; reserved memory it leaves as it is.
_UNKNOWN = [
    each.name
    for which, each in enumerate(COMPONENTS)
    if not each.proportional
    and which not in (N1, TAGS, LOCATION, LOCATION_EXCLUSION)
    and each.figures != ("r_mem",)
]
if _UNKNOWN:
    raise ValueError(f"the simulation of lost nodes does not know what changes {', '.join(_UNKNOWN)}")

# What Nodes keeps account of; these are all hard limits there are.
check_hard((MEMORY, DISK, SPINDLES), "the simulation of lost nodes")


class Displaced(NamedTuple):
    """An instance that needs room on one of ``targets``: memory, and disk unless it has none there (MiB)."""

    asked: RequestedInstance
    arrival: Arrival
    mem: int
    disk: int | None
    targets: list[int]


@dataclass(frozen=True, slots=True)
class LossSimulation:
    """A lost node on a state, and its ``instances`` that need room, in order.

    ``moving`` and ``recreating`` are the nodes whose balance counts for instances on shared storage and for
    others, ``reach`` the rows of the nodes that take any. ``memory`` and ``disk`` are what all instances
    want together. ``reserved`` is memory that nodes keep free, ``exclusive`` where spindles count, None if
    nowhere.
    """

    state: State
    node: int
    moving: Bools
    recreating: Bools
    reach: list[int]
    online: list[bool]
    reserved: list[int]
    exclusive: list[bool] | None
    instances: list[Displaced]
    memory: Wanted
    disk: Wanted
    nodes: Nodes

    def own_nodes(self) -> Nodes:
        """Nodes to be changed, with the balance that counts first."""
        if self.instances:
            self.nodes.balanced(self._counted(self.instances[0].asked))
        return self.nodes.copy()

    def _counted(self, asked: RequestedInstance) -> Bools:
        """The nodes whose balance counts for an instance."""
        return self.moving if asked.row.template.survives_node else self.recreating

    def survived(self) -> bool:
        """Whether all instances find room."""
        proven = self._proven(self.nodes.mem, self.nodes.disk)
        return self._tried(self.own_nodes()) if proven is None else proven

    def surely_survived(self) -> bool:
        """Whether sums prove that all instances find room; with less placed they would prove it as well."""
        return bool(self._proven(self.nodes.mem, self.nodes.disk))

    def _proven(self, mem: list[int], disk: list[int]) -> bool | None:
        """Whether all instances find room on nodes with so much free (MiB), None if it has to be tried."""
        if self._lacks(mem, disk):
            return False
        return self._surely_placed(mem, disk, 0) == len(self.instances) or None

    def _lacks(self, mem: list[int], disk: list[int], new: RequestedInstance | None = None) -> bool:
        """Whether there is certainly no room for all instances, and perhaps a new one."""
        memory, space = self.memory, self.disk
        if new is not None:
            memory, space = memory.joined(new.record_mem), space.joined(new.dsk) if new.local else space
        return any(
            lacking([room for at in self.reach if (room := free[at]) > total.least], total)
            for free, total in ((mem, memory), (disk, space))
            if total.number
        )

    def _surely_placed(self, mem: list[int], disk: list[int], start: int) -> int:
        """The first of the instances, from a position on, that may find no room on nodes with so much free.

        One certainly finds some if those before it cannot have filled all nodes that had room for it,
        wherever they went: each leaves too little on one node at most, and all together do so only if they
        take as much as there is beyond what the one needs. (What they take are multiples of some unit.) If
        some nodes may be full of disk and the others of memory, what that takes of each, as shares of all
        that they take, adds up to two at most. Of spindles, which those with disks on nodes need, nothing is
        known.
        """
        number = taken = taken_disk = unit = 0
        for at in range(start, len(self.instances)):
            _, _, need, need_disk, targets = self.instances[at]
            if self.exclusive is not None and need_disk is not None:
                return at
            places = room = shares = 0
            for node in targets:
                left, left_disk = mem[node] - need, disk[node] - (need_disk or 0)
                if left > 0 and (need_disk is None or left_disk > 0):
                    left = -(-left // unit) * unit if unit else left
                    places += 1
                    if need_disk is None or left_disk > taken_disk:
                        room += left
                    shares += min(left * taken_disk, left_disk * taken)
            if places <= number and room <= taken and shares <= 2 * taken * taken_disk:
                return at
            number, taken, unit = number + 1, taken + need, gcd(unit, need)
            taken_disk += need_disk or 0
        return len(self.instances)

    def _tried(self, nodes: Nodes) -> bool:
        """Whether all instances find room, by trying; ``nodes`` are changed."""
        places, sure, number = self.places(nodes), 0, len(self.instances)
        for at in range(number):
            if at >= sure:
                sure = self._surely_placed(nodes.mem, nodes.disk, at)
                if sure == number:
                    return True
            if next(places) == NOWHERE:
                return False
        return True

    def places(self, nodes: Nodes) -> Iterator[int]:
        """The node of each instance, one after the other, NOWHERE for the first that finds no room.

        ``nodes`` are changed on the way.
        """
        state = self.state
        if any(len(each.asked.tags) for each in self.instances):
            counts = state.tag_counts.copy(), state.settled_tag_counts.copy()
            state = replace(state, tag_counts=counts[0], settled_tag_counts=counts[1])
        for displaced in self.instances:
            asked, arrival = displaced.asked, displaced.arrival
            places = self._with_room(nodes, displaced)
            if not places:
                yield NOWHERE
                return
            moves, best = asked.row.template.survives_node, places[0]
            if moves:  # what is recreated takes nothing off the lost node
                nodes.change(self.node, [-change for change in arrival.spreads[self.node]])
            elif len(asked.tags):
                asked = replace(asked, index=NOWHERE)
            if len(places) > 1:
                balance = nodes.balanced(self._counted(asked))
                best = self._best(state, nodes, balance, asked, arrival, places)
            self._place(nodes, asked, arrival, best)
            for table in (state.tag_counts, state.settled_tag_counts) if len(asked.tags) else ():
                table[asked.tags, best] += 1
                table[asked.tags, self.node] -= moves
            yield best

    def _with_room(self, nodes: Nodes, displaced: Displaced) -> list[int]:
        """The nodes with room for an instance."""
        asked, _, need, need_disk, targets = displaced
        mem, disk = nodes.mem, nodes.disk
        places = [at for at in targets if mem[at] > need]
        if need_disk is not None:
            places = [at for at in places if disk[at] > need_disk]
            if self.exclusive is not None:
                needed, spindles, counted = asked.spindles or 0, nodes.spindles, self.exclusive
                places = [at for at in places if not counted[at] or spindles[at] >= needed]
        return places

    def _place(
        self, nodes: Nodes, asked: RequestedInstance, arrival: Arrival, node: int, number: int = 1
    ) -> None:
        """An instance comes to a node, or more."""
        changes = arrival.spreads[node]
        changes = changes if number == 1 else [number * change for change in changes]
        self._take(nodes, asked, asked.record_mem, node, number, changes)

    def _take(
        self,
        nodes: Nodes,
        asked: RequestedInstance,
        memory: int,
        node: int,
        number: int,
        changes: list[float],
    ) -> None:
        """So many instances come to a node and take ``memory`` each, in either role."""
        nodes.mem[node] -= memory * number
        nodes.disk[node] -= asked.dsk * number if asked.local else 0
        if self.exclusive is not None and self.exclusive[node]:
            nodes.spindles[node] -= (asked.spindles or 0) * number
        nodes.number[node] += number
        nodes.failing[node] = nodes.number[node] if nodes.mem[node] <= self.reserved[node] else 0
        nodes.change(node, changes)

    def _best(
        self,
        state: State,
        nodes: Nodes,
        balance: Balance,
        asked: RequestedInstance,
        arrival: Arrival,
        places: list[int],
    ) -> int:
        """The node that is best for an instance."""
        if not balance.number:
            return places[-1]
        scores = nodes.deviations(balance, arrival, places)
        n1, mem, counts, online = WEIGHTS[N1], asked.record_mem, arrival.counts, self.online
        for which, at in enumerate(places):
            scores[which] += counts[at]
            if online[at]:
                fails = nodes.mem[at] - mem <= self.reserved[at]
                scores[which] += n1 * ((nodes.number[at] + 1 if fails else 0) - nodes.failing[at])
        if len(asked.tags) or len(asked.desired):  # what no node has makes no difference
            by_tags = np.where(online, _by_tags(state, asked), 0.0)
            if len(asked.tags):
                every = np.arange(len(online))
                by_tags += WEIGHTS[LOCATION_EXCLUSION] * affinity.location_exclusion_change(
                    state, asked, every, balance.counted
                )
            scores = (np.array(scores) + by_tags[places]).tolist()
        return places[choice.last_near_best(scores)]


def _by_tags(state: State, asked: RequestedInstance) -> Any:
    """What tags add to the score, for each node."""
    total: Any = 0.0
    if len(asked.tags):
        total = total + WEIGHTS[TAGS] * affinity.tag_conflicts(state, asked)
    if len(asked.desired) + asked.unknown_desires:
        total = total + WEIGHTS[LOCATION] * affinity.unmet_locations(state, asked)
    return total
