"""The cluster as its sources describe it: immutable rows that hold what was read and nothing derived.

Backends make and write these; :mod:`ganeti_htools.model.derive` turns them into columns. Sizes are
MiB. Objects refer to each other by name, so a row stays valid whatever stands beside it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ganeti_htools.model.errors import DataError
from ganeti_htools.model.inventory import Inventories
from ganeti_htools.model.policy import DEFAULT_IPOLICY, Demand, IPolicy
from ganeti_htools.model.storage import DesiredUnit, Pool, Unit
from ganeti_htools.model.types import AllocPolicy, DiskTemplate, Status

# One exbibyte. A larger figure is refused as damage; below this bound, sums stay exact in 64 bits.
MAX_MIB = 1 << 40


@dataclass(frozen=True, slots=True)
class Load:
    """Dynamic utilisation of an instance, or the sum over a node. It has no unit; 1 is the usual instance."""

    cpu: float = 1.0
    mem: float = 1.0
    dsk: float = 1.0
    net: float = 1.0


@dataclass(frozen=True, slots=True)
class Group:
    """A node group.

    New disks there, if they do not tell otherwise, are on its ``rbd_pool``, and the metadata of mirrored ones
    on its ``metavg``; None if that is not known.
    """

    name: str
    uuid: str
    alloc_policy: AllocPolicy = AllocPolicy.PREFERRED
    networks: tuple[str, ...] = ()
    ipolicy: IPolicy = DEFAULT_IPOLICY
    tags: tuple[str, ...] = ()
    metavg: str | None = None
    rbd_pool: str | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A node. ``offline`` also stands for drained, not vm_capable and without live data.

    ``t_`` are totals, ``f_`` what is free, ``n_`` what the node's own system uses. With ``updating`` these
    figures may have been measured when the node had other instances. ``cpu_load`` is None unless a monitor
    measured it. ``master_capable``: whether it may become a master candidate, None if that is not told.
    ``storage`` are its storage units; None if they are not known, and ``t_dsk`` and ``f_dsk``
    are then those of the default unit. ``inventories`` are by resource class: of custom classes what the node
    has; of those that Ganeti itself knows only what is reserved counts. ``drained`` and ``powered`` are as
    Ganeti has them, where the source tells; ``powered`` is None for a node without an out-of-band program.
    """

    name: str
    group: str  # uuid
    t_mem: float = 0.0
    n_mem: int = 0
    f_mem: int = 0
    t_dsk: float = 0.0
    f_dsk: int = 0
    t_cpu: float = 0.0
    n_cpu: int = 1
    t_spindles: int = 1
    f_spindles: int = 0
    cpu_speed: float = 1.0
    offline: bool = False
    excl_stor: bool = False
    master: bool = False
    hypervisor: str | None = None
    tags: tuple[str, ...] = ()
    cpu_load: float | None = None
    updating: bool = False
    master_capable: bool | None = None
    storage: tuple[Unit, ...] | None = None
    inventories: Inventories = ()
    drained: bool = False
    powered: bool | None = None


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk of an instance. Its ``unit`` is the cluster's default, unless told.

    ``metavg`` is the volume group of the metadata that a mirrored disk has; None if it is that of the disk.
    """

    size: int
    spindles: int | None = None
    unit: DesiredUnit | None = None
    metavg: str | None = None


def spindles_of(disks: Iterable[Disk]) -> int | None:
    """Spindles of disks together; None if one does not say how many it has."""
    total = 0
    for disk in disks:
        if disk.spindles is None:
            return None
        total += disk.spindles
    return total


@dataclass(frozen=True, slots=True)
class Nic:
    """A network interface; every figure may be unknown. ``network`` is a UUID."""

    mac: str | None = None
    ip: str | None = None
    mode: str | None = None
    link: str | None = None
    bridge: str | None = None
    network: str | None = None


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance, placed or (``pnode`` empty) asked for.

    ``dsk`` is the space its disks take on a node, metadata included; ``snode`` is None without a
    secondary; ``forthcoming`` instances are reservations that do not run yet.
    """

    name: str
    mem: int
    dsk: int
    disks: tuple[Disk, ...]
    vcpus: int
    status: Status = Status.RUNNING
    tags: tuple[str, ...] = ()
    auto_balance: bool = True
    pnode: str = ""
    snode: str | None = None
    template: DiskTemplate = DiskTemplate.DRBD
    spindle_use: int = 1
    nics: tuple[Nic, ...] = ()
    forthcoming: bool = False
    load: Load = field(default=Load())

    @property
    def spindles(self) -> int | None:
        """Spindles of all disks together; None if a disk does not say how many it has."""
        return spindles_of(self.disks)

    @property
    def uses_memory(self) -> bool:
        """Whether it takes memory of its primary node."""
        return not self.forthcoming and self.status.uses_memory

    @property
    def uses_secondary_memory(self) -> bool:
        """Whether memory has to be kept free for it on its secondary node."""
        return self.auto_balance and self.status is not Status.OFFLINE

    @property
    def demand(self) -> Demand:
        """The figures of this instance that an instance policy judges."""
        return Demand(
            self.mem,
            self.vcpus,
            tuple(disk.size for disk in self.disks),
            self.template,
            self.spindle_use,
            self.spindles,
        )


@dataclass(frozen=True, slots=True)
class Cluster:
    """Groups, nodes and instances in input order, which settles ties, and the cluster's own data.

    ``default_units`` are those of disks that do not tell theirs, one for each type whose default is known.
    ``enabled_templates`` are the disk templates that new instances may have, in the cluster's order; None if
    that is not told.
    ``pools`` is the room of pools of which no node tells. ``candidate_pool`` is how many master candidates
    Ganeti wants; None if that is not told. ``standby`` are nodes that do not report any more, as they were
    when they last did, but without their instances; those of which that is known.
    """

    groups: tuple[Group, ...] = ()
    nodes: tuple[Node, ...] = ()
    instances: tuple[Instance, ...] = ()
    tags: tuple[str, ...] = ()
    ipolicy: IPolicy = DEFAULT_IPOLICY
    default_units: tuple[DesiredUnit, ...] = ()
    enabled_templates: tuple[DiskTemplate, ...] | None = None
    pools: tuple[Pool, ...] = ()
    candidate_pool: int | None = None
    standby: tuple[Node, ...] = ()


def check(cluster: Cluster) -> None:
    """Check that references resolve and names are unique. Raises DataError naming the first that fails."""
    groups = _unique("group", [group.uuid for group in cluster.groups])
    nodes = _unique("node", [node.name for node in cluster.nodes])
    _unique("instance", [instance.name for instance in cluster.instances])
    for node in cluster.nodes:
        if node.group not in groups:
            raise DataError(f"Unknown group '{node.group}' for node {node.name}")
    for instance in cluster.instances:
        pnode, snode = instance.pnode, instance.snode
        for name in (pnode, snode):
            if name is not None and name not in nodes:
                raise DataError(f"Unknown node '{name}' for instance {instance.name}")
        if snode == pnode:
            raise DataError(f"Instance {instance.name} has same primary and secondary node - {pnode}")


def _unique(kind: str, names: list[str]) -> set[str]:
    unique = set(names)
    if len(unique) < len(names):
        twice = next(name for row, name in enumerate(names) if name in names[:row])
        raise DataError(f"{kind} '{twice}' appears more than once")
    return unique


def with_loads(cluster: Cluster, loads: Mapping[str, Load]) -> Cluster:
    """The cluster with the utilisation of the named instances replaced; unknown names are ignored."""
    return replace(
        cluster,
        instances=tuple(
            replace(instance, load=loads[instance.name]) if instance.name in loads else instance
            for instance in cluster.instances
        ),
    )


def without_loads(cluster: Cluster) -> Cluster:
    """The cluster with the utilisation of all instances taken to be 0."""
    idle = Load(0.0, 0.0, 0.0, 0.0)
    return replace(cluster, instances=tuple(replace(instance, load=idle) for instance in cluster.instances))


def common_suffix(cluster: Cluster) -> str:
    """The longest domain, with its dot, that all names of nodes and instances end in; or nothing."""
    names = [*(node.name for node in cluster.nodes), *(instance.name for instance in cluster.instances)]
    first = names[0] if names else ""
    domains = (first[start:] for start, letter in enumerate(first) if letter == ".")
    return next((domain for domain in domains if all(name.endswith(domain) for name in names)), "")
