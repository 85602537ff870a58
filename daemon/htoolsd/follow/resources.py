"""Resources of a cluster as the ledger counts them: what nodes and pools provide, what instances use.

Each node is a resource provider, and so is each storage pool. Pure functions.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from ganeti_htools.backends.inventory_tags import inventories_in_tags, pools_in_tags
from ganeti_htools.model.cluster import Cluster, Instance, Node
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.policy import IPolicy
from ganeti_htools.model.resource_classes import MEMORY, POOL, SPINDLES, VCPU, own_ratio
from ganeti_htools.model.resource_usage import local_unit_classes, usage_on
from ganeti_htools.model.storage import TYPE_OF, DesiredUnit
from ganeti_htools.model.units import Units, unit_on
from ganeti_htools.model.units_in_use import pools_of_tags, units_in_use
from htoolsd.store.records import Allocations, Consumer, LedgerEntry, Provider, full_name, provider_uuid


class DesiredProvider(NamedTuple):
    """A provider with its inventories (None: unknown now), and a node as a consumer of its own resources.

    A node has one uuid as both. ``shared`` marks a pool that other clusters may report as well. ``tagged``
    are the inventories that tags set.
    """

    provider: Provider
    inventories: Mapping[str, Inventory] | None
    own_use: LedgerEntry | None = None
    shared: bool = False
    tagged: Mapping[str, Inventory] = MappingProxyType({})


class NodeResources(NamedTuple):
    """The uuid of a node's provider, and the resource classes of its local storage units.

    With ``exclusive`` storage the spindles of disks count, otherwise the spindle use of instances.
    """

    provider: str
    classes: Mapping[DesiredUnit, str]
    exclusive: bool


class CountingRules(NamedTuple):
    """Rules about what nodes provide.

    ``static_kvm_node_memory``: see :func:`.derive.derive`. ``limits_vcpus``: an instance gets at most as many
    virtual CPUs as its node has CPUs.
    """

    static_kvm_node_memory: int = 0
    limits_vcpus: bool = False


DEFAULT_RULES = CountingRules()


class ClusterResources(NamedTuple):
    """The resources of a ``cluster`` (its name): by node, and the provider names of shared pools."""

    cluster: str
    rules: CountingRules
    units: Units
    nodes: Mapping[str, NodeResources]
    shared: Mapping[DesiredUnit, str]

    def pool_name(self, unit: DesiredUnit) -> str:
        """Return the name of a pool's provider. The configuration names shared pools."""
        return self.shared.get(unit) or full_name(self.cluster, str(unit))


def cluster_resources(cluster: Cluster, name: str, rules: CountingRules = DEFAULT_RULES) -> ClusterResources:
    """Return the resources of a cluster. ``name`` is the cluster's."""
    units = units_in_use(cluster)
    classes = local_unit_classes(units)
    nodes = {node.name: _node_resources(node, units, classes, name) for node in cluster.nodes}
    shared = {pool.unit: pool.provider for pool in cluster.pools if pool.provider}
    return ClusterResources(name, rules, units, nodes, shared)


def _node_resources(
    node: Node, units: Units, classes: Mapping[DesiredUnit, str], cluster: str
) -> NodeResources:
    found = {unit: unit_on(node, units, unit) for unit in units.local}
    present = {unit: classes[unit] for unit, each in found.items() if each is not None and each.total > 0}
    return NodeResources(provider_uuid(full_name(cluster, node.name)), present, node.excl_stor)


def node_providers(cluster: Cluster, resources: ClusterResources) -> dict[str, DesiredProvider]:
    """Return the providers of nodes by uuid."""
    policies = {group.uuid: group.ipolicy for group in cluster.groups}
    static, found = resources.rules.static_kvm_node_memory, {}
    for node in cluster.nodes:
        own = resources.nodes[node.name]
        provider = Provider(own.provider, full_name(resources.cluster, node.name))
        inventories = (
            _node_inventories(node, own, resources.units, policies[node.group]) if node.t_mem else None
        )
        if resources.rules.limits_vcpus and inventories and VCPU in inventories:
            inventories[VCPU] = replace(inventories[VCPU], max_unit=max(1, inventories[VCPU].total))
        memory = static if static and node.hypervisor == "kvm" else node.n_mem
        amounts = {name: used for name, used in ((MEMORY, memory), (VCPU, node.n_cpu)) if used > 0}
        own_use = None
        if amounts and inventories is not None:
            own_use = LedgerEntry(Consumer(own.provider, provider.name, "node"), {own.provider: amounts})
        tagged = _marked(inventories_in_tags(node.tags))
        found[own.provider] = DesiredProvider(provider, inventories, own_use, tagged=tagged)
    return found


def _marked(settings: Mapping[str, Inventory]) -> dict[str, Inventory]:
    """Return the inventories, marked as those of tags."""
    return {name: replace(each, tagged=True) for name, each in settings.items()}


def _node_inventories(
    node: Node, resources: NodeResources, units: Units, policy: IPolicy
) -> dict[str, Inventory]:
    """Return a node's inventories with the ratios of its group's policy. A ratio below 0 limits nothing."""
    found = {MEMORY: Inventory(int(node.t_mem))}
    if (ratio := own_ratio(VCPU, policy, node.excl_stor)) >= 0:
        found[VCPU] = Inventory(int(node.t_cpu), allocation_ratio=ratio)
    if node.t_spindles > 0:
        ratio = own_ratio(SPINDLES, policy, node.excl_stor)
        found[SPINDLES] = Inventory(node.t_spindles, allocation_ratio=ratio)
    for unit, name in resources.classes.items():
        present = unit_on(node, units, unit)
        found[name] = Inventory(present.total if present else 0)
    return found


def pool_providers(
    cluster: Cluster, resources: ClusterResources, used: Iterable[DesiredUnit]
) -> dict[str, DesiredProvider]:
    """Return the providers of pools by uuid: reported, configured or tagged pools, and those that are used.

    The size of a pool (MiB) is the smallest that a node reports, or else the configured one.
    """
    sizes = {
        pool.unit: Inventory(pool.total - pool.reserved, allocation_ratio=pool.allocation_ratio)
        for pool in cluster.pools
    }
    reported: dict[DesiredUnit, int] = {}
    for unit in (unit for node in cluster.nodes for unit in node.storage or () if unit.desired.type.pool):
        reported[unit.desired] = min(unit.total, reported.get(unit.desired, unit.total))
    sizes |= {pool: Inventory(total) for pool, total in reported.items()}
    settings, found = pools_in_tags(cluster.tags), {}
    tagged_pools = (unit for unit in pools_of_tags(cluster) if unit.type.pool)
    for pool in sorted({*sizes, *tagged_pools, *used}, key=str):
        name = resources.pool_name(pool)
        inventories = {POOL: sizes[pool]} if pool in sizes else {}
        provider = Provider(provider_uuid(name), name, can_host=False)
        shared = pool in resources.shared
        tagged = {} if shared or pool not in settings else {POOL: settings[pool]}
        found[provider.uuid] = DesiredProvider(provider, inventories, None, shared, _marked(tagged))
    return found


def instance_use(row: Instance, resources: ClusterResources) -> Allocations:
    """Return what a placed instance uses of its nodes and, for its disks, of pools.

    :func:`.resource_usage.usage_on` has the rule for nodes.
    """
    found = defaultdict[str, dict[str, int]](dict)
    for name in (row.pnode, row.snode):
        node = resources.nodes.get(name) if name else None
        if name and node is not None:
            found[node.provider] = usage_on(name, row, resources.units, node.classes, node.exclusive)
    for pool, mib in pools_used(row, resources).items():
        amounts = found[provider_uuid(resources.pool_name(pool))]  # two pools may have the same provider
        amounts[POOL] = amounts.get(POOL, 0) + mib
    return {provider: amounts for provider, amounts in found.items() if amounts}


def pools_used(row: Instance, resources: ClusterResources) -> Mapping[DesiredUnit, int]:
    """Return what an instance uses (MiB) of pools."""
    pools = resources.units.pool_needs(row) if TYPE_OF[row.template].pool else {}
    return {pool: mib for pool, mib in pools.items() if mib > 0}


def largest_use(uses: Iterable[Allocations]) -> dict[str, Counter[str]]:
    """Return the largest amount of each class of each provider."""
    largest = defaultdict[str, Counter[str]](Counter)
    for each in uses:
        for provider, amounts in each.items():
            largest[provider] |= Counter(amounts)
    return dict(largest)
