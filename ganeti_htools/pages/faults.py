"""The section of a page about what is fragile, and why."""

from collections.abc import Iterator

import numpy as np

from ganeti_htools.engine.rules.broken_rules import broken_rules
from ganeti_htools.model.wording import size
from ganeti_htools.pages.markup import Markup, element, fold, join, section, table
from ganeti_htools.pages.sides import Side, some

_WELL = [element("p", "✓ Every group is healthy: all instances survive the loss of any node.")]


def faults(before: Side, after: Side | None) -> Markup:
    """Return what is fragile and why: nodes that fail N+1 or cannot be lost, and broken rules."""
    was, now = (join(_faults(side)) for side in (before, after or before))
    if after is None:
        return section("Health", was)
    if was == now and now != join(_WELL):
        ill = [
            f"{group['name']} {group['health']}" for group in before.health if group["health"] != "healthy"
        ]
        return section("Health", fold(f"As before the plan: {', '.join(ill) or 'broken rules'}", now))
    return section("Health after the plan", now, *([fold("Before the plan", was)] if was != now else []))


def _faults(side: Side) -> Iterator[Markup]:
    state = side.state
    whys = [(group["name"], why) for group in side.health for why in group["why"]]
    broken = broken_rules(state)
    if not whys and not broken:
        yield from _WELL
        return
    if whys:
        yield element("ul", *(element("li", f"{name}: {why}") for name, why in whys))
    rows = [*_failing(side), *_fatal(side)]
    if rows:
        header = ("Node", "Group", "Fault", "Instances")
        yield table("Nodes that are not redundant, and the instances that suffer", header, rows, (False,) * 4)
    if broken:
        names = [row.name for row in state.cluster.instances]
        found = [
            (each.rule, some([names[row] for row in each.instances]), some(state.names(each.nodes)))
            for each in broken
        ]
        yield table("Broken rules of instances", ("Rule", "Instances", "Nodes"), found, (False,) * 3)


def _failing(side: Side) -> Iterator[tuple[str, ...]]:
    state, rows = side.state, {node.name: row for row, node in enumerate(side.state.cluster.nodes)}
    names = [instance.name for instance in state.cluster.instances]
    for group in side.health:
        for node in group["failing"]:
            row = rows[node]
            kept, free = int(state.columns.r_mem[row]), int(state.columns.unallocated[row])
            fault = f"fails N+1: it must keep {size(kept)} of memory free, and has {size(free)}"
            kept_for = np.flatnonzero((state.snode == row) & ~state.forthcoming).tolist()
            yield node, group["name"], fault, some([names[each] for each in kept_for])


def _fatal(side: Side) -> Iterator[tuple[str, ...]]:
    places = {
        row.name: int(node)
        for row, node in zip(side.state.cluster.instances, side.state.pnode.tolist(), strict=True)
    }
    for group in side.health:
        lost: dict[str, list[str]] = {node: [] for node in group["unrecoverable"]["nodes"]}
        for name in group["unrecoverable"]["instances"]:
            lost[side.state.cluster.nodes[places[name]].name].append(name)
        for node, names in lost.items():
            yield node, group["name"], "without it, these would not come back", some(names)
