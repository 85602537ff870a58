"""Resources that instances take of nodes, and their limits: one entry for each resource.

A new resource is one entry in :func:`resources`, beside its columns. Each storage unit is a resource. Limits
are checked in the order of the entries. If several limits are broken, the first one is reported. The rules
are those of Ganeti's htools (``Node.hs``; ``hbal(1)``).
"""

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.rules.class_limits import class_limits, kept_limits, own_limits_of
from ganeti_htools.engine.rules.limits import (
    ABOVE,
    AT_LEAST,
    AT_MOST,
    BOTH,
    MIB,
    PRIMARY,
    SECONDARY,
    Limit,
    NodeRole,
)
from ganeti_htools.engine.rules.storage_limits import default_group, disk_limits, pool_limits, reserved_room
from ganeti_htools.model.columns import (
    SINGLE,
    Columns,
    Shape,
    columns_type,
    forthcoming,
    of_class,
    of_load,
    of_unit,
)
from ganeti_htools.model.state import RequestedInstance
from ganeti_htools.model.types import Fail


@lru_cache(maxsize=32)
def views(shape: Shape) -> dict[str, str]:
    """Map each figure to the one that includes forthcoming instances."""
    return forthcoming(shape) | {"unallocated": "f_mem_forth"}


class InstanceOnNode(NamedTuple):
    """An instance that comes to a node or leaves it, with what depends on the node's other instances.

    * ``conflicts``: the number of its exclusion tags that other primaries of the node have.
    * ``location``: its location score and unmet desired locations on the node.
    * ``reserved`` (MiB), of a secondary: what the node keeps free. When the instance comes: for all instances
      with this primary. When it leaves: for all remaining instances.
    * ``kept`` is the same for each custom class, None for classes that the instance does not use.
    """

    asked: RequestedInstance
    conflicts: Any = 0
    location: Any = 0
    reserved: Any = 0
    kept: Sequence[Any] = ()


def _added(_columns: Columns, used: Any, amount: Any, sign: int) -> Any:
    return used + amount if sign > 0 else used - amount


def _counted(_columns: Columns, number: Any, amount: Any, sign: int) -> Any:
    """Count what the instance adds; the same object if that is nothing."""
    return number if type(amount) is int and amount == 0 else _added(_columns, number, amount, sign)


def _taken(_columns: Columns, free: Any, amount: Any, sign: int) -> Any:
    return free - amount if sign > 0 else free + amount


def _disk_taken(_columns: Columns, free: Any, amount: Any, sign: int) -> Any:
    """Compute free disk space, or the free amount of a custom class; the same object if nothing is taken."""
    return free if type(amount) is int and amount == 0 else _taken(_columns, free, amount, sign)


@lru_cache(maxsize=32)
def _unit_taken(unit: int) -> Callable[[Columns, Any, Any, int], Any]:
    """Compute free space of a storage unit; nodes without the unit do not change."""
    whole = of_unit("t_dsk", unit)

    def after(columns: Columns, free: Any, amount: Any, sign: int) -> Any:
        new = _disk_taken(columns, free, amount, sign)
        return free if new is free else np.where(getattr(columns, whole) > 0, new, free)

    return after


def _spindles(columns: Columns, free: Any, amount: Any, sign: int) -> Any:
    """Compute free spindles, which count 0 without exclusive storage.

    With exclusive storage, an instance without a known number of spindles cannot come (-1), and gives nothing
    back.
    """
    if amount is not None:
        free = _taken(columns, free, amount, sign)
    elif sign > 0:
        free = np.full_like(free, -1)
    return np.where(columns.excl_stor, free, 0)


def _reserved(_columns: Columns, r_mem: Any, amount: Any, sign: int) -> Any:
    """Compute what a node keeps free for the worst of its peers; a departure states what remains."""
    return np.maximum(r_mem, amount) if sign > 0 else np.full_like(r_mem, amount)


def _reserved_of_class(_columns: Columns, kept: Any, amount: Any, sign: int) -> Any:
    """Compute what a node keeps free of a custom class; the same object if the instance takes nothing."""
    return kept if amount is None else _reserved(_columns, kept, amount, sign)


class Resource(NamedTuple):
    """A column that changes when an instance comes (sign 1) or leaves (-1), and its limits.

    * ``amount`` is the change, computed from the columns and the instance.
    * ``after`` computes the new column from the columns, this column, the amount and the sign.
    * Forthcoming instances change the column's view that includes them. With ``everyone`` they change this
      column, otherwise nothing.
    """

    figure: str
    roles: tuple[NodeRole, ...]
    amount: Callable[[Columns, InstanceOnNode], Any]
    after: Callable[[Columns, Any, Any, int], Any] = _added
    limits: tuple[Limit, ...] = ()
    everyone: bool = False

    @property
    def is_sum(self) -> bool:
        """Whether instances add amounts to the column, or take them, whatever else the node has."""
        return self.after in (_added, _counted, _taken, _disk_taken)

    def views(self, shape: Shape, forthcoming: bool) -> tuple[str, ...]:
        """Find the columns that an instance changes."""
        view = views(shape).get(self.figure)
        if view is not None:
            return (view,) if forthcoming else (self.figure, view)
        return (self.figure,) if self.everyone or not forthcoming else ()


MEMORY = Limit(Fail.MEM, "unallocated", ABOVE, roles=(PRIMARY,), thing="memory", unit=MIB)
SPINDLES = Limit(
    Fail.SPINDLES, "f_spindles", AT_LEAST, of=0, applies=lambda old: old.excl_stor, thing="spindles"
)
SPINDLE_RATIO = Limit(
    Fail.DISK,
    "inst_spindles",
    AT_MOST,
    lambda old, _new, _asked: old.hi_spindles,
    soft=True,
    of=0,
    thing="spindles by the policy's ratio",
)
KEPT_MEMORY = Limit(
    Fail.MEM,
    "unallocated",
    ABOVE,
    lambda _old, _new, asked: asked.secondary_mem,
    (SECONDARY,),
    soft=True,
    thing="memory to be kept free on a secondary",
    unit=MIB,
)
# N+1: memory that a node keeps free for its peers. A node that fails already may go on failing.
RESERVE = Limit(
    Fail.MEM,
    "unallocated",
    ABOVE,
    lambda _old, new, _asked: new.r_mem,
    soft=True,
    applies=lambda old: ~old.fail_n1,
    settled=True,
)
CPU_RATIO = Limit(
    Fail.CPU,
    "u_cpu",
    AT_MOST,
    lambda old, _new, _asked: old.vcpu_ratio,
    (PRIMARY,),
    soft=True,
    applies=lambda old: old.vcpu_ratio >= 0,
    per="t_cpu",
    thing="virtual CPUs by the policy's ratio",
)
TAGS = Limit(Fail.TAGS, "conflicts", AT_MOST, lambda old, _new, _asked: old.conflicts, (PRIMARY,), soft=True)


def _spindle_use(columns: Columns, change: InstanceOnNode) -> Any:
    if not np.count_nonzero(columns.excl_stor):
        return 1.0 * change.asked.spindle_use
    return np.where(columns.excl_stor, 0.0, 1.0 * change.asked.spindle_use)


def _disk(shape: Shape, unit: int) -> Resource:
    return Resource(
        of_unit("f_dsk", unit),
        BOTH,
        lambda _c, change: change.asked.disk[unit],
        _unit_taken(unit) if shape.reported else _disk_taken,
        (
            *(limit for limit in disk_limits(shape) if limit.of == unit),
            reserved_room(shape, unit),
            *own_limits_of(shape, Fail.DISK, unit),
        ),
    )


def _class(shape: Shape, which: int) -> tuple[Resource, Resource]:
    """Declare a custom class: the free amount, and what is kept free for instances whose primary may fail."""
    return (
        Resource(
            of_class("f", which),
            (PRIMARY,),
            lambda _c, change: change.asked.classes[which],
            _disk_taken,
            class_limits(shape, which),
        ),
        Resource(
            of_class("r", which),
            (SECONDARY,),
            lambda _c, change: change.kept[which],
            _reserved_of_class,
            kept_limits(shape, which),
        ),
    )


def _load(which: int, kind: str) -> Resource:
    """Declare a kind of measured load. Both nodes of an instance write to its disks."""
    roles = BOTH if kind == "dsk" else (PRIMARY,)
    return Resource(of_load("hours", kind), roles, lambda _c, change: change.asked.hours[which])


@lru_cache(maxsize=32)
def resources(shape: Shape) -> tuple[Resource, ...]:
    memory, vcpus, spindles = (own_limits_of(shape, fail) for fail in (Fail.MEM, Fail.CPU, Fail.SPINDLES))
    return (
        Resource("i_mem", (PRIMARY,), lambda _c, change: change.asked.record_mem, limits=(MEMORY, *memory)),
        Resource("f_mem_forth", (PRIMARY,), lambda _c, change: change.asked.mem, _taken, everyone=True),
        *(_disk(shape, unit) for unit in range(len(shape.units))),
        Resource(
            "f_spindles", BOTH, lambda _c, change: change.asked.spindles, _spindles, (SPINDLES, *spindles)
        ),
        Resource("inst_spindles", BOTH, _spindle_use, limits=(SPINDLE_RATIO,)),
        Resource(
            "r_mem", (SECONDARY,), lambda _c, change: change.reserved, _reserved, (KEPT_MEMORY, RESERVE)
        ),
        Resource("u_cpu", (PRIMARY,), lambda _c, change: change.asked.vcpus, limits=(CPU_RATIO, *vcpus)),
        Resource(
            "conflicts", (PRIMARY,), lambda _c, change: change.conflicts, _counted, (TAGS,), everyone=True
        ),
        Resource("load_cpu", (PRIMARY,), lambda _c, change: change.asked.row.load.cpu),
        Resource("load_mem", (PRIMARY,), lambda _c, change: change.asked.row.load.mem),
        Resource("load_dsk", BOTH, lambda _c, change: change.asked.row.load.dsk),
        Resource("load_net", (PRIMARY,), lambda _c, change: change.asked.row.load.net),
        Resource("primaries", (PRIMARY,), lambda _c, _change: 1),
        Resource("secondaries", (SECONDARY,), lambda _c, _change: 1),
        Resource("location", (PRIMARY,), lambda _c, change: change.location, _counted),
        *(each for which in range(len(shape.classes)) for each in _class(shape, which)),
        *(_load(which, kind) for which, kind in enumerate(shape.load)),
    )


@lru_cache(maxsize=32)
def declared_limits(shape: Shape) -> tuple[Limit, ...]:
    """Collect all limits of a cluster, in the order of their checks."""
    of_resources = (limit for resource in resources(shape) for limit in resource.limits)
    group = (default_group(shape),) if shape.reported else ()
    return (*pool_limits(shape), *of_resources, *group)


def check_declared(declared: tuple[Resource, ...], shape: Shape) -> None:
    """Check that every changing column is declared once, except ``fail_n1``, which follows from others.

    Raises ValueError with the names of the other columns.
    """
    figures = [figure for resource in declared for figure in resource.views(shape, forthcoming=False)]
    changing = set(columns_type(shape).changing())
    expected = changing - {"fail_n1"}
    wrong = {name for name in {*changing, *figures} if figures.count(name) != (name in expected)}
    if wrong:
        raise ValueError(f"no resource of its own declares: {', '.join(sorted(wrong))}")


check_declared(resources(SINGLE), SINGLE)
(DISK,) = disk_limits(SINGLE)
RESOURCES = resources(SINGLE)
LIMITS = declared_limits(SINGLE)
VIEWS = views(SINGLE)


def check_hard(known: Collection[Limit], place: str) -> None:
    """Check that a module which restates the hard limits for speed knows all of them.

    Raises ValueError with the figures of unknown limits.
    """
    unknown = [limit.figure for limit in LIMITS if not limit.soft and limit not in known]
    if unknown:
        raise ValueError(f"{place} does not know the limits of {', '.join(unknown)}")
