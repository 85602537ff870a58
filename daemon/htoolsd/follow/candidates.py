"""Allocation candidates, as in OpenStack Placement: providers with room for a request. Pure functions."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ganeti_htools.model.resource_classes import POOL, no_node_has
from ganeti_htools.model.units_in_use import known_pools, nodes_seeing
from htoolsd.follow.desired_state import DesiredState
from htoolsd.store.records import Allocations, Amounts, LedgerSnapshot, UnknownError, provider_uuid

# The pools that a node sees, by the uuid of the node's provider; all uuids.
PoolsOfNodes = Mapping[str, Collection[str]]


class AllocationCandidate(NamedTuple):
    """Allocations that would fit, and the shares of capacities that they leave, smallest first (0 to 1)."""

    allocations: Allocations
    shares: Sequence[float]


def pools_of_nodes(desired: DesiredState, group: str | None) -> PoolsOfNodes:
    """Return the nodes that are online, of one node group (by name) if given, with the pools that they see.

    Raises UnknownError for an unknown group.
    """
    cluster, resources = desired.cluster, desired.resources
    uuids = {each.uuid for each in cluster.groups if group in (None, each.name, each.uuid)}
    if not uuids:
        raise UnknownError(f"there is no node group {group}")
    seen = {
        provider_uuid(resources.pool_name(pool)): nodes_seeing(cluster, pool)
        for pool in known_pools(cluster, resources.units)
    }
    return {
        resources.nodes[node.name].provider: [pool for pool, visible in seen.items() if visible[row]]
        for row, node in enumerate(cluster.nodes)
        if node.group in uuids and not node.closed
    }


def allocation_candidates(
    snapshot: LedgerSnapshot, nodes: PoolsOfNodes, wanted: Amounts, consumer: str | None = None
) -> list[AllocationCandidate]:
    """Return the candidates for the wanted amounts, the best first.

    The best leaves the largest share of its scarcest class, of equal ones of the next class. One node has all
    amounts but that of pool space, for which there is a pool that the node sees; without other amounts a
    candidate is a pool. What a ``consumer`` (uuid) has counts as free, since a claim replaces it. Raises
    UnknownError for a class that no provider has.
    """
    classes = {name for inventories in snapshot.inventories.values() for name in inventories}
    if unknown := sorted(wanted.keys() - classes):
        raise UnknownError(no_node_has(unknown[0], sorted(classes)))
    used = _used(snapshot, consumer)
    on_node = {name: amount for name, amount in wanted.items() if name != POOL}
    on_pool = {name: amount for name, amount in wanted.items() if name == POOL}

    def shares(provider: str, amounts: Amounts) -> list[float]:
        """Return the shares that stay free; empty if something does not fit."""
        found = []
        for name, amount in amounts.items():
            inventory, taken = snapshot.inventories.get(provider, {}).get(name), used[provider][name]
            if inventory is None or not inventory.fits(amount, taken):
                return []
            found.append((inventory.capacity - taken - amount) / inventory.capacity)
        return found

    seen = {pool for pools in nodes.values() for pool in pools} if on_pool else ()
    pools = {pool: left for pool in seen if (left := shares(pool, on_pool))}
    if not on_node:
        found = [({pool: on_pool}, left) for pool, left in pools.items()]
    else:
        fitting = {node: left for node in nodes if (left := shares(node, on_node))}
        found = [({node: on_node}, left) for node, left in fitting.items()]
        if on_pool:
            found = [
                ({node: on_node, pool: on_pool}, left + pools[pool])
                for node, left in fitting.items()
                for pool in nodes[node]
                if pool in pools
            ]
    candidates = [AllocationCandidate(allocations, sorted(left)) for allocations, left in found]
    names = snapshot.providers
    return sorted(
        candidates,
        key=lambda each: ([-share for share in each.shares], [names[uuid].name for uuid in each.allocations]),
    )


def _used(snapshot: LedgerSnapshot, but: str | None) -> Mapping[str, Counter[str]]:
    """Return the used amounts by provider and class, without those of one consumer."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for consumer, allocated in snapshot.allocations.items():
        for provider, amounts in allocated.items() if consumer != but else ():
            found[provider].update(amounts)
    return found
