"""What moves need of the nodes to which they bring instances, on the whole way. Pure functions."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ganeti_htools.model.cluster import Instance
from htoolsd.ledger.offers import Places
from htoolsd.ledger.records import Allocations
from htoolsd.ledger.uses import most, uses_of

Stations = Sequence[tuple[str, str | None]]  # primary and secondary, one after the other


def needs_of(
    moves: Iterable[tuple[str, Stations]], rows: Mapping[str, Instance], places: Places
) -> Allocations:
    """What instances (by name) need of providers beyond what they use, at any station of their moves.

    All of it may be needed at the same time. Instances that are not known need nothing.
    """
    found = defaultdict[str, Counter[str]](Counter)
    for row, stations in ((rows[name], stations) for name, stations in moves if name in rows):
        used = uses_of(row, places)
        on_the_way = (uses_of(replace(row, pnode=pnode, snode=snode), places) for pnode, snode in stations)
        for provider, amounts in most(on_the_way).items():
            found[provider] += amounts - Counter(used.get(provider, {}))
    return {provider: dict(amounts) for provider, amounts in found.items() if amounts}
