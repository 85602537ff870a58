"""The way back of the instances of a lost node (hcheck(1), "Losses")."""

import math
from collections.abc import Iterable, Mapping

from ganeti_htools.judge.layout import Layout, Place
from ganeti_htools.judge.score import score
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.types import DiskTemplate


def without_way_back(layout: Layout, resting: Iterable[str] = (), exact: bool = False) -> set[str]:
    """Return the instances that do not come back if their node is lost. Those of an offline node did not.

    Left out are local data, and mirrored ones whose secondary is ``resting``: the plan has it in maintenance.
    Those whose data all nodes see go to the fullest node; ``exact``: or the best by the score.
    """
    return set[str]().union(*(_lost_with(layout, node, resting, exact) for node in layout.nodes))


def _lost_with(layout: Layout, node: str, resting: Iterable[str], exact: bool) -> set[str]:
    if layout.nodes[node].offline and node in layout.closed:
        return set(layout.figures(node).primaries)
    free, seeking, moved = _free(layout), list[Instance](), list[str]()
    lost, unplaced = set[str](), set[str]()
    here = reversed(layout.figures(node).primaries)  # Ganeti's order: it decides when memory is scarce
    for name in (*layout.coming.get(node, ()), *here):
        row, place = layout.instances[name], layout.places[name]
        if row.template is DiskTemplate.DRBD and place.secondary is not None:
            if place.secondary in resting:
                continue
            if _takes(layout, row, node, place.secondary, free) and not _stuck(layout, row):
                free[place.secondary] -= row.mem if row.uses_memory else 0
                moved.append(name)
            else:
                lost.add(name)
        elif row.template.survives_node:
            seeking.append(row)
    groups = {each: layout.group_of(each) for each in layout.nodes}
    others = [each for each in groups if each != node and groups[each] is groups[node]]
    for row in sorted(seeking, key=lambda row: -row.mem):
        fullest = sorted(others, key=free.__getitem__)
        if best := next((other for other in fullest if _takes(layout, row, node, other, free)), None):
            free[best] -= row.mem if row.uses_memory else 0
        else:
            unplaced.add(row.name)
    return lost | (_unplaced(layout, seeking, others, moved) if exact else unplaced)


def _free(layout: Layout) -> dict[str, float]:
    found = {node: float(layout.figures(node).now.free) for node in layout.nodes}
    for node, names in layout.coming.items():
        found[node] -= sum(layout.instances[name].mem for name in names)
    return found | dict.fromkeys(layout.unknown_size, math.inf)


def _stuck(layout: Layout, row: Instance) -> bool:
    """Whether a node of a mirrored instance has no disk left or does not give its amounts (Ganeti's N+1)."""
    units = [unit for unit in layout.needs[row.name] if unit.type.local]
    return any(
        layout.refused(row, node) or any(layout.figures(node).now.disks.get(unit, 1) <= 0 for unit in units)
        for node in {*layout.places[row.name].nodes} - layout.unknown_size
    )


def _unplaced(layout: Layout, rows: list[Instance], nodes: list[str], moved: list[str]) -> set[str]:
    """Return the instances that find no place after others have failed over."""
    was, changed, lost = dict(layout.places), set(layout.changed), set[str]()
    scope = {*nodes, *(was[row.name].primary for row in rows)} - layout.closed
    for name in moved:
        layout.move(name, Place(*reversed(was[name].nodes)))
    for row in rows:
        scores = dict[str, float]()
        free, source = _free(layout), was[row.name].primary
        for node in (each for each in nodes if _takes(layout, row, source, each, free)):
            layout.move(row.name, Place(node))
            scores[node] = score(layout, sorted(scope))
            layout.move(row.name, was[row.name])
        if scores:
            layout.move(row.name, Place(min(reversed(scores), key=scores.__getitem__)))
        else:
            lost.add(row.name)
    for name in (*moved, *(row.name for row in rows)):
        layout.move(name, was[name])
    layout.changed = changed
    return lost


def _takes(layout: Layout, row: Instance, source: str, node: str, free: Mapping[str, float]) -> bool:
    there, need = layout.figures(node), row.mem if row.uses_memory else 0
    if free[node] <= need or node in layout.closed:  # some must be left
        return False
    demands = layout.demands(row).items()
    if any(there.classes[kind] + amount > layout.class_capacity(node, kind) for kind, amount in demands):
        return False
    receives = node == layout.places[row.name].secondary or not any(layout.may_receive(row.name, node))
    return receives and layout.may_migrate(source, node)
