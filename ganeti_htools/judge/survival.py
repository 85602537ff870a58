"""The way back of the instances of a lost node (hcheck(1), "Losses").

Mirrored instances fail over to their secondaries. Then instances whose data all nodes see are placed one by
one, by a search that tries all places, up to a number of tries. Others have nowhere to go.
"""

from collections import Counter
from collections.abc import Iterable

from ganeti_htools.judge.layout import DATA_ELSEWHERE, Layout
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.types import DiskTemplate


def without_way_back(layout: Layout, node: str, resting: Iterable[str] = ()) -> set[str]:
    """Return the instances that do not come back if a node is lost.

    Those of an offline node already did not. Left out are those with local data, which never could, and
    mirrored ones whose secondary is ``resting``: in maintenance by the plan itself.
    """
    if layout.nodes[node].offline:
        return set(layout.figures(node).primaries)
    taken, lost, seeking = Counter[str](), set[str](), list[Instance]()
    rows = [layout.instances[name] for name in layout.figures(node).primaries]
    for row in sorted(rows, key=lambda row: row.mem):  # so that most come back
        place = layout.places[row.name]
        if row.template is DiskTemplate.DRBD and place.secondary is not None:
            if place.secondary in resting:
                continue
            if _takes(layout, row, place.secondary, taken):
                taken[place.secondary] += row.mem if row.uses_memory else 0
            else:
                lost.add(row.name)
        elif row.template in DATA_ELSEWHERE:
            seeking.append(row)
    group = layout.nodes[node].group
    others = [other for other, there in layout.nodes.items() if there.group == group and other != node]
    return lost | _unplaced(layout, seeking[::-1], others, taken)


def _unplaced(layout: Layout, rows: list[Instance], nodes: list[str], taken: Counter[str]) -> set[str]:
    """Return the instances that find no place; none of those that the search has no tries left for."""
    tries = 2000

    def search(at: int) -> set[str]:
        nonlocal tries
        tries -= 1
        if at == len(rows) or tries < 0:
            return set()
        row, best = rows[at], {row.name for row in rows[at:]}
        for node in sorted(nodes, key=lambda node: layout.figures(node).now.free - taken[node]):
            if _takes(layout, row, node, taken):
                taken[node] += row.mem if row.uses_memory else 0
                best = min(best, search(at + 1), key=len)
                taken[node] -= row.mem if row.uses_memory else 0
                if not best:
                    return best
        return min(best, search(at + 1) | {row.name}, key=len)

    return search(0)


def _takes(layout: Layout, row: Instance, node: str, taken: Counter[str]) -> bool:
    need = row.mem if row.uses_memory else 0
    there = layout.figures(node)
    if node in layout.closed or not layout.may_migrate(layout.places[row.name].primary, node):
        return False
    if node not in layout.unknown_size and there.now.free - taken[node] < need:
        return False
    fits = all(
        there.classes[kind] + amount <= layout.class_capacity(node, kind)
        for kind, amount in layout.demands(row).items()
    )
    return fits and (node in layout.places[row.name].nodes or not any(layout.may_receive(row.name, node)))
