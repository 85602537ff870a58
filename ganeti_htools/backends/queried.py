"""Rows of the model from fields as Ganeti's queries name them, whatever protocol they came by."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ganeti_htools.backends import storage
from ganeti_htools.backends.fields import MAX_COUNT, Fields
from ganeti_htools.backends.iallocator import ipolicy
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Nic, Node, check
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.types import AllocPolicy


def cluster(info: Fields, groups: list[Group], nodes: list[Node], instances: list[Instance]) -> Cluster:
    """The cluster; its own configuration tells which node is master, and the hypervisor. Raises DataError."""
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
        storage.default_units(info),
        storage.enabled_templates(info),
        candidate_pool=info.count("candidate_pool_size") if info.has("candidate_pool_size") else None,
    )
    check(made)
    return made


def _led(node: Node, master: bool, hypervisor: str) -> Node:
    if (node.master, node.hypervisor) == (master, hypervisor):
        return node
    return replace(node, master=master, hypervisor=hypervisor)


def group(fields: Fields) -> Group:
    """A node group. Queries for groups do not tell its networks: see :func:`connected`."""
    return Group(
        fields.text("name"),
        fields.text("uuid"),
        fields.choice("alloc_policy", AllocPolicy),
        ipolicy=ipolicy(fields.object("ipolicy")),
        tags=fields.texts("tags"),
        metavg=storage.metavg(fields),
        rbd_pool=storage.rbd_pool(fields),
    )


def networks(described: Iterable[Fields]) -> dict[str, tuple[str, ...]]:
    """The networks (UUIDs) to which each group is connected, by the group's name."""
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


def connected(group: Group, networks: Mapping[str, tuple[str, ...]]) -> Group:
    """The group with its :func:`networks`; the same object if they are the same."""
    found = networks.get(group.name, ())
    return group if group.networks == found else replace(group, networks=found)


def nics(fields: Fields) -> tuple[Nic, ...]:
    """The interfaces of an instance that are connected to networks."""
    networks = fields.value("nic.networks")
    if not isinstance(networks, list) or not all(isinstance(each, str | None) for each in networks):
        raise fields.wrong("nic.networks", "[Maybe String]", "a list of networks, each of them or null")
    return tuple(Nic(network=network) for network in networks if network is not None)


def live(fields: Fields) -> bool:
    """Whether a node runs instances, and so reports its figures."""
    return not fields.boolean("offline") and (not fields.has("vm_capable") or fields.boolean("vm_capable"))


def master_capable(fields: Fields) -> bool | None:
    """Whether a node may become a master candidate; None if that is not told."""
    return fields.boolean("master_capable") if fields.has("master_capable") else None


def with_live(node: Node, fields: Fields) -> Node:
    """The node with what it reports; without local storage it reports no disk."""
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
    """The disks of an instance."""
    sizes, spindles = fields.value("disk.sizes"), fields.value("disk.spindles")
    for key, values in (("disk.sizes", sizes), ("disk.spindles", spindles)):
        if not isinstance(values, list):
            raise fields.wrong(key, "[Int]", "a list of whole numbers")
    return tuple(_disk(fields.owner, pair) for pair in zip(sizes, spindles, strict=False))


def _disk(owner: str, values: tuple[Any, Any]) -> Disk:
    disk = Fields(owner, dict(zip(("disk.sizes", "disk.spindles"), values, strict=True)))
    spindles = disk.integer("disk.spindles", high=MAX_COUNT) if disk.has("disk.spindles") else None
    return Disk(disk.integer("disk.sizes"), spindles)
