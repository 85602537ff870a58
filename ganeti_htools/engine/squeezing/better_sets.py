"""A better set of nodes to power down than the one that a greedy search found: of more nodes, or with less
data moved.

What is left of a group has to hold everything, so sets are tried whose nodes have least room, of nodes with
about as much those from which least has to be moved; first one node more, and again one more, then as many.
Then sets are tried in the order of what has to be moved at least, until no other can be better. Each trial
balances the group, so there are only so many of them: small groups are searched through, of large ones what
is most promising. All nodes of a set are emptied in one phase.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from ganeti_htools.engine.balancing.balance import Step
from ganeti_htools.engine.balancing.traffic import copied, copied_by
from ganeti_htools.engine.squeezing.candidates import offline_candidates
from ganeti_htools.engine.squeezing.node_sets import ascending
from ganeti_htools.engine.squeezing.power_group import PowerGroup
from ganeti_htools.engine.squeezing.power_plan import PowerPlan, Wishes
from ganeti_htools.model.columns import NOWHERE, Ints
from ganeti_htools.model.moves import Operation
from ganeti_htools.model.state import State
from ganeti_htools.model.types import MirrorType

EFFORT = 4000  # instances balanced, at least; and a third as many trials as there are candidates
GLANCES = 20  # sets looked at for each trial, if only at their sums
STEPS = 20  # by which the room of nodes is told apart, up to the average

# The least that takes the primary of an instance off its node.
_LEAVING = {
    MirrorType.EXTERNAL: (Operation.FAILOVER_TO,),
    MirrorType.INTERNAL: (Operation.FAILOVER, Operation.REPLACE_SECONDARY),
    MirrorType.NONE: (Operation.MOVE,),
}


def rank(state: State, plan: PowerPlan) -> tuple[int, int, int]:
    """How good a plan for a state is, lower is better: more nodes, then less data moved, then fewer moves."""
    return -len(plan.nodes), data_moved(state, plan.steps), len(plan.steps)


def data_moved(state: State, steps: Sequence[Step]) -> int:
    """What steps copy of disks and memory (MiB)."""
    return sum(sum(copied(step.kind, state.cluster.instances[step.instance])) for step in steps)


def least_moved(state: State) -> Ints:
    """What has to be copied at least (MiB) to empty each node, whichever others are emptied as well."""
    least = np.zeros(len(state.group), np.int64)
    pairs = zip(state.cluster.instances, state.pnode.tolist(), state.snode.tolist(), strict=True)
    for row, primary, secondary in pairs:
        least[primary] += sum(copied_by(_LEAVING[row.template.mirror], row))
        if secondary != NOWHERE:
            least[secondary] += sum(copied_by((Operation.REPLACE_SECONDARY,), row))
    return least


def better_set(group: PowerGroup, found: PowerPlan, wishes: Wishes) -> PowerPlan:
    """The best plan for another set of candidates that can be made, the one that was found if none is better.

    It has those nodes of it that are preferred, and none that must not be powered down.
    """
    search = _Search(group, found, wishes)
    most = len(search.order) if wishes.most is None else wishes.most
    size = len(found.nodes) + 1
    while size <= most and search.smallest(size):
        size += 1
    if size == len(found.nodes) + 1:
        search.smallest(size - 1)
    search.cheapest(size - 1)
    return search.best


class _Search:
    """Sets tried on a group, as long as there are ``trials`` left, and the ``best`` plan so far."""

    def __init__(self, group: PowerGroup, found: PowerPlan, wishes: Wishes) -> None:
        self.group, self.best = group, found
        self.order = group.within(offline_candidates(group.state, group.allowed))
        self.fixed = [node for node in found.nodes if node in wishes.prefer]
        self.others = [node for node in self.order if node not in wishes.never and node not in self.fixed]
        hosted = int(np.count_nonzero(group.scope[group.state.pnode]))
        self.trials = max(len(self.order) // 3, EFFORT // max(hosted, 1))
        self.least = least_moved(group.state)

    def smallest(self, size: int) -> bool:
        """Try sets of a size, those first whose nodes have least room; whether one was better."""
        room = self.group.bounds.size[self.others]
        dearest = int(self.least.sum()) + 1
        coarse = np.rint(STEPS * room * len(room) / (room.sum() or 1.0)).astype(np.int64)
        costs = coarse * dearest + self.least[self.others]
        known, trials = self.best, self.trials - self.trials // 3
        for _, nodes in self._sets(costs, size):
            if self.trials <= trials or self._try(nodes):
                break
        return self.best is not known

    def cheapest(self, size: int) -> None:
        """Try sets of a size, those first that have least to be moved, until no other can be better."""
        anyway = int(self.least[self.fixed].sum())
        for total, nodes in self._sets(self.least[self.others], size):
            if not self.trials or anyway + total >= data_moved(self.group.state, self.best.steps):
                return
            self._try(nodes)

    def _sets(self, costs: Ints, size: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Sets of a size that may be possible, those first whose other nodes cost least, with these costs."""
        sets = ascending(costs.tolist(), size - len(self.fixed))
        for total, chosen in islice(sets, GLANCES * self.trials):
            wanted = {*self.fixed, *(self.others[position] for position in chosen)}
            nodes = tuple(node for node in self.order if node in wanted)
            if not self.group.infeasible(nodes, True, self.group.target):
                yield total, nodes

    def _try(self, nodes: tuple[int, ...]) -> bool:
        """Try a set; whether it is better."""
        self.trials -= 1
        plan, start = self.group.plan_without(nodes), self.group.state
        better = rank(start, plan) < rank(start, self.best) and self.group.obstacle(plan.state) is None
        made = self.group.executable(plan) if better else None
        self.best = made or self.best
        return made is not None
