"""The way back of the instances of a lost node (hcheck(1), "Losses")."""

from collections import Counter
from collections.abc import Iterable

from ganeti_htools.judge.layout import Layout, Place
from ganeti_htools.judge.score import score
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.types import DiskTemplate


def without_way_back(layout: Layout, resting: Iterable[str] = (), exact: bool = False) -> set[str]:
    """Return the instances that do not come back if their node is lost.

    Those of an offline node already did not. Left out are those with local data, which never could, and
    mirrored ones whose secondary is ``resting``: in maintenance by the plan itself. When mirrored ones have
    failed over, those whose data all nodes see go to the fullest node, or, ``exact``, the best by the score.
    """
    return set[str]().union(*(_lost_with(layout, node, resting, exact) for node in layout.nodes))


def _lost_with(layout: Layout, node: str, resting: Iterable[str], exact: bool) -> set[str]:
    if layout.nodes[node].offline and node in layout.closed:
        return set(layout.figures(node).primaries)
    taken, lost, seeking, moved = Counter[str](), set[str](), list[Instance](), list[str]()
    for name in reversed(layout.figures(node).primaries):  # Ganeti's order: it decides when memory is scarce
        row, place = layout.instances[name], layout.places[name]
        if row.template is DiskTemplate.DRBD and place.secondary is not None:
            if place.secondary in resting:
                continue
            if _takes(layout, row, place.secondary, taken) and not _stuck(layout, row):
                taken[place.secondary] += row.mem if row.uses_memory else 0
                moved.append(name)
            else:
                lost.add(name)
        elif row.template.survives_node:
            seeking.append(row)
    group = layout.group_of(node)
    others = [other for other in layout.nodes if layout.group_of(other) is group and other != node]
    if exact:
        return lost | _unplaced(layout, seeking, others, moved)
    for row in sorted(seeking, key=lambda row: -row.mem):
        if found := [other for other in others if _takes(layout, row, other, taken)]:
            best = min(found, key=lambda other: layout.figures(other).now.free - taken[other])
            taken[best] += row.mem if row.uses_memory else 0
        else:
            lost.add(row.name)
    return lost


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
        for node in (each for each in nodes if _takes(layout, row, each, Counter())):
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


def _takes(layout: Layout, row: Instance, node: str, taken: Counter[str]) -> bool:
    there, need = layout.figures(node), row.mem if row.uses_memory else 0
    if node in layout.closed or not layout.may_migrate(layout.places[row.name].primary, node):
        return False
    if node not in layout.unknown_size and there.now.free - taken[node] <= need:  # some must be left
        return False
    demands = layout.demands(row).items()
    if any(there.classes[kind] + amount > layout.class_capacity(node, kind) for kind, amount in demands):
        return False
    return node in layout.places[row.name].nodes or not any(layout.may_receive(row.name, node))
