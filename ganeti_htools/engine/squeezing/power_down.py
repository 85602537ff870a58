"""Power down nodes of a group (``hsqueeze(1)``).

The first set that is found becomes better: more nodes, or less data moved. The remaining nodes must hold
every instance, so sets of nodes with little room are tried first. Among nodes of similar room those with the
least data to move come first. First sets grow by one node while possible; then sets of the final size are
tried in the order of the least data they move. Every trial balances the group, so the number of trials is
limited. Small groups are searched completely, large ones partly. All nodes of a set are emptied in one phase.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import islice

import numpy as np

from ganeti_htools.engine.moving.traffic import copied, copied_by
from ganeti_htools.engine.squeezing import reserve
from ganeti_htools.engine.squeezing.candidates import offline_candidates
from ganeti_htools.engine.squeezing.power_group import NOT_REDUNDANT, PowerGroup
from ganeti_htools.engine.squeezing.power_plan import ANY, PowerPlan, Wishes
from ganeti_htools.model.columns import NOWHERE, Ints
from ganeti_htools.model.moves import Move, Operation
from ganeti_htools.model.state import State
from ganeti_htools.model.types import MirrorType

ENOUGH = "as many nodes as may be are powered down"
ON_THE_WAY = "N+1 would not hold on the way"
UNTRIED = "was not tried: in a large group, only the nodes with the fewest instances are"

PATIENCE = 8  # candidates of a large group that are tried in vain in a row


def power_down(group: PowerGroup, wishes: Wishes = ANY) -> PowerPlan:
    """Power down as many nodes as possible with as little data moved as possible.

    The plan of a greedy search is replaced only by a better one. Either is continued until the greedy
    search finds no further node, so a second run finds nothing.
    """
    if not reserve.is_empty(group.target) and not reserve.holds_n1(group.state, group.scope):
        possible = group.within(offline_candidates(group.state, group.allowed))
        kept = dict.fromkeys(possible, NOT_REDUNDANT)
        return PowerPlan((), group.state, obstacles=kept)
    if group.large:
        return in_portions(group, wishes)
    found = greedily(group, wishes)
    if not found.nodes:
        return found
    better = better_set(group, found, wishes)
    return found if better is found else _to_rest(group, better, wishes)


def greedily(group: PowerGroup, wishes: Wishes = ANY) -> PowerPlan:
    """Power down one node after the other, as in the design, until no other can join."""
    return _to_rest(group, PowerPlan((), group.state), wishes)


def _to_rest(group: PowerGroup, plan: PowerPlan, wishes: Wishes) -> PowerPlan:
    """Continue a plan until no further node can be powered down.

    Balancing starts again from the plan's end, and may find new steps. N+1 may hold on the way to a second
    node only once the first is empty.
    """
    while True:
        left = None if wishes.most is None else wishes.most - len(plan.nodes)
        more = _more(group.on_state(plan.state), replace(wishes, most=left))
        if not more.nodes:
            return replace(plan, obstacles=more.obstacles)
        plan = _followed(group, plan, more) if plan.nodes else more


def _followed(group: PowerGroup, plan: PowerPlan, more: PowerPlan) -> PowerPlan:
    """Append a plan to another; as a single phase if that is executable."""
    at_once = group.plan_without((*more.nodes, *plan.nodes))
    made = group.executable(at_once) if group.obstacle(at_once.state) is None else None
    return made or replace(more, phases=(*plan.phases, *more.phases))


def _more(group: PowerGroup, wishes: Wishes) -> PowerPlan:
    """Plan one phase: as many of the joining nodes as can really be powered down.

    If none can although some could join, other sets are tried.
    """
    nothing, *joined = _joining(group, wishes)
    if not joined:
        return nothing
    made = next(filter(None, map(group.executable, reversed(joined))), None)
    made = made or better_set(group, nothing, wishes)
    lost = {node: ON_THE_WAY for node in joined[-1].nodes if node not in made.nodes}
    return replace(made, obstacles={**joined[-1].obstacles, **lost})


def _joining(group: PowerGroup, wishes: Wishes) -> list[PowerPlan]:
    """Return plans for nothing and for each candidate that joins its predecessors.

    Preferred candidates come first, then those with the fewest instances. The last plan lists the obstacles
    of all others.
    """
    possible = _in_order(group, wishes)
    plans, kept = [PowerPlan((), group.state)], dict[int, str]()
    for tried, node in enumerate(possible):
        group.progress(f"{tried} of {len(possible)} nodes tried")
        nodes = (node, *plans[-1].nodes)
        if node in wishes.never:
            kept[node] = wishes.never[node]
        elif wishes.most is not None and len(plans) > wishes.most:
            kept[node] = ENOUGH
        elif why := _excluded(group, nodes):
            kept[node] = why
        else:
            plan = group.plan_without(nodes)
            if why := group.obstacle(plan.state):
                kept[node] = why
            else:
                plans.append(plan)
    return [*plans[:-1], replace(plans[-1], obstacles=kept)]


def _in_order(group: PowerGroup, wishes: Wishes) -> list[int]:
    """Return the candidates: preferred ones first, then those with the fewest instances."""
    possible = group.within(offline_candidates(group.state, group.allowed)[::-1])
    return sorted(possible, key=lambda row: row not in wishes.prefer)


def in_portions(group: PowerGroup, wishes: Wishes = ANY) -> PowerPlan:
    """Power down nodes of a large group, portion after portion, each a phase.

    A portion begins where the one before ends, so the group is balanced anew for none of them. A portion has
    half the nodes that bounds allow, fewer if these cannot be powered down.
    """
    plan, most = PowerPlan((), group.state), len(group.scope)
    possible = len(_in_order(group, wishes))
    while True:
        group.progress(f"{len(plan.nodes)} of {possible} nodes tried")
        left = None if wishes.most is None else wishes.most - len(plan.nodes)
        more = _portion(group.on_state(plan.state), most, replace(wishes, most=left))
        if not more.nodes:
            return replace(plan, obstacles=more.obstacles)
        plan, most = replace(more, phases=(*plan.phases, *more.phases)), len(more.nodes)


def _portion(group: PowerGroup, most: int, wishes: Wishes) -> PowerPlan:
    """Plan one phase with at most so many nodes; the plan for nothing lists the obstacles."""
    nothing, order = PowerPlan((), group.state), _in_order(group, wishes)
    kept = {node: wishes.never[node] for node in order if node in wishes.never}
    order = [node for node in order if node not in kept]
    if wishes.most is not None and wishes.most < 1:
        return replace(nothing, obstacles={**kept, **dict.fromkeys(order, ENOUGH)})
    allowed = next((size for size in range(len(order), 0, -1) if not _excluded(group, order[:size])), 0)
    size = min(most, allowed // 2, len(order) if wishes.most is None else wishes.most)
    while size > 1:
        plan, _ = _tried(group, order[:size])
        if plan is not None:
            return plan
        size //= 2
    patience = PATIENCE
    for node in order:
        why = _excluded(group, [node])
        if why is None:
            plan, why = _tried(group, [node]) if patience else (None, UNTRIED)
            patience = max(0, patience - 1)
            if plan is not None:
                return plan
        kept[node] = why
    return replace(nothing, obstacles=kept)


def _excluded(group: PowerGroup, nodes: Sequence[int]) -> str | None:
    """Return the reason why bounds exclude that nodes are powered down; None if they do not."""
    return group.infeasible(nodes, True, group.target) or group.stranded(nodes)


def _tried(group: PowerGroup, nodes: Sequence[int]) -> tuple[PowerPlan | None, str]:
    """Return an executable plan without nodes, or None and the reason."""
    plan = group.plan_without(nodes)
    if why := group.obstacle(plan.state):
        return None, why
    return group.executable(plan), ON_THE_WAY


EFFORT = 4000  # instances balanced, at least; and a third as many trials as there are candidates
GLANCES = 20  # sets checked by their bounds for each trial
STEPS = 20  # resolution of nodes' room, up to the average

# The cheapest operations that take a primary off its node.
_LEAVING = {
    MirrorType.EXTERNAL: (Operation.FAILOVER_TO,),
    MirrorType.INTERNAL: (Operation.FAILOVER, Operation.REPLACE_SECONDARY),
    MirrorType.NONE: (Operation.MOVE,),
}


def rank(state: State, plan: PowerPlan) -> tuple[int, int, int]:
    """Return the sort key of a plan: more nodes, then less data moved, then fewer moves."""
    return -len(plan.nodes), data_moved(state, plan.steps), len(plan.steps)


def data_moved(state: State, steps: Sequence[Move]) -> int:
    """Return the MiB of disks and memory that steps copy."""
    return sum(sum(copied(step.kind, state.cluster.instances[step.instance])) for step in steps)


def least_moved(state: State) -> Ints:
    """Return the least MiB to copy to empty each node, whatever other nodes are emptied."""
    least = np.zeros(len(state.group), np.int64)
    pairs = zip(state.cluster.instances, state.pnode.tolist(), state.snode.tolist(), strict=True)
    for row, primary, secondary in pairs:
        least[primary] += sum(copied_by(_LEAVING[row.template.mirror], row))
        if secondary != NOWHERE:
            least[secondary] += sum(copied_by((Operation.REPLACE_SECONDARY,), row))
    return least


def better_set(group: PowerGroup, found: PowerPlan, wishes: Wishes) -> PowerPlan:
    """Return the best plan found for another set of candidates, or the given plan.

    Preferred nodes of the given plan stay in; nodes that must stay up are excluded.
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
    """A search over sets of nodes with ``trials`` left, the ``best`` plan so far, and the sets ``tried``."""

    def __init__(self, group: PowerGroup, found: PowerPlan, wishes: Wishes) -> None:
        self.group, self.best = group, found
        self.order = group.within(offline_candidates(group.state, group.allowed))
        self.fixed = [node for node in found.nodes if node in wishes.prefer]
        self.others = [node for node in self.order if node not in wishes.never and node not in self.fixed]
        hosted = int(np.count_nonzero(group.scope[group.state.pnode]))
        self.trials = max(len(self.order) // 3, EFFORT // max(hosted, 1))
        self.tried = set[tuple[int, ...]]()
        self.least = least_moved(group.state)

    def smallest(self, size: int) -> bool:
        """Try sets of a size, those with the least room first; whether a better plan was found."""
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
        """Try sets of a size, those with the least data to move first, until no better plan is possible."""
        anyway = int(self.least[self.fixed].sum())
        for total, nodes in self._sets(self.least[self.others], size):
            if not self.trials or anyway + total >= data_moved(self.group.state, self.best.steps):
                return
            self._try(nodes)

    def _sets(self, costs: Ints, size: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield feasible sets of a size with their cost, the cheapest first."""
        sets = ascending(costs.tolist(), size - len(self.fixed))
        for total, chosen in islice(sets, GLANCES * self.trials):
            wanted = {*self.fixed, *(self.others[position] for position in chosen)}
            nodes = tuple(node for node in self.order if node in wanted)
            if not self.group.infeasible(nodes, True, self.group.target):
                yield total, nodes

    def _try(self, nodes: tuple[int, ...]) -> bool:
        """Try a set; whether its plan is better."""
        self.trials -= 1
        if nodes in self.tried or self.group.stranded(nodes):
            return False
        self.tried.add(nodes)
        plan, start = self.group.plan_without(nodes), self.group.state
        better = rank(start, plan) < rank(start, self.best) and self.group.obstacle(plan.state) is None
        made = self.group.executable(plan) if better else None
        self.best = made or self.best
        return made is not None


def ascending(costs: Sequence[int], size: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield all sets of a size (positions) with the sum of their costs, in ascending order of the sums.

    A set's successors replace one member by the next more expensive one. The next set is always a successor
    of an earlier one.
    """
    order = sorted(range(len(costs)), key=lambda position: costs[position])
    if size > len(order):
        return
    first = tuple(range(size))
    waiting = [(sum(costs[order[rank]] for rank in first), first)]
    seen = {first}
    while waiting:
        total, ranks = heappop(waiting)
        yield total, tuple(order[rank] for rank in ranks)
        for place, rank in enumerate(ranks):
            after = ranks[place + 1] if place + 1 < size else len(order)
            following = (*ranks[:place], rank + 1, *ranks[place + 1 :])
            if rank + 1 < after and following not in seen:
                seen.add(following)
                dearer = total - costs[order[rank]] + costs[order[rank + 1]]
                heappush(waiting, (dearer, following))
