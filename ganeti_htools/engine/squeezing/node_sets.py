"""Sets of nodes in the order of what they cost."""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush


def ascending(costs: Sequence[int], size: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """All sets of so many positions, each with the sum of its costs, in ascending order of these sums.

    From each set follow those in which one of its members gives way to the next dearer one, so the next set
    is always among those that follow from sets before it.
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
