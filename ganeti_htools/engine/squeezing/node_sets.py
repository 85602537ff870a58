"""Sets of nodes in ascending order of cost."""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush


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
