"""What moves need of the nodes to which they bring instances, on the whole way. Pure functions."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ganeti_htools.model.cluster import Instance
from htoolsd.ledger.offers import Places
from htoolsd.ledger.records import Allocations
from htoolsd.ledger.uses import uses_of

Stations = Sequence[tuple[str, str | None]]  # primary and secondary, one after the other


def needs_of(
    moves: Iterable[tuple[str, Stations]], rows: Mapping[str, Instance], places: Places
) -> Allocations:
    """What instances (by name) need of providers beyond what they use, at any station of their moves.

    All of it may be needed at the same time. Instances that are not known need nothing.
    """
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, stations in moves:
        row = rows.get(name)
        if row is not None:
            for provider, amounts in _of(row, stations, places).items():
                found[provider].update(amounts)
    return {provider: dict(amounts) for provider, amounts in found.items()}


def _of(row: Instance, stations: Stations, places: Places) -> Allocations:
    used = uses_of(row, places)
    most: dict[str, dict[str, int]] = {}
    for provider, name, amount in _at(row, stations, places):
        more = amount - used.get(provider, {}).get(name, 0)
        if more > most.get(provider, {}).get(name, 0):
            most.setdefault(provider, {})[name] = more
    return most


def _at(row: Instance, stations: Stations, places: Places) -> Iterator[tuple[str, str, int]]:
    for pnode, snode in stations:
        for provider, amounts in uses_of(replace(row, pnode=pnode, snode=snode), places).items():
            for name, amount in amounts.items():
                yield provider, name, amount
