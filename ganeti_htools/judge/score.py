"""The score of a node group by components (hbal(1), "Cluster scoring"; weights: docs/glossary.md)."""

import math
from collections import Counter
from collections.abc import Sequence

from ganeti_htools.judge.layout import Layout, Left
from ganeti_htools.model import tags


def score(layout: Layout, nodes: Sequence[str]) -> float:
    """Compute the score of some nodes, usually those of a group."""
    return sum(components(layout, nodes).values())


def components(layout: Layout, nodes: Sequence[str]) -> dict[str, float]:
    """Compute the weighted components of the score. Deviations are those of nodes that take instances."""
    up = [node for node in nodes if not layout.nodes[node].closed]
    down = [layout.figures(node) for node in nodes if layout.nodes[node].closed]
    rows, sums = [layout.nodes[node] for node in up], [layout.figures(node) for node in up]
    shares = [there.reserved / row.t_mem for row, there in zip(rows, sums, strict=True)]
    failing = [there for node, there in zip(up, sums, strict=True) if layout.fails_n1(node)]
    most_spindles = [math.inf if row.excl_stor else layout.most_spindles(row.name) for row in rows]
    found = {f"load {kind}": deviation([there.load[kind] for there in sums]) for kind in range(4)}
    for when, lefts in (("now", [there.now for there in sums]), ("later", [there.later for there in sums])):
        pairs = list(zip(rows, lefts, strict=True))
        found |= {
            f"memory {when}": 0.5 * deviation([left.free / row.t_mem for row, left in pairs]),
            f"cpus {when}": 0.5 * deviation([left.cpus / row.t_cpu / row.cpu_speed for row, left in pairs]),
            f"spindles {when}": 0.5
            * deviation([left.spindles / most for most, left in zip(most_spindles, lefts, strict=True)]),
            f"disks {when}": 0.5 * _disks(layout, up, lefts),
        }
    return found | {
        "reserved": deviation(shares) + 0.25 * sum(shares),
        "n1": sum(len(there.primaries) + len(there.secondaries) for there in failing),
        "offline": sum(20 * len(there.primaries) + 4 * len(there.secondaries) for there in down),
        "tags": 2 * sum(count - 1 for there in sums for count in there.later.exclusion.values()),
        "locations": _locations(layout, up),
    }


def deviation(values: Sequence[float]) -> float:
    """The standard deviation; 0 without values."""
    count = len(values) or 1
    return math.dist(values, [sum(values) / count] * len(values)) / math.sqrt(count)


def _disks(layout: Layout, up: Sequence[str], lefts: Sequence[Left]) -> float:
    """The deviation of free disk, or with exclusive storage of spindles; units that any node has share it."""
    totals = [layout.total_disks(node) for node in up]
    units = [unit for unit in layout.units.local if any(total[unit] for total in totals)]
    found = 0.0
    for unit in units:
        shares = []
        for node, left, total in zip(up, lefts, totals, strict=True):
            row = layout.nodes[node]
            if row.excl_stor and unit == layout.units.local[0] and total[unit]:
                shares.append((layout.room[node][4] - left.spindles) / row.t_spindles)
            elif total[unit]:
                shares.append(left.disks[unit] / total[unit])
        found += deviation(shares) / len(units)
    return found


def _locations(layout: Layout, up: Sequence[str]) -> int:
    """Count locations that mirrors share, that instances miss, and that exclusion tags have twice."""
    at = {name: tags.location_tags(layout.tags, row.tags) for name, row in layout.nodes.items()}
    found, met = 0, Counter[tuple[str, str]]()
    for node in up:
        for name in layout.figures(node).primaries:
            wished = tags.desired_locations(layout.tags, layout.instances[name].tags)
            others = layout.places[name].nodes[1:]
            found += len(wished - at[node]) + sum(len(at[node] & at[other]) for other in others)
        for tag, count in layout.figures(node).now.exclusion.items():
            met.update({(tag, location): count for location in at[node]})
    return found + sum(count - 1 for count in met.values())
