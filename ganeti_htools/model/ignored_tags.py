"""Kinds of instance tags that the cluster's tags ``htools:ignore:KIND`` switch off (``htools-tags(7)``)."""

from collections.abc import Iterable
from dataclasses import replace

from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.placement_tags import PREFIXES
from ganeti_htools.model.request import Request, with_new_instances
from ganeti_htools.model.tags import IGNORE

KINDS = tuple(sorted({prefix.split(":")[1] for prefix in PREFIXES} | {"home", "pinned", "price", "resource"}))


def without_ignored(cluster: Cluster) -> Cluster:
    """Return the cluster without the instance tags that it ignores; the same object if nothing changes."""
    ignored = _ignored(cluster.tags)
    if not ignored:
        return cluster
    return replace(cluster, instances=tuple(_without(row, ignored) for row in cluster.instances))


def request_without_ignored(request: Request, cluster_tags: Iterable[str]) -> Request:
    """Return the request without the tags of new instances that the cluster ignores."""
    ignored = _ignored(cluster_tags)
    return with_new_instances(request, lambda row: _without(row, ignored)) if ignored else request


def _ignored(cluster_tags: Iterable[str]) -> frozenset[str]:
    return frozenset(tag[len(IGNORE) :] for tag in cluster_tags if tag.startswith(IGNORE)) & {*KINDS}


def _without(row: Instance, ignored: frozenset[str]) -> Instance:
    tags = tuple(tag for tag in row.tags if not (tag.startswith("htools:") and tag.split(":")[1] in ignored))
    return row if tags == row.tags else replace(row, tags=tags)
