"""Inconsistent data of a cluster: figures that do not add up, and tags that cannot be parsed."""

from collections.abc import Iterator

import numpy as np

from ganeti_htools.model import tags
from ganeti_htools.model.columns import NOWHERE, by_unit
from ganeti_htools.model.errors import on_one_line
from ganeti_htools.model.ignored_tags import KINDS, unknown_kinds
from ganeti_htools.model.node_reservations import node_reservations
from ganeti_htools.model.placement_tags import malformed
from ganeti_htools.model.state import State


def inconsistencies(state: State) -> list[str]:
    """Return one line per node whose figures do not add up, and per tag that cannot be parsed."""
    return [
        *missing_resources(state),
        *_malformed_demands(state),
        *_malformed_prices(state),
        *_malformed_rules(state),
        *_unknown_kinds(state),
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


def _malformed_demands(state: State) -> Iterator[str]:
    """Without nodes that have custom classes nothing can be demanded, so no tag is checked."""
    for row in state.cluster.instances if state.units.classes else ():
        for tag in tags.malformed_demands(row.tags):
            expected = f"{tags.RESOURCE}CLASS:AMOUNT, with a custom class and an amount above 0"
            yield on_one_line(f"instance {row.name}: tag {tag} demands nothing, expected {expected}")


def _malformed_prices(state: State) -> Iterator[str]:
    for row in state.cluster.instances:
        for tag in tags.malformed_prices(row.tags):
            expected = f"{tags.PRICE}FACTOR, with a number above 0"
            yield on_one_line(f"instance {row.name}: tag {tag} sets no price, expected {expected}")


def _malformed_rules(state: State) -> Iterator[str]:
    for index in np.flatnonzero(state.figures.values["ruled"]).tolist():
        row = state.cluster.instances[index]
        for tag in malformed(row.tags):
            expected = "a form of htools-tags(7), with names without colon"
            yield on_one_line(f"instance {row.name}: tag {tag} is no rule, expected {expected}")


def _unknown_kinds(state: State) -> Iterator[str]:
    for tag in unknown_kinds(state.cluster.tags):
        yield on_one_line(f"cluster: tag {tag} ignores nothing, expected one of {', '.join(KINDS)}")
