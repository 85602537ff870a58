"""Rows of the model from the fields of Ganeti's queries, for any protocol."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ganeti_htools.backends import ganeti_storage
from ganeti_htools.backends.fields import MAX_COUNT, Fields
from ganeti_htools.backends.iallocator import ipolicy
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Nic, Node, check
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.ganeti_version import reported_version
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.types import AllocPolicy


def cluster(info: Fields, groups: list[Group], nodes: list[Node], instances: list[Instance]) -> Cluster:
    """Build the cluster; its configuration names the master node and the hypervisor. Raises DataError."""
    master, hypervisor = info.text("master"), info.text("default_hypervisor")
    if not any(node.name == master for node in nodes):
        raise DataError(f"Master node {master} unknown")
    nodes = [_led(node, node.name == master, hypervisor) for node in nodes]
    made = Cluster(
        tuple(groups),
        tuple(nodes),
        tuple(instances),
        info.texts("tags"),
        ipolicy(info.object("ipolicy")),
        ganeti_storage.default_units(info),
        ganeti_storage.enabled_templates(info),
        candidate_pool=info.count("candidate_pool_size") if info.has("candidate_pool_size") else None,
        ganeti=reported_version(info.text("software_version")) if info.has("software_version") else None,
        iallocator=info.text("default_iallocator") if info.has("default_iallocator") else "",
        iallocator_options=_iallocator_options(info),
    )
    check(made)
    return made


def _iallocator_options(info: Fields) -> PlacementOptions:
    """Read the parameters with which Ganeti calls the iallocator; ``hail(1)`` has their meaning."""
    key = "default_iallocator_params"
    given = info.object(key).values if info.has(key) else {}
    nodes = given.get("restrict-allocation-to")
    return PlacementOptions(
        capacity="no-capacity-checks" not in given,
        accept_existing="accept-existing-errors" in given,
        ignore_soft_errors="ignore-soft-errors" in given,
        restrict_to=tuple(str(nodes).split(",")) if nodes else None,
        inter_group="inter-group" in given,
    )


def _led(node: Node, master: bool, hypervisor: str) -> Node:
    if (node.master, node.hypervisor) == (master, hypervisor):
        return node
    return replace(node, master=master, hypervisor=hypervisor)


def group(fields: Fields) -> Group:
    """Read a node group, without its networks: see :func:`with_networks`."""
    return Group(
        fields.text("name"),
        fields.text("uuid"),
        fields.choice("alloc_policy", AllocPolicy),
        ipolicy=ipolicy(fields.object("ipolicy")),
        tags=fields.texts("tags"),
        metavg=ganeti_storage.metavg(fields),
        rbd_pool=ganeti_storage.rbd_pool(fields),
    )


def networks(described: Iterable[Fields]) -> dict[str, tuple[str, ...]]:
    """Return the networks (UUIDs) that each group is connected to, by the group's name."""
    found: dict[str, tuple[str, ...]] = {}
    for fields in described:
        uuid, groups = fields.text("uuid"), fields.value("group_list")
        if not isinstance(groups, list):
            raise fields.wrong("group_list", "[(String, String, String, String)]", "a list of connections")
        for connection in groups:
            match connection:
                case [str(name), *_]:
                    found[name] = (*found.get(name, ()), uuid)
                case _:
                    raise fields.wrong("group_list", "(String, String, String, String)", "names of groups")
    return found


def with_networks(group: Group, networks: Mapping[str, tuple[str, ...]]) -> Group:
    """Return the group with its :func:`networks`; the same object if nothing changes."""
    found = networks.get(group.name, ())
    return group if group.networks == found else replace(group, networks=found)


def nics(fields: Fields) -> tuple[Nic, ...]:
    """Read the interfaces of an instance that are connected to networks."""
    networks = fields.value("nic.networks")
    if not isinstance(networks, list) or not all(isinstance(each, str | None) for each in networks):
        raise fields.wrong("nic.networks", "[Maybe String]", "a list of networks, each of them or null")
    return tuple(Nic(network=network) for network in networks if network is not None)


def node(fields: Fields, group: str, exclusive: bool, spindles: int, cpu_speed: float = 1.0) -> Node:
    """Read a node of a group.

    The sources differ in where node parameters are, so they are arguments. With exclusive storage the
    reported spindles replace ``spindles``.
    """

    def flag(key: str) -> bool | None:
        return fields.boolean(key) if fields.has(key) else None

    # Only nodes that run instances report their figures.
    capable = flag("vm_capable") is not False
    live = not fields.boolean("offline") and capable
    drained = fields.boolean("drained")
    found = Node(
        fields.text("name"),
        group,
        n_cpu=0,
        t_spindles=spindles,
        cpu_speed=cpu_speed,
        offline=drained or not live,
        excl_stor=exclusive,
        tags=fields.texts("tags"),
        drained=drained,
        silent=flag("silent") or False,
        powered=flag("powered"),
        master_capable=flag("master_capable"),
        master_candidate=flag("master_candidate"),
        uuid=fields.text("uuid") if fields.has("uuid") else "",
    )
    return _with_live(found, fields) if live else found


def _with_live(node: Node, fields: Fields) -> Node:
    """Return the node with its reported figures; without local storage it reports no disk."""
    return replace(
        node,
        t_mem=fields.number("mtotal"),
        n_mem=fields.integer("mnode"),
        f_mem=fields.free("mfree"),
        t_dsk=fields.number("dtotal") if fields.has("dtotal") else 0.0,
        f_dsk=fields.free("dfree") if fields.has("dfree") else 0,
        t_cpu=fields.number("ctotal"),
        n_cpu=fields.count("cnos"),
        t_spindles=fields.count("sptotal") if node.excl_stor else node.t_spindles,
        f_spindles=fields.free("spfree") if fields.has("spfree") else 0,
    )


def disks(fields: Fields) -> tuple[Disk, ...]:
    sizes, spindles = fields.value("disk.sizes"), fields.value("disk.spindles")
    for key, values in (("disk.sizes", sizes), ("disk.spindles", spindles)):
        if not isinstance(values, list):
            raise fields.wrong(key, "[Int]", "a list of whole numbers")
    return tuple(_disk(fields.owner, pair) for pair in zip(sizes, spindles, strict=False))


def _disk(owner: str, values: tuple[Any, Any]) -> Disk:
    disk = Fields(owner, dict(zip(("disk.sizes", "disk.spindles"), values, strict=True)))
    spindles = disk.integer("disk.spindles", high=MAX_COUNT) if disk.has("disk.spindles") else None
    return Disk(disk.integer("disk.sizes"), spindles)
