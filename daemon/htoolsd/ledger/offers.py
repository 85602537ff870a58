"""What a cluster offers, as Ganeti tells it: a resource provider for each node and each pool."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.policy import IPolicy
from ganeti_htools.model.resource_classes import MEMORY, POOL, SPINDLES, VCPU
from ganeti_htools.model.resource_usage import local_unit_classes
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.units import Units, unit_on
from ganeti_htools.model.units_in_use import pools_of_tags, units_in_use
from htoolsd.ledger.identities import full_name, provider_uuid
from htoolsd.ledger.records import Amounts, Provider


class Offer(NamedTuple):
    """What a provider has by resource class, and what it uses itself; None: that is not known now.

    ``shared`` are pools that other clusters may have as well.
    """

    provider: Provider
    inventories: Mapping[str, Inventory] | None
    own: Amounts
    shared: bool = False


class Place(NamedTuple):
    """What names the resources of a node: its provider, and the classes of the local units that it has.

    With ``exclusive`` storage the spindles of disks count, otherwise the spindle use of instances.
    """

    provider: str
    classes: Mapping[DesiredUnit, str]
    exclusive: bool


class Places(NamedTuple):
    """What names the resources of a ``cluster``: its places by node, and how it shares pools with others."""

    cluster: str
    units: Units
    nodes: Mapping[str, Place]
    shared: Mapping[DesiredUnit, str]

    def pool(self, unit: DesiredUnit) -> str:
        """The name of a pool's provider; that of a shared one stands in the configuration."""
        return self.shared.get(unit) or full_name(self.cluster, str(unit))


def places_of(cluster: Cluster, name: str) -> Places:
    """The places of a cluster that is called ``name``."""
    units = units_in_use(cluster)
    classes = local_unit_classes(units)
    nodes = {node.name: _place(node, units, classes, name) for node in cluster.nodes}
    return Places(name, units, nodes, {pool.unit: pool.provider for pool in cluster.pools if pool.provider})


def _place(node: Node, units: Units, classes: Mapping[DesiredUnit, str], cluster: str) -> Place:
    there = {unit: unit_on(node, units, unit) for unit in units.local}
    has = {unit: classes[unit] for unit, found in there.items() if found is not None and found.total > 0}
    return Place(provider_uuid(full_name(cluster, node.name)), has, node.excl_stor)


def nodes_offer(cluster: Cluster, places: Places, static_kvm_node_memory: int = 0) -> dict[str, Offer]:
    """What nodes offer, by provider. ``static_kvm_node_memory``: see :func:`.derive.derive`."""
    policies = {group.uuid: group.ipolicy for group in cluster.groups}
    found = {}
    for node in cluster.nodes:
        place = places.nodes[node.name]
        provider = Provider(place.provider, full_name(places.cluster, node.name))
        inventories = _of_node(node, place, places.units, policies[node.group]) if node.t_mem else None
        memory = static_kvm_node_memory if static_kvm_node_memory and node.hypervisor == "kvm" else node.n_mem
        own = {name: used for name, used in ((MEMORY, memory), (VCPU, node.n_cpu)) if used > 0}
        found[place.provider] = Offer(provider, inventories, own)
    return found


def _of_node(node: Node, place: Place, units: Units, policy: IPolicy) -> dict[str, Inventory]:
    """A node's inventories, by the ratios of its group's policy; a ratio below 0 limits nothing."""
    found = {MEMORY: Inventory(int(node.t_mem))}
    if policy.vcpu_ratio >= 0:
        found[VCPU] = Inventory(int(node.t_cpu), allocation_ratio=policy.vcpu_ratio)
    if node.t_spindles > 0:
        ratio = 1.0 if node.excl_stor else policy.spindle_ratio
        found[SPINDLES] = Inventory(node.t_spindles, allocation_ratio=ratio)
    for unit, name in place.classes.items():
        there = unit_on(node, units, unit)
        found[name] = Inventory(there.total if there else 0)
    return found


def pools_offer(cluster: Cluster, places: Places, used: Iterable[DesiredUnit]) -> dict[str, Offer]:
    """What pools offer, by provider: those that are told or tagged, and those that are ``used``.

    Their space for disks (MiB) is what nodes tell, of different figures the least, or else the configuration.
    """
    room = {pool.unit: pool.total - pool.reserved for pool in cluster.pools}
    told: dict[DesiredUnit, int] = {}
    for unit in (unit for node in cluster.nodes for unit in node.storage or () if unit.desired.type.pool):
        told[unit.desired] = min(unit.total, told.get(unit.desired, unit.total))
    room |= told
    found = {}
    tagged_pools = (unit for unit in pools_of_tags(cluster) if unit.type.pool)
    for pool in sorted({*room, *tagged_pools, *used}, key=str):
        name = places.pool(pool)
        inventories = {POOL: Inventory(room[pool])} if pool in room else {}
        provider = Provider(provider_uuid(name), name, can_host=False)
        found[provider.uuid] = Offer(provider, inventories, {}, pool in places.shared)
    return found
