"""The closed vocabularies of Ganeti that decisions depend on.

Values are the spellings on the wire; the order of the members is the order Ganeti gives them, which
shows in output and in comparisons.
"""

from enum import Enum


class AllocPolicy(Enum):
    """Allocation policy of a node group, most willing first."""

    PREFERRED = "preferred"
    LAST_RESORT = "last_resort"
    UNALLOCABLE = "unallocable"


class MirrorType(Enum):
    """Ways for disks to reach another node: none, DRBD, or storage that all nodes see."""

    NONE = "none"
    INTERNAL = "internal"
    EXTERNAL = "external"


class DiskTemplate(Enum):
    DISKLESS = "diskless"
    FILE = "file"
    SHARED_FILE = "sharedfile"
    PLAIN = "plain"
    BLOCK = "blockdev"
    DRBD = "drbd"
    RBD = "rbd"
    EXT = "ext"
    GLUSTER = "gluster"

    __hash__ = object.__hash__  # hashed for each disk, and Enum's own is written in Python

    @property
    def mirror(self) -> MirrorType:
        """Whether and how an instance with this template can move."""
        if self is DiskTemplate.DRBD:
            return MirrorType.INTERNAL
        if self in (DiskTemplate.FILE, DiskTemplate.PLAIN):
            return MirrorType.NONE
        return MirrorType.EXTERNAL

    @property
    def local_storage(self) -> bool:
        """Whether disks are taken from the node's volume group, the only space Ganeti reports."""
        return self in (DiskTemplate.DRBD, DiskTemplate.PLAIN)

    @property
    def required_nodes(self) -> int:
        """Number of nodes an instance with this template occupies."""
        return 2 if self is DiskTemplate.DRBD else 1

    @property
    def survives_node(self) -> bool:
        """Whether an instance of a lost node can be started elsewhere from the same data, DRBD aside.

        Others have to be recreated. Blockdev counts as not movable here although its mirror type is
        external: Ganeti cannot know which other nodes see the device.
        """
        return self.mirror is MirrorType.EXTERNAL and self is not DiskTemplate.BLOCK


class Status(Enum):
    """Run state of an instance: the administrator's wish and what was found."""

    DOWN = "ADMIN_down"
    OFFLINE = "ADMIN_offline"
    ERROR_DOWN = "ERROR_down"
    ERROR_UP = "ERROR_up"
    NODE_DOWN = "ERROR_nodedown"
    NODE_OFFLINE = "ERROR_nodeoffline"
    RUNNING = "running"
    USER_DOWN = "USER_down"
    WRONG_NODE = "ERROR_wrongnode"

    @property
    def running(self) -> bool:
        """Whether the instance runs on its node."""
        return self in (Status.RUNNING, Status.ERROR_UP)

    @property
    def uses_memory(self) -> bool:
        """Whether the instance takes memory of its node (state of record)."""
        return self not in (Status.DOWN, Status.OFFLINE, Status.ERROR_DOWN, Status.USER_DOWN)


class EvacMode(Enum):
    """The instances that a node evacuation moves."""

    PRIMARY = "primary-only"
    SECONDARY = "secondary-only"
    ALL = "all"


class Fail(Enum):
    """Reasons why an instance does not fit on a node, in Ganeti's order, and ours: custom resource classes,
    rules of tags.
    """

    MEM = "FailMem"
    DISK = "FailDisk"
    CPU = "FailCPU"
    N1 = "FailN1"
    TAGS = "FailTags"
    MIGRATION = "FailMig"
    DISK_COUNT = "FailDiskCount"
    SPINDLES = "FailSpindles"
    INTERNAL = "FailInternal"
    RESOURCE = "FailResource"
    RULE = "FailRule"
