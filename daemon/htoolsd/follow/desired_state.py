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
    ClusterResources,
    DesiredProvider,
    cluster_resources,
    instance_use,
    node_providers,
    pool_providers,
    pools_used,
)
from htoolsd.store.records import Allocations, Consumer, consumer_uuid, full_name


class DesiredConsumer(NamedTuple):
    """A consumer that exists in Ganeti, and its allocations."""

    consumer: Consumer
    allocations: Allocations


class DesiredNodes(NamedTuple):
    """The nodes as providers and as consumers of their own resources. A node has one uuid as both."""

    providers: Mapping[str, DesiredProvider]
    consumers: Mapping[str, DesiredConsumer]


class DesiredInstance(NamedTuple):
    """An instance as a consumer, and the pools that it uses."""

    row: Instance
    consumer: DesiredConsumer
    pools: Collection[DesiredUnit]


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The providers and consumers of a cluster by uuid, as the ledger should have them.

    ``nodes`` and ``instances`` are parts of the state, from which the next state takes unchanged objects.
    ``instances`` are by the ``id`` of the row, which the entry keeps alive.
    """

    cluster: Cluster = field(repr=False)
    resources: ClusterResources
    nodes: DesiredNodes
    instances: Mapping[int, DesiredInstance] = field(repr=False)
    providers: Mapping[str, DesiredProvider]
    consumers: Mapping[str, DesiredConsumer]


def desired_state(
    cluster: Cluster,
    name: str,
    static_kvm_node_memory: int = 0,
    before: DesiredState | None = None,
    limits_vcpus: bool = False,
) -> DesiredState:
    """Return the desired state of the ledger for a cluster with a name.

    The parts that are as in the state ``before``, which was computed with the same arguments, are the same
    objects. ``static_kvm_node_memory``: see :func:`.derive.derive`. ``limits_vcpus``: an instance gets at
    most as many virtual CPUs as its node has CPUs.
    """
    if before is not None and _has_same_nodes(cluster, name, before):
        resources, nodes = before.resources, before.nodes
    else:
        resources = cluster_resources(cluster, name)
        nodes = _desired_nodes(node_providers(cluster, resources, static_kvm_node_memory, limits_vcpus))
    known = before.instances if before and before.resources == resources else {}
    rows = {id(row): known.get(id(row)) or _desired_instance(row, resources) for row in cluster.instances}
    pools = {pool for each in rows.values() for pool in each.pools}
    providers = {**nodes.providers, **pool_providers(cluster, resources, pools)}
    consumers = {**nodes.consumers, **{each.consumer.consumer.uuid: each.consumer for each in rows.values()}}
    return DesiredState(cluster, resources, nodes, rows, providers, consumers)


def _has_same_nodes(cluster: Cluster, name: str, before: DesiredState) -> bool:
    """Whether only the instances differ from the cluster before, and use the same storage units."""
    old = before.cluster
    return (
        name == before.resources.cluster
        and len(cluster.nodes) == len(old.nodes)
        and all(map(is_, cluster.nodes, old.nodes))
        and (cluster.groups, cluster.pools) == (old.groups, old.pools)
        and units_in_use(cluster) == before.resources.units
    )


def _desired_nodes(providers: Mapping[str, DesiredProvider]) -> DesiredNodes:
    consumers = {
        uuid: DesiredConsumer(Consumer(uuid, each.provider.name, "node"), {uuid: each.own_use})
        for uuid, each in providers.items()
        if each.own_use and each.inventories is not None
    }
    return DesiredNodes(providers, consumers)


def _desired_instance(row: Instance, resources: ClusterResources) -> DesiredInstance:
    name = full_name(resources.cluster, row.name)
    consumer = Consumer(consumer_uuid(name), name, "instance")
    return DesiredInstance(
        row,
        DesiredConsumer(consumer, instance_use(row, resources)),
        pools_used(row, resources).keys(),
    )
