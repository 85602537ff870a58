"""Data that moves copy over the network, and the time that takes."""

from collections.abc import Sequence

import numpy as np

from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import NOWHERE, Ints
from ganeti_htools.model.moves import MoveKind, MovePart, Operation
from ganeti_htools.model.options import USUAL_BANDWIDTH
from ganeti_htools.model.state import State
from ganeti_htools.model.units import Units


def copied(kind: MoveKind, row: Instance) -> tuple[int, int]:
    """Compute the disks and the memory (MiB) that a move of an instance copies."""
    return copied_by(kind.operations, row)


def copied_by(operations: Sequence[Operation], row: Instance) -> tuple[int, int]:
    """Compute the disks and the memory (MiB) that these operations on an instance copy.

    Memory is copied by migrations, and only instances that run are migrated.
    """
    disks = _times_disks(operations)
    migrations = len(operations) - disks if row.status.running else 0
    return disks * row.dsk, migrations * row.mem


def copied_by_unit(operations: Sequence[Operation], row: Instance, units: Units) -> dict[str, int]:
    """Compute the disks (MiB) that operations copy, by storage unit; empty while no node reports units."""
    disks = _times_disks(operations)
    if not disks or not units.reported:
        return {}
    return {str(unit): disks * size for unit, size in units.needs(row).items()}


def _times_disks(operations: Sequence[Operation]) -> int:
    """Count the copies of all disks of an instance."""
    return sum(operation.copies_disks for operation in operations)


def bandwidths(state: State, usual: int = USUAL_BANDWIDTH) -> Ints:
    """Compute the bandwidth (Mbit/s) between nodes by the cluster's tags; the lowest if there are several.

    Nodes without such tags have the ``usual`` one.
    """
    cluster = state.cluster
    classes = [
        tags.bandwidth_tags(cluster.tags, cluster.groups[group].tags, node.tags)
        for group, node in zip(state.group.tolist(), cluster.nodes, strict=True)
    ]
    reached: dict[frozenset[str], dict[str, int]] = {own: {} for own in classes}
    for own, speeds in reached.items():
        for one, other, speed in tags.bandwidths(cluster.tags):
            if one in own or other in own:
                speeds[other if one in own else one] = speed
    known = [
        [min((speed for tag, speed in speeds.items() if tag in other), default=usual) for other in reached]
        for speeds in reached.values()
    ]
    places = {own: place for place, own in enumerate(reached)}
    rows = np.array([places[own] for own in classes], np.int64)
    return np.array(known, np.int64)[rows[:, None], rows] if classes else np.zeros((0, 0), np.int64)


def seconds(
    row: Instance,
    speeds: Ints,
    place: tuple[int, ...],
    parts: Sequence[MovePart],
    usual: int = USUAL_BANDWIDTH,
) -> float:
    """Compute the time of the parts of a move of an instance, with :func:`bandwidths`.

    ``place`` has the rows of its nodes, primary first. Where speeds are 0 the ``usual`` one counts.
    """
    memory = row.mem if row.status.running else 0
    total = 0.0
    primary, secondary = (*place, NOWHERE)[:2]
    for part in parts:
        source = primary
        primary, secondary = part.operation.nodes(primary, secondary, part.node)
        target = secondary if part.operation is Operation.REPLACE_SECONDARY else primary
        volume = row.dsk if part.operation.copies_disks else memory
        total += 8 * volume / (float(speeds[source, target]) or usual)
    return total
