"""Rules about nodes for clusters, by tags, and a plain version of them."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from random import Random

from ganeti_htools.model.cluster import Cluster, Instance, Node

ON, NODE, APART = "htools:on:disk:ssd", "htools:node:", "htools:apart:db"
AVOID = "htools:avoid:disk:old"
SPREAD, TOGETHER = "htools:spread:rack:web", "htools:together:app"


def ruled(rng: Random, row: Instance, names: tuple[str, ...], most: float = 0.3) -> Instance:
    """The instance, perhaps with rules about nodes of these names."""
    tags = [tag for tag in (ON, AVOID, APART, SPREAD, TOGETHER) if rng.random() < most]
    tags += [f"{NODE}{name}" for name in names if rng.random() < most / 2]
    return replace(row, tags=(*row.tags, *tags))


def with_rules(rng: Random, described: Cluster, most: float | None = None) -> Cluster:
    """The cluster with rules of some instances, of each kind of ``most`` of them."""
    names = tuple(node.name for node in described.nodes)
    most = rng.choice((0.1, 0.3, 0.5)) if most is None else most
    chances = {"disk:ssd": 0.6, "disk:old": 0.2}
    nodes = tuple(
        replace(node, tags=(*node.tags, *(each for each in chances if rng.random() < chances[each])))
        for node in described.nodes
    )
    rows = tuple(ruled(rng, row, names, most) for row in described.instances)
    return replace(
        described, nodes=nodes, instances=rows, tags=tuple({*described.tags, "htools:nlocation:rack"})
    )


def violations(cluster: Cluster) -> set[tuple[str, ...]]:
    """All that breaks a rule: an instance and a node, or two instances; with the tag."""
    return {*_on_wrong_nodes(cluster), *_beside_wrong_ones(cluster)}


def _on_wrong_nodes(cluster: Cluster) -> Iterator[tuple[str, ...]]:
    nodes = {node.name: node for node in cluster.nodes}
    for row in cluster.instances:
        names = [tag.removeprefix(NODE) for tag in row.tags if tag.startswith(NODE)]
        for name in filter(None, (row.pnode, row.snode)):
            if ON in row.tags and "disk:ssd" not in nodes[name].tags:
                yield ON, row.name, name
            if AVOID in row.tags and "disk:old" in nodes[name].tags:
                yield AVOID, row.name, name
            if names and name not in names:
                yield NODE, row.name, name


def _beside_wrong_ones(cluster: Cluster) -> Iterator[tuple[str, ...]]:
    nodes = {node.name: node for node in cluster.nodes}
    for one, other in combinations(sorted(cluster.instances, key=lambda row: row.name), 2):
        shared = {*one.tags} & {*other.tags}
        if APART in shared and one.pnode == other.pnode:
            yield APART, one.name, other.name
        if SPREAD in shared and _near(nodes[one.pnode], nodes[other.pnode]):
            yield SPREAD, one.name, other.name
        if TOGETHER in shared and one.pnode != other.pnode:
            yield TOGETHER, one.name, other.name
        if TOGETHER in shared and one.snode and other.snode and one.snode != other.snode:
            yield TOGETHER, "secondary", one.name, other.name


def _near(one: Node, other: Node) -> bool:
    racks = [{tag for tag in node.tags if tag.startswith("rack:")} for node in (one, other)]
    return bool(racks[0] & racks[1]) or not (racks[0] or racks[1])
