"""What instances use of the resource providers of their cluster."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.resource_classes import POOL
from ganeti_htools.model.resource_usage import usage_on
from ganeti_htools.model.storage import TYPE_OF, DesiredUnit
from htoolsd.ledger.identities import provider_uuid
from htoolsd.ledger.offers import Places
from htoolsd.ledger.records import Allocations


def uses_of(row: Instance, places: Places) -> Allocations:
    """What a placed instance uses: of its nodes (see :func:`.uses.usage_on`), and of pools for its disks."""
    found = defaultdict[str, dict[str, int]](dict)
    for name in (row.pnode, row.snode):
        place = places.nodes.get(name) if name else None
        if name and place is not None:
            found[place.provider] = usage_on(name, row, places.units, place.classes, place.exclusive)
    for pool, mib in pools_used(row, places).items():
        amounts = found[provider_uuid(places.pool(pool))]  # two pools may have the same
        amounts[POOL] = amounts.get(POOL, 0) + mib
    return {provider: amounts for provider, amounts in found.items() if amounts}


def pools_used(row: Instance, places: Places) -> Mapping[DesiredUnit, int]:
    """What an instance needs (MiB) of pools."""
    pools = places.units.of_pools(row) if TYPE_OF[row.template].pool else {}
    return {pool: mib for pool, mib in pools.items() if mib > 0}


def most(found: Iterable[Allocations]) -> dict[str, Counter[str]]:
    """Of each class of each provider the largest amount."""
    largest = defaultdict[str, Counter[str]](Counter)
    for each in found:
        for provider, amounts in each.items():
            largest[provider] |= Counter(amounts)
    return dict(largest)
