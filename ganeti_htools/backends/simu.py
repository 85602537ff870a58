"""Empty clusters from ``--simulate`` specifications (``htools(1)``)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from ganeti_htools.backends import units, values
from ganeti_htools.model.cluster import Cluster, Group, Node
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import AllocPolicy

T = TypeVar("T")

_FIELDS = "allocation policy, node count, disk, memory, CPUs[, spindles[, exclusive storage]]"
_POLICIES = {
    **{policy.value: policy for policy in AllocPolicy},
    "p": AllocPolicy.PREFERRED,
    "a": AllocPolicy.LAST_RESORT,
    "u": AllocPolicy.UNALLOCABLE,
}
_FLAGS = {"True": True, "False": False}

# Ganeti's default volume group; it has the disk of a simulated node.
DEFAULT_GROUP = DesiredUnit(StorageType.LVM_VG, "xenvg")

# More than any cluster has, so that a typing error does not fill the memory.
_MOST_NODES = 100_000


def parse(specs: Sequence[str]) -> Cluster:
    """One node group for each specification, numbered from 1 in the given order.

    A specification is ``POLICY,NODES,DISK,MEMORY,CPUS[,SPINDLES[,EXCLUSIVE]]``, and, after a ``;`` each,
    storage units of every node, ``TYPE,KEY,SIZE``. Nodes with such units have their disk in the default
    volume group, unless it is 0. The first node of the first group is the master. Ganeti's tools number
    the groups from the last ``--simulate`` on their command line to the first; that order is the caller's
    to make. Raises DataError.
    """
    parts = [_group(index, spec) for index, spec in enumerate(specs, 1)]
    nodes = tuple(node for _, nodes in parts for node in nodes)
    told = any(node.storage is not None for node in nodes) and any(node.t_dsk for node in nodes)
    return Cluster(
        groups=tuple(group for group, _ in parts), nodes=nodes, default_units=(DEFAULT_GROUP,) if told else ()
    )


def _group(index: int, spec: str) -> tuple[Group, list[Node]]:
    figures, told, storage = spec.partition(";")
    fields = figures.split(",")
    if not 5 <= len(fields) <= 7:
        raise DataError(
            f"Invalid cluster specification {values.quote(spec)}: expected {_FIELDS}, separated by commas,"
            f" found {len(fields)} fields"
        )
    policy, count, disk, memory, cpus, spindles, exclusive = *fields, *("1", "False")[len(fields) - 5 :]

    def read(field: str, reader: Callable[[str], T], text: str) -> T:
        return values.read(reader, text, f"Invalid cluster specification {values.quote(spec)}", field)

    group = Group(
        name=f"group-{index:02}",
        uuid=f"fake-uuid-{index:02}",
        alloc_policy=read("allocation policy", lambda text: values.choice(text, _POLICIES), policy),
    )
    dsk, mem = read("disk", values.size, disk), read("memory", values.size, memory)
    node = Node(
        name="",
        group=group.uuid,
        t_mem=float(mem),
        f_mem=mem,
        t_dsk=float(dsk),
        f_dsk=dsk,
        t_cpu=float(read("CPUs", values.whole, cpus)),
        t_spindles=read("spindles", values.whole, spindles),
        excl_stor=read("exclusive storage", lambda text: values.choice(text, _FLAGS), exclusive),
        storage=read("storage", lambda text: _units(dsk, text), storage) if told else None,
    )
    last = read("node count", lambda text: values.whole(text, high=_MOST_NODES), count)
    return group, [
        replace(node, name=f"node-{index:02}-{number:03}", master=(index, number) == (1, 1))
        for number in range(1, last + 1)
    ]


def _units(dsk: int, text: str) -> tuple[Unit, ...]:
    """The units of a node with so much disk (MiB). Raises DataError."""
    default = [Unit(DEFAULT_GROUP, dsk, dsk)] if dsk else []
    return units.check_units((*default, *map(_unit, text.split(";"))))


def _unit(text: str) -> Unit:
    fields = text.split(",")
    if len(fields) != 3:
        raise DataError(f"expected TYPE,KEY,SIZE, not {values.quote(text)}")
    kind, key, size = fields
    unit = units.parse_named_unit(kind, key)
    space = values.read(values.binary_size, size, str(unit), "size")
    return Unit(unit, space, space)
