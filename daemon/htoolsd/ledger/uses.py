"""What instances use of the resource providers of their cluster."""

from collections.abc import Mapping

from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.resource_classes import MEMORY, POOL, SPINDLES, VCPU
from ganeti_htools.model.storage import TYPE_OF, DesiredUnit
from ganeti_htools.model.tags import demands
from ganeti_htools.model.types import Status
from ganeti_htools.model.units import needs_of
from htoolsd.ledger.identities import provider_uuid
from htoolsd.ledger.offers import Place, Places
from htoolsd.ledger.records import Allocations


def uses_of(row: Instance, places: Places) -> Allocations:
    """What a placed instance uses: of its primary memory (unless it is down), CPUs and custom classes; of
    each of its nodes spindles, and disk space of the units that are there; of pools what its disks need.

    An instance that is forthcoming uses what it is going to. Amounts are those by which decisions count.
    """
    wanted = places.units.wants(row)
    found: dict[str, dict[str, int]] = {}
    for name in (row.pnode, row.snode):
        place = places.nodes.get(name) if name else None
        if place is not None:
            amounts = _of_node(row, place, places, wanted) | (_of_primary(row) if name == row.pnode else {})
            found[place.provider] = {each: amount for each, amount in amounts.items() if amount > 0}
    for pool, mib in pools_used(row, places).items():
        provider = provider_uuid(places.pool(pool))  # two pools may have the same
        found[provider] = {POOL: found.get(provider, {}).get(POOL, 0) + mib}
    return {provider: amounts for provider, amounts in found.items() if amounts}


def pools_used(row: Instance, places: Places) -> Mapping[DesiredUnit, int]:
    """What an instance needs (MiB) of pools."""
    pools = places.units.of_pools(row) if TYPE_OF[row.template].pool else {}
    return {pool: mib for pool, mib in pools.items() if mib > 0}


def _of_node(
    row: Instance, place: Place, places: Places, wanted: Mapping[DesiredUnit, int]
) -> dict[str, int]:
    amounts = {place.classes[unit]: mib for unit, mib in wanted.items() if unit in place.classes}
    if place.exclusive:
        return amounts | {SPINDLES: needs_of(row, places.units).spindles or 0}
    return amounts | {SPINDLES: row.spindle_use if places.units.local[0] in wanted else 0}


def _of_primary(row: Instance) -> dict[str, int]:
    memory = row.mem if row.uses_memory or row.forthcoming else 0
    if row.status is Status.OFFLINE:
        return {MEMORY: memory}
    return {MEMORY: memory, VCPU: row.vcpus} | demands(row.tags)
