"""The desired state of the ledger: the providers, inventories, consumers and allocations of a cluster.

Pure functions.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from operator import is_
from typing import NamedTuple

from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.units_in_use import units_in_use
from htoolsd.follow.resources import (
    DEFAULT_RULES,
    ClusterResources,
    CountingRules,
    DesiredProvider,
    cluster_resources,
    instance_use,
    node_providers,
    pool_providers,
    pools_used,
)
from htoolsd.store.records import Consumer, LedgerEntry, LedgerSnapshot, consumer_uuid, full_name


class DesiredInstance(NamedTuple):
    """An instance as a consumer, and the pools that it uses."""

    row: Instance
    entry: LedgerEntry
    pools: Collection[DesiredUnit]


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The providers and consumers of a cluster by uuid, as the ledger should have them.

    ``nodes`` (their providers) and ``instances``, by name, are parts of the state, from which the next state
    takes unchanged objects.
    """

    cluster: Cluster = field(repr=False)
    resources: ClusterResources
    nodes: Mapping[str, DesiredProvider]
    instances: Mapping[str, DesiredInstance] = field(repr=False)
    providers: Mapping[str, DesiredProvider]
    consumers: Mapping[str, LedgerEntry]


class SyncedState(NamedTuple):
    """The desired state and the ledger at a moment when they did not differ."""

    desired: DesiredState
    snapshot: LedgerSnapshot


def desired_state(
    cluster: Cluster, name: str, rules: CountingRules = DEFAULT_RULES, before: DesiredState | None = None
) -> DesiredState:
    """Return the desired state of the ledger for a cluster with a name.

    The parts that are as in the state ``before`` are the same objects; for the same cluster it is the whole.
    """
    if before is not None and cluster is before.cluster and _counts_alike(name, rules, before):
        return before
    if before is not None and _has_same_nodes(cluster, name, rules, before):
        resources, nodes = before.resources, before.nodes
    else:
        resources = cluster_resources(cluster, name, rules)
        nodes = node_providers(cluster, resources)
    known = before.instances if before and before.resources == resources else {}
    instances = {row.name: _desired_instance(row, resources, known) for row in cluster.instances}
    pools = {pool for each in instances.values() for pool in each.pools}
    providers = {**nodes, **pool_providers(cluster, resources, pools)}
    entries = [each.own_use for each in nodes.values() if each.own_use is not None]
    entries += [each.entry for each in instances.values()]
    consumers = {each.consumer.uuid: each for each in entries}
    return DesiredState(cluster, resources, nodes, instances, providers, consumers)


def _counts_alike(name: str, rules: CountingRules, before: DesiredState) -> bool:
    return (name, rules) == (before.resources.cluster, before.resources.rules)


def _has_same_nodes(cluster: Cluster, name: str, rules: CountingRules, before: DesiredState) -> bool:
    """Whether only the instances differ from the cluster before, and use the same storage units."""
    old = before.cluster
    return (
        _counts_alike(name, rules, before)
        and len(cluster.nodes) == len(old.nodes)
        and all(map(is_, cluster.nodes, old.nodes))
        and (cluster.groups, cluster.pools) == (old.groups, old.pools)
        and units_in_use(cluster) == before.resources.units
    )


def _desired_instance(
    row: Instance, resources: ClusterResources, known: Mapping[str, DesiredInstance]
) -> DesiredInstance:
    found = known.get(row.name)
    if found is not None and found.row is row:
        return found
    name = full_name(resources.cluster, row.name)
    consumer = Consumer(consumer_uuid(name), name, "instance")
    entry = LedgerEntry(consumer, instance_use(row, resources))
    return DesiredInstance(row, entry, pools_used(row, resources).keys())
