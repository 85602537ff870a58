"""What moves copy over the network."""

from ganeti_htools.engine.moves import Kind
from ganeti_htools.model.cluster import Instance

# How often a move copies the disks, and the memory if the instance runs: it is then migrated.
COPIES = {
    Kind.FAILOVER: (0, 1),
    Kind.FAILOVER_TO: (0, 1),
    Kind.REPLACE_SECONDARY: (1, 0),
    Kind.REPLACE_AND_FAILOVER: (1, 1),
    Kind.REPLACE_PRIMARY: (1, 2),
    Kind.FAILOVER_AND_REPLACE: (1, 1),
}


def copied(kind: Kind, row: Instance) -> tuple[int, int]:
    """What such a move of an instance copies of disks and of memory, MiB."""
    disks, memory = COPIES[kind]
    return disks * row.dsk, memory * row.mem if row.status.running else 0
