"""What moves copy over the network, and how long that takes."""

import numpy as np

from ganeti_htools.engine.rules.moves import Kind
from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import Ints
from ganeti_htools.model.state import State

# How often a move copies the disks, and the memory if the instance runs: it is then migrated.
COPIES = {
    Kind.FAILOVER: (0, 1),
    Kind.FAILOVER_TO: (0, 1),
    Kind.REPLACE_SECONDARY: (1, 0),
    Kind.REPLACE_AND_FAILOVER: (1, 1),
    Kind.REPLACE_PRIMARY: (1, 2),
    Kind.FAILOVER_AND_REPLACE: (1, 1),
}

USUAL = 100  # Mbit/s between nodes of which no tag tells


def copied(kind: Kind, row: Instance) -> tuple[int, int]:
    """What such a move of an instance copies of disks and of memory, MiB."""
    disks, memory = COPIES[kind]
    return disks * row.dsk, memory * row.mem if row.status.running else 0


def bandwidths(state: State) -> Ints:
    """Mbit/s from each node to each other by the cluster's tags, the least if several tell."""
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
    known = {
        (own, other): min((speed for tag, speed in speeds.items() if tag in other), default=USUAL)
        for own, speeds in reached.items()
        for other in reached
    }
    return np.array([[known[own, other] for other in classes] for own in classes], np.int64)


def seconds(state: State, speeds: Ints, index: int, kind: Kind, node: int) -> float:
    """How long a move of an instance to a new node (a row) takes, with :func:`bandwidths`.

    The disks come from where the instance runs then.
    """
    row, p, s = state.cluster.instances[index], int(state.pnode[index]), int(state.snode[index])
    memory = row.mem if row.status.running else 0
    copies = {
        Kind.FAILOVER: [(memory, p, s)],
        Kind.FAILOVER_TO: [(memory, p, node)],
        Kind.REPLACE_SECONDARY: [(row.dsk, p, node)],
        Kind.REPLACE_AND_FAILOVER: [(row.dsk, p, node), (memory, p, node)],
        Kind.REPLACE_PRIMARY: [(memory, p, s), (row.dsk, s, node), (memory, s, node)],
        Kind.FAILOVER_AND_REPLACE: [(memory, p, s), (row.dsk, s, node)],
    }[kind]
    return sum(8 * volume / float(speeds[source, goal]) for volume, source, goal in copies)
