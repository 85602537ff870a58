"""Preparation of an evacuation into other groups (``hail(1)``, ``--inter-group``).

The request must be about the whole cluster. The networks of instances, which requests lack, are filled in.
"""

from collections.abc import Mapping
from dataclasses import replace

from ganeti_htools.model.cluster import Cluster, Group, Instance, Nic
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import NodeEvacuate, Request


def prepare(
    cluster: Cluster, request: Request, options: PlacementOptions, known: Cluster | None
) -> tuple[Cluster, PlacementOptions, str]:
    """Return the cluster and the options to decide with, and a note for the answer.

    ``known`` is the cluster as followed over LUXI, if it is followed.
    """
    if not options.inter_group or not isinstance(request, NodeEvacuate):
        return cluster, options, ""
    problem = _partial(cluster, known)
    if problem is not None:
        return cluster, replace(options, inter_group=False), f"; other groups are not considered: {problem}"
    return _with_networks_of(cluster, frozenset(request.instances), known), options, ""


def _partial(cluster: Cluster, known: Cluster | None) -> str | None:
    """Return why the request may lack a part of the cluster; None if it does not."""
    inhabited = {node.group for node in cluster.nodes}
    empty = next((group.name for group in cluster.groups if group.uuid not in inhabited), None)
    if empty is not None:
        return f"the request has no nodes of group {empty}"
    if known is None:
        return None
    requested, followed = ({node.name for node in each.nodes} for each in (cluster, known))
    other = min(requested ^ followed, default=None)
    if other is None:
        return None
    if other in requested:
        return f"node {other} is in the request, but not known"
    return f"node {other} is missing"


def _with_networks_of(cluster: Cluster, names: frozenset[str], known: Cluster | None) -> Cluster:
    """Fill in the networks of these instances.

    An instance without known networks may be connected to any network of its group.
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
