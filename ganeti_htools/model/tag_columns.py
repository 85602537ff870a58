"""Columns derived from tags (:mod:`.tags`): exclusion, migration and location."""

from collections.abc import Sequence

import numpy as np

from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Cluster, Instance, Node
from ganeti_htools.model.columns import Bools, Ints
from ganeti_htools.model.node_usage import HostedInstances


def location_columns(cluster: Cluster) -> tuple[dict[str, int], Bools]:
    """Return a row number for each location tag of nodes, and a matrix of nodes by location tags."""
    tag_sets = [tags.location_tags(cluster.tags, node.tags) for node in cluster.nodes]
    rows = {tag: row for row, tag in enumerate(sorted(frozenset().union(*tag_sets)))}
    located = np.zeros((len(tag_sets), len(rows)), np.bool_)
    for node, found in enumerate(tag_sets):
        for tag in found:
            located[node, rows[tag]] = True
    return rows, located


def allowed_migrations(cluster_tags: Sequence[str], nodes: Sequence[Node]) -> Bools | None:
    """Return a matrix of allowed migrations (from row to column); None if tags forbid nothing."""
    sent = [tags.migration_tags(cluster_tags, node.tags) for node in nodes]
    received = [tags.receivable_migration_tags(cluster_tags, node.tags) for node in nodes]
    if not any(sent):
        return None
    return np.array([[source <= target for target in received] for source in sent], np.bool_)


def location_scores(
    cluster: Cluster, placed: HostedInstances, location_rows: dict[str, int], located: Bools
) -> Ints:
    """Sum over each node's primaries: location tags shared by both nodes, desired ones that the primary
    lacks.
    """
    if not location_rows and not any(tag.startswith(tags.DESIRED_LOCATION) for tag in cluster.tags):
        return np.zeros(placed.size, np.int64)
    together = (located[placed.pnode] & located[placed.snode]).sum(axis=1)
    unmet = [
        len(
            tags.desired_locations(cluster.tags, instance.tags)
            - tags.location_tags(cluster.tags, cluster.nodes[node].tags)
        )
        for instance, node in zip(cluster.instances, placed.pnode.tolist(), strict=True)
    ]
    each = np.where(placed.with_secondary, together, 0) + np.array(unmet, np.int64)
    summed: Ints = placed.on_primaries(each, placed.settled)
    return summed


def exclusion_counts(
    cluster: Cluster, requested: Sequence[Instance], placed: HostedInstances
) -> tuple[dict[str, int], Ints, Ints]:
    """Return rows of all exclusion tags, and their counts on nodes: of all instances, of forthcoming ones."""
    prefixes, instances = tags.exclusion_prefixes(cluster.tags), cluster.instances
    candidates = np.flatnonzero(placed.values["tagged"]).tolist() if prefixes else []
    held = [(row, tags.exclusion_tags(prefixes, instances[row].tags)) for row in candidates]
    wanted = [tags.exclusion_tags(prefixes, instance.tags) for instance in requested]
    met = {tag for each in (*(found for _, found in held), *wanted) for tag in each}
    tag_rows = {tag: row for row, tag in enumerate(sorted(met))}
    counts = np.zeros((len(tag_rows), len(cluster.nodes)), np.int64)
    waiting = np.zeros_like(counts)
    for row, found in held:
        for tag in found:
            counts[tag_rows[tag], placed.pnode[row]] += 1
            if placed.forthcoming[row]:
                waiting[tag_rows[tag], placed.pnode[row]] += 1
    return tag_rows, counts, waiting
