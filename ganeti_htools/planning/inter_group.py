"""What there has to be known before a node is evacuated into other groups (``hail(1)``, ``--inter-group``).

These are whether the request is about the whole cluster, and the networks of its instances, which Ganeti's
requests leave out.
"""

from collections.abc import Mapping
from dataclasses import replace

from ganeti_htools.model.cluster import Cluster, Group, Instance, Nic
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import NodeEvacuate, Request


def prepared(
    cluster: Cluster, request: Request, options: PlacementOptions, known: Cluster | None
) -> tuple[Cluster, PlacementOptions, str]:
    """The cluster and the options by which a request is decided, and what there is to say.

    ``known`` is the cluster as it is followed over LUXI, if it is.
    """
    if not options.inter_group or not isinstance(request, NodeEvacuate):
        return cluster, options, ""
    problem = _partial(cluster, known)
    if problem is not None:
        return cluster, replace(options, inter_group=False), f"; no other groups are looked at: {problem}"
    return _connected(cluster, frozenset(request.instances), known), options, ""


def _partial(cluster: Cluster, known: Cluster | None) -> str | None:
    """Why the cluster may not be all of it."""
    inhabited = {node.group for node in cluster.nodes}
    empty = next((group.name for group in cluster.groups if group.uuid not in inhabited), None)
    if empty is not None:
        return f"the request has no nodes of group {empty}"
    if known is None:
        return None
    here, there = ({node.name for node in each.nodes} for each in (cluster, known))
    other = min(here ^ there, default=None)
    if other is None:
        return None
    return f"node {other} is in the request, but not known" if other in here else f"node {other} is missing"


def _connected(cluster: Cluster, names: frozenset[str], known: Cluster | None) -> Cluster:
    """The cluster with the networks of these instances, as far as they are known.

    An instance of which none is known may be connected to any network of its group.
    """
    rows = {row.name: row for row in known.instances} if known else {}
    groups = {group.uuid: group for group in cluster.groups}
    homes = {node.name: groups[node.group] for node in cluster.nodes}
    instances = tuple(
        _with_networks(row, rows, homes) if row.name in names else row for row in cluster.instances
    )
    return replace(cluster, instances=instances)


def _with_networks(row: Instance, known: Mapping[str, Instance], homes: Mapping[str, Group]) -> Instance:
    if any(nic.network is not None for nic in row.nics):
        return row
    if row.name in known:
        return replace(row, nics=known[row.name].nics)
    networks = homes[row.pnode].networks if row.nics else ()
    return replace(row, nics=(*row.nics, *(Nic(network=network) for network in networks)))
