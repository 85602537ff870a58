"""Inventories in tags: what an administrator has set reaches every program that reads the tags.

A tag of a node is ``htools:inventory:CLASS:TOTAL[:RESERVED[:MIN[:MAX[:STEP[:RATIO]]]]]``; ``-`` is an unset
figure. The total of a class that Ganeti counts is ``-``: it follows Ganeti. A tag of the cluster has a pool,
``TYPE/KEY``, in place of the class, and ``-`` as total.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from operator import is_

from ganeti_htools.backends.inventories import UNSET, read_inventory, write_inventory
from ganeti_htools.backends.values import quote
from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.errors import DataError, on_one_line
from ganeti_htools.model.inventory import Inventories, Inventory
from ganeti_htools.model.policy import IPolicy
from ganeti_htools.model.resource_classes import POOL, is_own, own_ratio
from ganeti_htools.model.storage import TYPE_NAMES, DesiredUnit
from ganeti_htools.model.tags import INVENTORY, LONGEST, is_valid


def inventories_in_tags(tags: Iterable[str]) -> dict[str, Inventory]:
    """Return the inventories in a node's tags by class; classes that Ganeti counts with a total of 0.

    Malformed tags are ignored. Of several tags of a class the one that leaves least counts.
    """
    return _settings(tags, pools=False)


def pools_in_tags(cluster_tags: Iterable[str]) -> dict[DesiredUnit, Inventory]:
    """Return the settings of pools in the cluster's tags, with a total of 0; as for nodes."""
    return {_pool(name): each for name, each in _settings(cluster_tags, pools=True).items()}


def _settings(tags: Iterable[str], pools: bool) -> dict[str, Inventory]:
    found: dict[str, tuple[int, str, Inventory]] = {}
    for tag in tags:
        if tag.startswith(INVENTORY) and not isinstance(setting := _setting(tag, pools), str):
            name, each = setting
            rank = int((each.total - each.reserved) * each.allocation_ratio), tag, each
            found[name] = min(rank, found.get(name, rank), key=lambda entry: entry[:2])
    return {name: each for name, (_, _, each) in sorted(found.items())}


@lru_cache(maxsize=4096)  # each request has the tags of all nodes
def _setting(tag: str, pool: bool) -> tuple[str, Inventory] | str:
    """Return the inventory in a tag, or why the tag cannot be parsed."""
    try:
        return _read(tag, pool)
    except DataError as error:
        return str(error)


def _read(tag: str, pool: bool) -> tuple[str, Inventory]:
    """Return the inventory in a tag, of a class or of a pool. Raises DataError."""
    name, *figures = tag.removeprefix(INVENTORY).split(":")
    if pool:
        _pool(name)
    if pool or is_own(name):
        total, figures = figures[:1], ["0", *figures[1:]]
        if total != [UNSET]:
            raise DataError(f"{name}: total: expected {UNSET}, because it follows Ganeti")
    return name, read_inventory(",".join((POOL if pool else name, *figures)))[1]


def _pool(name: str) -> DesiredUnit:
    kind, _, key = name.partition("/")
    if not key or kind not in TYPE_NAMES:
        raise DataError(f"{quote(name)}: expected a pool as TYPE/KEY")
    return DesiredUnit(TYPE_NAMES[kind], key)


def tag_of(name: str, inventory: Inventory, pool: bool = False) -> str | None:
    """Return the tag that sets an inventory of a class or of a pool; None if nothing is set.

    Raises DataError if Ganeti allows no such tag.
    """
    follows = pool or is_own(name)
    if follows:
        inventory = replace(inventory, total=0, allocation_ratio=1.0)
    inventory = replace(inventory, tagged=False)
    if follows and inventory == Inventory(0):
        return None
    words = write_inventory(name, inventory).split(",")
    if follows:
        words[1] = UNSET
    tag = INVENTORY + ":".join(words)
    if len(tag) > LONGEST:
        most = LONGEST - len(tag) + len(name)
        raise DataError(f"{name}: too long for a tag of Ganeti; expected at most {most} characters")
    if ":" in name or not is_valid(tag):
        raise DataError(f"{name}: Ganeti allows no such tag; expected letters, digits and _.+*/@-")
    return tag


def tags_about(tags: Iterable[str], name: str) -> list[str]:
    """Return the tags about a class or pool among the tags of a node or of the cluster."""
    return [tag for tag in tags if f"{tag}:".startswith(f"{INVENTORY}{name}:")]


def malformed_inventories(cluster: Cluster) -> Iterator[str]:
    """Yield one line per inventory tag that cannot be parsed."""
    for owner, tags in (("", cluster.tags), *((each.name, each.tags) for each in cluster.nodes)):
        for tag in tags:
            if tag.startswith(INVENTORY) and isinstance(why := _setting(tag, not owner), str):
                where = f"node {owner}" if owner else "cluster"
                yield on_one_line(f"{where}: tag {tag} sets nothing: {why}")


def with_tagged_inventories(cluster: Cluster) -> Cluster:
    """Return the cluster with the inventories in its tags and those of its nodes; known inventories win.

    The same object if nothing changes.
    """
    if any(tag.startswith(INVENTORY) for tag in cluster.tags):
        settings = pools_in_tags(cluster.tags) | dict(cluster.pool_settings)
        cluster = replace(cluster, pool_settings=tuple(settings.items()))
    if not any(tag.startswith(INVENTORY) for node in cluster.nodes for tag in node.tags):
        return cluster
    policies = {group.uuid: group.ipolicy for group in cluster.groups}
    nodes = tuple(_with_tagged(node, _tagged(node, policies[node.group])) for node in cluster.nodes)
    same = all(map(is_, nodes, cluster.nodes))
    return cluster if same else replace(cluster, nodes=nodes)


def without_tagged_inventories(cluster: Cluster) -> Cluster:
    """Return the cluster without the inventories of nodes whose tags have exactly the same ones."""
    policies = {group.uuid: group.ipolicy for group in cluster.groups}
    nodes = tuple(
        replace(node, inventories=())
        if node.inventories and node.inventories == _tagged(node, policies[node.group])
        else node
        for node in cluster.nodes
    )
    return replace(cluster, nodes=nodes)


def _with_tagged(node: Node, tagged: Inventories) -> Node:
    inventories = dict(tagged) | dict(node.inventories)
    same = len(inventories) == len(node.inventories)
    return node if same else replace(node, inventories=tuple(sorted(inventories.items())))


def _tagged(node: Node, policy: IPolicy) -> Inventories:
    found = []
    for name, each in inventories_in_tags(node.tags).items():
        if is_own(name):
            ratio = own_ratio(name, policy, node.excl_stor)
            each = replace(each, reserved=math.ceil(each.reserved * max(ratio, 0.0)))
        found.append((name, each))
    return tuple(found)
