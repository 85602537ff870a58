"""Inconsistent data of a cluster: figures that do not add up, and tags without effect."""

from collections.abc import Iterator

import numpy as np

from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import NOWHERE, by_unit
from ganeti_htools.model.errors import on_one_line
from ganeti_htools.model.ignored_tags import KINDS
from ganeti_htools.model.node_reservations import node_reservations
from ganeti_htools.model.placement_tags import malformed
from ganeti_htools.model.resource_classes import is_custom
from ganeti_htools.model.state import State
from ganeti_htools.model.wording import did_you_mean

# The kinds of tags that have an effect, by what has them.
_KINDS: dict[str, tuple[str, ...]] = {
    "cluster": (
        "allowmigration",
        "bandwidth",
        "desiredlocation",
        "iextags",
        "ignore",
        "inventory",
        "migration",
        "nlocation",
        "nointergroup",
        "setup",
    ),
    "group": ("nointergroup", "storage"),
    "node": ("inventory", "maintenance", "squeezing", "standby", "storage"),
    "instance": KINDS,
}
_OURS = "htools:"


def inconsistencies(state: State) -> list[str]:
    """Return one line per node whose figures do not add up, and per tag without effect."""
    return [*missing_resources(state), *tag_faults(state.cluster)]


def tag_faults(cluster: Cluster) -> list[str]:
    """Return one line per tag of ours that cannot be parsed, or whose kind is unknown."""
    return [
        *_malformed_demands(cluster),
        *_malformed_prices(cluster),
        *_malformed_rules(cluster),
        *_unknown_kinds(cluster),
    ]


def missing_resources(state: State) -> list[str]:
    """Return one line per node that lacks over 512 MiB of memory or 1 GiB of disk, last node first.

    Nodes that are ``updating`` are skipped: their figures are older than their instances.
    """
    size, columns = len(state.cluster.nodes), state.columns
    taken = state.disk.sum(axis=1) if state.units.reported else state.dsk
    used = np.zeros(size, np.int64)
    for node in (state.pnode, state.snode):
        keep = ~state.forthcoming & (node != NOWHERE)
        np.add.at(used, node[keep], taken[keep])
    lost_mem = columns.x_mem.tolist()
    room = [total.astype(np.int64) for total in by_unit(columns, "t_dsk")]
    kept = node_reservations(state.cluster.nodes, state.units).disk.sum(axis=0)
    lost_dsk = (sum(room) - sum(by_unit(columns, "f_dsk")) - kept - used).tolist()
    return [
        f"node {on_one_line(node.name)} is missing {mem} MB ram and {dsk // 1024} GB disk"
        for node, mem, dsk in zip(state.cluster.nodes, lost_mem, lost_dsk, strict=True)
        if (mem > 512 or dsk > 1024) and not node.updating
    ][::-1]


def _malformed_demands(cluster: Cluster) -> Iterator[str]:
    """Without nodes that have custom classes nothing can be demanded, so no tag is checked."""
    known = any(is_custom(name) for node in cluster.nodes for name, _ in node.inventories)
    for row in cluster.instances if known else ():
        for tag in tags.malformed_demands(row.tags):
            expected = f"{tags.RESOURCE}CLASS:AMOUNT, with a custom class and an amount above 0"
            yield on_one_line(f"instance {row.name}: tag {tag} demands nothing, expected {expected}")


def _malformed_prices(cluster: Cluster) -> Iterator[str]:
    for row in cluster.instances:
        for tag in tags.malformed_prices(row.tags):
            expected = f"{tags.PRICE}FACTOR, with a number above 0"
            yield on_one_line(f"instance {row.name}: tag {tag} sets no price, expected {expected}")


def _malformed_rules(cluster: Cluster) -> Iterator[str]:
    for row in cluster.instances:
        for tag in malformed(row.tags):
            expected = "a form of htools-tags(7), with names without colon"
            yield on_one_line(f"instance {row.name}: tag {tag} is no rule, expected {expected}")


def _unknown_kinds(cluster: Cluster) -> Iterator[str]:
    owners: list[tuple[str, str, tuple[str, ...]]] = [("cluster", "", cluster.tags)]
    owners += (("group", each.name, each.tags) for each in cluster.groups)
    owners += (("node", each.name, each.tags) for each in cluster.nodes)
    owners += (("instance", each.name, each.tags) for each in cluster.instances)
    for what, name, of in owners:
        for tag in of:
            if tag.startswith(_OURS) and (why := _fault(what, tag.removeprefix(_OURS))):
                yield on_one_line(f"{f'{what} {name}'.rstrip()}: tag {tag} has no effect; {why}")


def _fault(what: str, tag: str) -> str:
    """Describe why a tag (without its beginning) has no effect; empty if it may have one."""
    kind, separator, rest = tag.partition(":")
    if kind not in _KINDS[what]:
        return did_you_mean(kind, _KINDS[what], _OURS) or "htools-tags(7) has the known ones"
    if kind == "ignore" and rest not in KINDS:
        return f"expected {_OURS}ignore:KIND, with one of {', '.join(KINDS)}"
    bare = kind in ("fixed", "pinned")
    wrong = what == "instance" and (kind != "fixed" and bool(separator) if bare else not separator)
    return f"expected {_OURS}{kind}{'' if bare else ':...'}, see htools-tags(7)" if wrong else ""
