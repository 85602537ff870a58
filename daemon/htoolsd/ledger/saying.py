"""What the ledger should say of a cluster. Pure functions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from operator import is_
from typing import NamedTuple

from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.units_in_use import units_in_use
from htoolsd.ledger.identities import consumer_uuid, full_name
from htoolsd.ledger.offers import Offer, Places, nodes_offer, places_of, pools_offer
from htoolsd.ledger.records import Allocations, Consumer
from htoolsd.ledger.uses import pools_used, uses_of


class Use(NamedTuple):
    """What a consumer uses that exists."""

    consumer: Consumer
    amounts: Allocations


class Nodes(NamedTuple):
    """What nodes offer, and what they use themselves, by provider; as a consumer a node has the same uuid."""

    offers: Mapping[str, Offer]
    uses: Mapping[str, Use]


class Row(NamedTuple):
    """An instance with what it uses, and of which pools."""

    instance: Instance
    use: Use
    pools: Collection[DesiredUnit]


@dataclass(frozen=True, slots=True)
class Statement:
    """What the ledger should say of a cluster: what it offers, by provider, and what is used, by consumer.

    ``nodes`` is the nodes' part of it, ``rows`` that of instances, by the identity of these.
    """

    cluster: Cluster = field(repr=False)
    places: Places
    nodes: Nodes
    rows: Mapping[int, Row] = field(repr=False)
    offers: Mapping[str, Offer]
    uses: Mapping[str, Use]


def statement(
    cluster: Cluster, name: str, static_kvm_node_memory: int = 0, before: Statement | None = None
) -> Statement:
    """What the ledger should say of a cluster that is called ``name``.

    What is as it was ``before``, when it was found out likewise, is taken over as the same objects.
    ``static_kvm_node_memory``: see :func:`.derive.derive`.
    """
    if before is not None and _same_nodes(cluster, name, before):
        places, nodes = before.places, before.nodes
    else:
        places = places_of(cluster, name)
        nodes = _nodes(nodes_offer(cluster, places, static_kvm_node_memory))
    known = before.rows if before and before.places == places else {}
    rows = {id(each): known.get(id(each)) or _row(each, places) for each in cluster.instances}
    pools = {pool for row in rows.values() for pool in row.pools}
    offers = {**nodes.offers, **pools_offer(cluster, places, pools)}
    uses = {**nodes.uses, **{row.use.consumer.uuid: row.use for row in rows.values()}}
    return Statement(cluster, places, nodes, rows, offers, uses)


def _same_nodes(cluster: Cluster, name: str, before: Statement) -> bool:
    """Whether all but the instances is what it was, and these want no other units."""
    old = before.cluster
    return (
        name == before.places.cluster
        and len(cluster.nodes) == len(old.nodes)
        and all(map(is_, cluster.nodes, old.nodes))
        and (cluster.groups, cluster.pools) == (old.groups, old.pools)
        and units_in_use(cluster) == before.places.units
    )


def _nodes(offers: Mapping[str, Offer]) -> Nodes:
    uses = {
        uuid: Use(Consumer(uuid, offer.provider.name, "node"), {uuid: offer.own})
        for uuid, offer in offers.items()
        if offer.own and offer.inventories is not None
    }
    return Nodes(offers, uses)


def _row(instance: Instance, places: Places) -> Row:
    name = full_name(places.cluster, instance.name)
    use = Use(Consumer(consumer_uuid(name), name, "instance"), uses_of(instance, places))
    return Row(instance, use, pools_used(instance, places).keys())
