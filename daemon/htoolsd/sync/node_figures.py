"""Figures of nodes: the free amounts that nodes reported, and what instances took or gave back since.

Nodes report rarely, while the placement of instances is known soon. Each report comes with the instances of
that moment. So the difference to the present instances follows from two tables.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

from ganeti_htools.backends import luxi
from ganeti_htools.luxi.queries import PLACEMENT_FIELDS, QueryRow
from ganeti_htools.model.cluster import Instance, Node
from ganeti_htools.model.node_after import node_after
from ganeti_htools.model.types import Status
from ganeti_htools.model.units import SINGLE

# Free amounts that nodes report, with their totals.
_FREE = {"mfree": "mtotal", "dfree": "dtotal", "spfree": "sptotal"}
# Fields of an instance on which its amounts do not depend.
_OTHERS: Mapping[str, Any] = {
    "be/vcpus": 0,
    "be/auto_balance": True,
    "be/spindle_use": 0,
    "tags": [],
    "nic.networks": [],
}

# The change (MiB, spindles) of each free amount of a node since its report.
FreeChange = tuple[int, int, int]


_placement = itemgetter(*PLACEMENT_FIELDS)


def same_placement(one: QueryRow, other: QueryRow) -> bool:
    """Whether an instance has the same nodes, and takes as much of them, in two rows."""
    try:
        return bool(_placement(one.values) == _placement(other.values))
    except KeyError:  # a field that this version of Ganeti does not have
        return all(one.values.get(key) == other.values.get(key) for key in PLACEMENT_FIELDS)


def free_changes(
    then: Mapping[str, QueryRow], now: Mapping[str, QueryRow], exclusive: Iterable[str]
) -> dict[str, FreeChange]:
    """Return the changes of the free amounts of nodes, by the names of the nodes.

    ``then`` are the instances (by name) when their nodes reported, ``now`` the present ones, all of them with
    their status. ``exclusive`` are the nodes with exclusive storage. Raises DataError.
    """
    nodes, spindles = dict[str, Node](), frozenset(exclusive)

    def change(row: Instance, sign: int, memory: bool) -> None:
        for name in filter(None, (row.pnode, row.snode)):
            node = nodes.get(name) or Node(name, "", excl_stor=name in spindles)
            taken = sign if memory and name == row.pnode else 0
            nodes[name] = node_after(node, row, SINGLE, memory=taken, storage=sign)

    for name in [*then, *(name for name in now if name not in then)]:
        old, new = then.get(name), now.get(name)
        if old and new and same_placement(old, new) and old.values.get("status") == new.values["status"]:
            continue
        before = old and luxi.instance(QueryRow({**_OTHERS, **old.values}, old.missing))
        after = new and luxi.instance(new)
        # The figures do not show on which node the memory was.
        known = before is None or before.status is not Status.WRONG_NODE
        if before and after and before.pnode == after.pnode and before.uses_memory and after.uses_memory:
            after = replace(after, mem=before.mem)  # another size counts from the next start on
        if before:
            change(before, -1, known)
        if after:
            change(after, 1, known)
    return {name: (node.f_mem, node.f_dsk, node.f_spindles) for name, node in nodes.items()}


def with_free_change(values: Mapping[str, Any], change: FreeChange) -> dict[str, Any]:
    """Return the figures of a node with changed free amounts, at most the totals."""
    found = dict(values)
    for (free, total), amount in zip(_FREE.items(), change, strict=True):
        reported, whole = found.get(free), found.get(total)
        if amount and isinstance(reported, int | float) and isinstance(whole, int | float):
            found[free] = min(reported + amount, max(reported, int(whole)))
    return found
