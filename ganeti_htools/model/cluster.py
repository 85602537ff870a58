"""Immutable rows of a cluster, exactly as its sources describe them.

Backends read and write these rows; :mod:`ganeti_htools.model.derive` computes columns from them. Sizes are
MiB. Rows refer to each other by name, so a row stays valid in any cluster.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from ganeti_htools.model.errors import DataError
from ganeti_htools.model.ganeti_version import GanetiVersion
from ganeti_htools.model.inventory import Inventories, Inventory
from ganeti_htools.model.load import LoadProfile, PresentLoad
from ganeti_htools.model.node_state import NodeState
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.policy import DEFAULT_IPOLICY, Demand, IPolicy
from ganeti_htools.model.storage import DesiredUnit, Pool, Unit
from ganeti_htools.model.tags import MAINTENANCE, standby
from ganeti_htools.model.types import AllocPolicy, DiskTemplate, Status

# Inventories that administrators set for pools; sizes are MiB.
PoolSettings = tuple[tuple[DesiredUnit, Inventory], ...]

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

    ``rbd_pool`` is the pool of new RBD disks and ``metavg`` the volume group of new DRBD metadata, unless a
    disk names its own. Both are None if unknown.
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
    """A node. ``offline`` includes drained, not vm_capable and without live data.

    ``t_`` are totals, ``f_`` free amounts, ``n_`` the use of the node's own system. ``updating``: these
    figures may be older than the node's instances. ``cpu_load`` is None unless a monitor measured it.
    ``master_capable`` and ``master_candidate`` are None if unknown.

    ``storage`` are the node's storage units. It is None if they are unknown; ``t_dsk`` and ``f_dsk`` then
    describe the default unit. ``inventories`` are by resource class: the whole inventory of a custom class,
    only the reserved amount of a class that Ganeti counts.

    ``drained`` and ``powered`` are Ganeti's flags, if the source has them. ``powered`` is None for a node
    without an out-of-band program. ``silent``: it is in use but does not report, so it counts as offline.
    ``uuid`` is empty if the source does not have it.
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
    silent: bool = False
    powered: bool | None = None
    uuid: str = ""
    master_candidate: bool | None = None

    @property
    def in_maintenance(self) -> bool:
        """Whether an administrator works on the node."""
        return MAINTENANCE in self.tags

    @property
    def closed(self) -> bool:
        """Whether the node takes no instances: it is offline or in maintenance."""
        return self.offline or self.in_maintenance

    @property
    def state(self) -> NodeState:
        """Why the node takes no instances. What an administrator has set goes before what was observed."""
        if self.in_maintenance or self.drained:
            return NodeState.MAINTENANCE if self.in_maintenance else NodeState.DRAINED
        if self.silent or not self.offline:
            return NodeState.SILENT if self.silent else NodeState.IN_USE
        return NodeState.STANDBY if standby(self.tags) else NodeState.OFFLINE


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk of an instance. ``unit`` is None for the cluster's default unit.

    ``metavg`` is the volume group of a mirrored disk's metadata; None if data and metadata share a group.
    """

    size: int
    spindles: int | None = None
    unit: DesiredUnit | None = None
    metavg: str | None = None


def spindles_of(disks: Iterable[Disk]) -> int | None:
    """Return the total spindles of disks; None if any disk's spindles are unknown."""
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
    """An instance: placed, or requested (``pnode`` is empty).

    ``dsk`` is the disk space used on each node, metadata included (MiB). ``snode`` is None without a
    secondary. ``forthcoming`` instances are reservations and do not run yet. ``uuid`` is empty if the source
    does not have it.
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
    uuid: str = field(default="", compare=False)

    @property
    def spindles(self) -> int | None:
        """Total spindles of all disks; None if any disk's spindles are unknown."""
        return spindles_of(self.disks)

    @property
    def uses_memory(self) -> bool:
        """Whether the instance takes memory of its primary node."""
        return not self.forthcoming and self.status.uses_memory

    @property
    def uses_secondary_memory(self) -> bool:
        """Whether the secondary node keeps memory free for the instance."""
        return self.auto_balance and self.status is not Status.OFFLINE

    @property
    def demand(self) -> Demand:
        """The figures of this instance that instance policies limit."""
        return Demand(
            self.mem,
            self.vcpus,
            tuple([disk.size for disk in self.disks]),
            self.template,
            self.spindle_use,
            self.spindles,
        )


@dataclass(frozen=True, slots=True)
class Cluster:
    """Groups, nodes and instances, and the cluster's own settings. Input order breaks ties.

    ``default_units`` are the units of disks without a named unit, one for each known storage type.
    ``enabled_templates`` are the disk templates of new instances, in the cluster's order; None if unknown.
    ``pools`` has the sizes of pools that no node reports. ``pool_settings`` are the inventories that
    administrators set for pools: reserved amounts, and limits of the amount of one instance.
    ``candidate_pool`` is the number of master candidates that Ganeti wants, and ``ganeti`` is its version;
    None if unknown. ``iallocator`` is the default one, empty without one; Ganeti calls it with
    ``iallocator_options``.

    ``standby`` has nodes that stopped reporting, with their last figures and without their instances.
    ``moving`` has instances on the nodes to which they will move; only rules of tags look at it.
    ``load_profiles`` are the measured loads by instance name; None if measured load does not count.
    ``present_load`` is for policies; None if no load is measured.
    """

    groups: tuple[Group, ...] = ()
    nodes: tuple[Node, ...] = ()
    instances: tuple[Instance, ...] = ()
    tags: tuple[str, ...] = ()
    ipolicy: IPolicy = DEFAULT_IPOLICY
    default_units: tuple[DesiredUnit, ...] = ()
    enabled_templates: tuple[DiskTemplate, ...] | None = None
    pools: tuple[Pool, ...] = ()
    pool_settings: PoolSettings = ()
    candidate_pool: int | None = None
    standby: tuple[Node, ...] = ()
    moving: tuple[Instance, ...] = ()
    load_profiles: Mapping[str, LoadProfile] | None = None
    present_load: PresentLoad | None = None
    ganeti: GanetiVersion | None = None
    iallocator: str = ""
    iallocator_options: PlacementOptions = field(default_factory=PlacementOptions)


def silent_nodes(cluster: Cluster, groups: Collection[str]) -> tuple[str, ...]:
    """Return the nodes that are in use and do not report, and concern these node groups (names).

    Those are their nodes, and the other nodes of instances in two groups.
    """
    silent = {node.name for node in cluster.nodes if node.silent}
    if not silent:
        return ()
    uuids = {group.uuid for group in cluster.groups if group.name in groups}
    own = {node.name for node in cluster.nodes if node.group in uuids}
    others = {each.snode for each in cluster.instances if each.pnode in own}
    others |= {each.pnode for each in cluster.instances if each.snode in own}
    return tuple(node.name for node in cluster.nodes if node.name in silent & (own | others))


def template_not_enabled(cluster: Cluster, template: DiskTemplate) -> str | None:
    """Describe that a cluster does not enable a disk template for new instances; None if it does."""
    enabled = cluster.enabled_templates
    if enabled is None or template in enabled:
        return None
    allowed = ", ".join(each.value for each in enabled)
    return f"Disk template {template.value} is not enabled; the cluster enables {allowed}"


def check(cluster: Cluster) -> None:
    """Check that references resolve and names are unique. Raises DataError naming the first failure."""
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
    """Return the cluster with the utilisation of the named instances replaced. Unknown names are ignored."""
    return replace(
        cluster,
        instances=tuple(
            replace(instance, load=loads[instance.name]) if instance.name in loads else instance
            for instance in cluster.instances
        ),
    )


def without_loads(cluster: Cluster) -> Cluster:
    """Return the cluster with the utilisation of all instances set to 0."""
    idle = Load(0.0, 0.0, 0.0, 0.0)
    return replace(cluster, instances=tuple(replace(instance, load=idle) for instance in cluster.instances))


def common_suffix(cluster: Cluster) -> str:
    """Return the longest domain, with its dot, that ends the names of all nodes and instances; or ""."""
    names = [*(node.name for node in cluster.nodes), *(instance.name for instance in cluster.instances)]
    first = names[0] if names else ""
    domains = (first[start:] for start, letter in enumerate(first) if letter == ".")
    return next((domain for domain in domains if all(name.endswith(domain) for name in names)), "")
