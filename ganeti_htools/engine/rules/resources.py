"""What instances take of nodes, and what limits that: one entry for each resource.

A new resource is one entry in :func:`resources`, beside its columns. Each storage unit is one. The order of
the entries is the order in which limits are looked at; so it decides which reason is told where several speak
against a node. The rules are those of Ganeti's htools (``Node.hs``; ``hbal(1)``).
"""

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.rules.class_limits import class_limits, kept_limits
from ganeti_htools.engine.rules.limits import (
    ABOVE,
    AT_LEAST,
    AT_MOST,
    BOTH,
    MIB,
    PRIMARY,
    SECONDARY,
    Limit,
    Role,
)
from ganeti_htools.engine.rules.storage_limits import default_group, disk_limits, pool_limits, reserved_room
from ganeti_htools.model.columns import SINGLE, Columns, Shape, columns_type, forthcoming, of_class, of_unit
from ganeti_htools.model.state import RequestedInstance
from ganeti_htools.model.types import Fail


@lru_cache(maxsize=32)
def views(shape: Shape) -> dict[str, str]:
    """For each figure, the one that includes forthcoming instances."""
    return forthcoming(shape) | {"unallocated": "f_mem_forth"}


class InstanceOnNode(NamedTuple):
    """An instance that comes to a node or goes from it, with what the node's other instances make of it.

    ``conflicts``: how many of its exclusion tags other primaries of the node have. ``location``: its location
    score and unmet desired locations there. ``reserved`` (MiB), of a secondary: what the node keeps free for
    all instances with this primary when it comes; for all its instances once it is gone. ``kept`` is the same
    of each custom class, None of those of which the instance takes nothing.
    """

    asked: RequestedInstance
    conflicts: Any = 0
    location: Any = 0
    reserved: Any = 0
    kept: Sequence[Any] = ()


def _added(_columns: Columns, used: Any, amount: Any, sign: int) -> Any:
    return used + amount if sign > 0 else used - amount


def _taken(_columns: Columns, free: Any, amount: Any, sign: int) -> Any:
    return free - amount if sign > 0 else free + amount


def _disk_taken(_columns: Columns, free: Any, amount: Any, sign: int) -> Any:
    """Free disk space, or what is free of a custom class. It is the same object where nothing is taken: most
    units and classes are not concerned.
    """
    return free if type(amount) is int and amount == 0 else _taken(_columns, free, amount, sign)


@lru_cache(maxsize=32)
def _unit_taken(unit: int) -> Callable[[Columns, Any, Any, int], Any]:
    """Free space of a storage unit; what an instance has on a node without the unit leaves nothing there."""
    whole = of_unit("t_dsk", unit)

    def after(columns: Columns, free: Any, amount: Any, sign: int) -> Any:
        new = _disk_taken(columns, free, amount, sign)
        return free if new is free else np.where(getattr(columns, whole) > 0, new, free)

    return after


def _spindles(columns: Columns, free: Any, amount: Any, sign: int) -> Any:
    """Free spindles count 0 without exclusive storage. With it, an instance that does not say how many it
    needs cannot come (-1) and gives nothing back.
    """
    if amount is not None:
        free = _taken(columns, free, amount, sign)
    elif sign > 0:
        free = np.full_like(free, -1)
    return np.where(columns.excl_stor, free, 0)


def _reserved(_columns: Columns, r_mem: Any, amount: Any, sign: int) -> Any:
    """A node keeps free what the worst of its peers needs, so what is left must be known when one goes."""
    return np.maximum(r_mem, amount) if sign > 0 else np.full_like(r_mem, amount)


def _kept(_columns: Columns, kept: Any, amount: Any, sign: int) -> Any:
    """What a node keeps free of a custom class, the same object if the instance takes nothing of it."""
    return kept if amount is None else _reserved(_columns, kept, amount, sign)


class Resource(NamedTuple):
    """A column that changes when an instance comes (sign 1) or goes (-1), and its limits.

    ``amount`` is by how much, from the columns and the instance; ``after`` makes the column after of the
    columns, this one, the amount and the sign. Forthcoming instances change the column's other view, or with
    ``everyone`` this one, or none.
    """

    figure: str
    roles: tuple[Role, ...]
    amount: Callable[[Columns, InstanceOnNode], Any]
    after: Callable[[Columns, Any, Any, int], Any] = _added
    limits: tuple[Limit, ...] = ()
    everyone: bool = False

    @property
    def is_sum(self) -> bool:
        """Whether instances add amounts to the column, or take them, whatever else is there."""
        return self.after in (_added, _taken, _disk_taken)

    def views(self, shape: Shape, forthcoming: bool) -> tuple[str, ...]:
        """The columns that an instance changes."""
        view = views(shape).get(self.figure)
        if view is not None:
            return (view,) if forthcoming else (self.figure, view)
        return (self.figure,) if self.everyone or not forthcoming else ()


MEMORY = Limit(Fail.MEM, "unallocated", ABOVE, roles=(PRIMARY,), thing="memory", unit=MIB)
SPINDLES = Limit(
    Fail.SPINDLES,
    "f_spindles",
    AT_LEAST,
    of=0,
    applies=lambda old: old.excl_stor,
    thing="spindles",
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
# N+1: what a node keeps free for its peers. One that fails already may go on failing.
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
    return np.where(columns.excl_stor, 0.0, 1.0 * change.asked.spindle_use)


def _disk(shape: Shape, unit: int) -> Resource:
    return Resource(
        of_unit("f_dsk", unit),
        BOTH,
        lambda _c, change: change.asked.disk[unit],
        _unit_taken(unit) if shape.told else _disk_taken,
        (*(limit for limit in disk_limits(shape) if limit.of == unit), reserved_room(shape, unit)),
    )


def _class(shape: Shape, which: int) -> tuple[Resource, Resource]:
    """A custom class: what is free of it, and what is kept free for instances whose primary may fail."""
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
            _kept,
            kept_limits(shape, which),
        ),
    )


@lru_cache(maxsize=32)
def resources(shape: Shape) -> tuple[Resource, ...]:
    """The resources of a cluster."""
    return (
        Resource("i_mem", (PRIMARY,), lambda _c, change: change.asked.record_mem, limits=(MEMORY,)),
        Resource("f_mem_forth", (PRIMARY,), lambda _c, change: change.asked.mem, _taken, everyone=True),
        *(_disk(shape, unit) for unit in range(len(shape.units))),
        Resource("f_spindles", BOTH, lambda _c, change: change.asked.spindles, _spindles, limits=(SPINDLES,)),
        Resource("inst_spindles", BOTH, _spindle_use, limits=(SPINDLE_RATIO,)),
        Resource(
            "r_mem", (SECONDARY,), lambda _c, change: change.reserved, _reserved, (KEPT_MEMORY, RESERVE)
        ),
        Resource("u_cpu", (PRIMARY,), lambda _c, change: change.asked.vcpus, limits=(CPU_RATIO,)),
        Resource("conflicts", (PRIMARY,), lambda _c, change: change.conflicts, limits=(TAGS,), everyone=True),
        Resource("load_cpu", (PRIMARY,), lambda _c, change: change.asked.row.load.cpu),
        Resource("load_mem", (PRIMARY,), lambda _c, change: change.asked.row.load.mem),
        Resource("load_dsk", BOTH, lambda _c, change: change.asked.row.load.dsk),
        Resource("load_net", (PRIMARY,), lambda _c, change: change.asked.row.load.net),
        Resource("primaries", (PRIMARY,), lambda _c, _change: 1),
        Resource("secondaries", (SECONDARY,), lambda _c, _change: 1),
        Resource("location", (PRIMARY,), lambda _c, change: change.location),
        *(each for which in range(len(shape.classes)) for each in _class(shape, which)),
    )


@lru_cache(maxsize=32)
def declared_limits(shape: Shape) -> tuple[Limit, ...]:
    """All limits of a cluster, in the order they are looked at."""
    of_resources = (limit for resource in resources(shape) for limit in resource.limits)
    group = (default_group(shape),) if shape.told else ()
    return (*pool_limits(shape), *of_resources, *group)


def check(declared: tuple[Resource, ...], shape: Shape) -> None:
    """Every column that placements change is declared once, but for ``fail_n1``, which follows from others.

    Raises ValueError naming those that are not.
    """
    figures = [figure for resource in declared for figure in resource.views(shape, forthcoming=False)]
    changing = set(columns_type(shape).changing())
    expected = changing - {"fail_n1"}
    wrong = {name for name in {*changing, *figures} if figures.count(name) != (name in expected)}
    if wrong:
        raise ValueError(f"no resource of its own declares: {', '.join(sorted(wrong))}")


check(resources(SINGLE), SINGLE)
(DISK,) = disk_limits(SINGLE)
RESOURCES = resources(SINGLE)
LIMITS = declared_limits(SINGLE)
VIEWS = views(SINGLE)


def check_hard(known: Collection[Limit], place: str) -> None:
    """For a place that restates the hard limits for speed: it must know all of them.

    Raises ValueError naming the figures of those that it does not know.
    """
    unknown = [limit.figure for limit in LIMITS if not limit.soft and limit not in known]
    if unknown:
        raise ValueError(f"{place} does not know the limits of {', '.join(unknown)}")
