"""What instances take of nodes, and what limits that: one entry for each resource.

A new resource is one entry in :func:`resources`, beside its columns. Each storage unit is one. The order of
the entries is the order in which limits are looked at; so it decides which reason is told where several speak
against a node. The rules are those of Ganeti's htools (``Node.hs``; ``hbal(1)``).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.model.columns import (
    NOWHERE,
    SINGLE,
    Columns,
    Shape,
    columns_type,
    forthcoming,
    of_pool,
    of_unit,
)
from ganeti_htools.model.state import Asked
from ganeti_htools.model.types import Fail


@lru_cache(maxsize=32)
def views(shape: Shape) -> dict[str, str]:
    """For each figure, the one that includes forthcoming instances."""
    return forthcoming(shape) | {"unallocated": "f_mem_forth"}


class Role(Enum):
    """What a node is to an instance."""

    PRIMARY = "primary"
    SECONDARY = "secondary"
    SOURCE = "source"  # the node from which its disks are copied to a new secondary


PRIMARY, SECONDARY, SOURCE = Role
BOTH = (PRIMARY, SECONDARY)


class Change(NamedTuple):
    """An instance that comes to a node or goes from it, with what the node's other instances make of it.

    ``conflicts``: how many of its exclusion tags other primaries of the node have. ``location``: its location
    score and unmet desired locations there. ``reserved`` (MiB), of a secondary: what the node keeps free for
    all instances with this primary when it comes; for all its instances once it is gone.
    """

    asked: Asked
    conflicts: Any = 0
    location: Any = 0
    reserved: Any = 0


class Relation(NamedTuple):
    """How a figure has to relate to its bound: when it does not, and by how much it misses."""

    broken: Callable[[Any, Any], Any]
    missing: Callable[[Any, Any], Any]


ABOVE = Relation(np.less_equal, lambda figure, bound: bound + 1 - figure)  # of whole numbers
AT_LEAST = Relation(np.less, lambda figure, bound: bound - figure)
AT_MOST = Relation(np.greater, lambda figure, bound: figure - bound)


class Limit(NamedTuple):
    """Something that must hold once an instance has come to a node.

    ``figure`` is the column that is limited; ``bound`` gets the columns before and after, and the instance.
    ``soft``: may be broken with ``force``. ``of``: only for instances that want this storage unit or pool, by
    its position in :attr:`.Asked.wants`.
    ``settled``: only for figures without forthcoming instances; else those with them are limited likewise,
    but never with ``force``. ``applies``: for which nodes, given the columns before. ``per``: the column by
    which the figure is divided first. ``thing`` and ``unit``: what users are told is missing. ``fixed``: no
    placement changes the figure.
    """

    fail: Fail
    figure: str
    relation: Relation
    bound: Callable[[Columns, Columns, Any], Any]
    roles: tuple[Role, ...] = BOTH
    soft: bool = False
    of: int | None = None
    settled: bool = False
    applies: Callable[[Columns], Any] | None = None
    per: str | None = None
    thing: str = ""
    unit: str = ""
    fixed: bool = False

    def broken(self, figure: Any, old: Columns, new: Columns, asked: Asked | None = None) -> Any:
        """Where a figure of the nodes after the instance has come breaks the limit."""
        if self.per is not None:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # nodes that report nothing
                figure = figure / getattr(old, self.per)
        return self._where_it_applies(old, self.relation.broken(figure, self.bound(old, new, asked)))

    def broken_now(self, columns: Columns) -> Any:
        """Where nodes break the limit as they are; for limits that ask nothing of the instance."""
        broken = self.relation.broken(getattr(columns, self.figure), self.bound(columns, columns, None))
        return self._where_it_applies(columns, broken)

    def _where_it_applies(self, old: Columns, broken: Any) -> Any:
        return broken if self.applies is None else self.applies(old) & broken

    def missing(self, figure: Any, old: Columns, new: Columns, asked: Asked | None = None) -> Any:
        """How much a figure lacks to keep the limit, whether it applies or not; above 0 where it does not."""
        bound = self.bound(old, new, asked)
        return self.relation.missing(figure, bound if self.per is None else bound * getattr(old, self.per))


def _added(_columns: Columns, used: Any, amount: Any, sign: int) -> Any:
    return used + amount if sign > 0 else used - amount


def _taken(_columns: Columns, free: Any, amount: Any, sign: int) -> Any:
    return free - amount if sign > 0 else free + amount


def _disk_taken(_columns: Columns, free: Any, amount: Any, sign: int) -> Any:
    """Free disk space. It is the same object where nothing is taken: most units are not concerned."""
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


class Resource(NamedTuple):
    """A column that changes when an instance comes (sign 1) or goes (-1), and its limits.

    ``amount`` is by how much, from the columns and the instance; ``after`` makes the column after of the
    columns, this one, the amount and the sign. Forthcoming instances change the column's other view, or with
    ``everyone`` this one, or none.
    """

    figure: str
    roles: tuple[Role, ...]
    amount: Callable[[Columns, Change], Any]
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


MIB = "MiB"


def _nothing(_old: Columns, _new: Columns, _asked: Asked) -> Any:
    return 0


MEMORY = Limit(Fail.MEM, "unallocated", ABOVE, _nothing, (PRIMARY,), thing="memory", unit=MIB)


def _room(shape: Shape, unit: int) -> Limit:
    """What must be free on a storage unit, whatever is forced."""
    thing = f"disk space on {shape.units[unit]}" if shape.told else "disk"
    return Limit(Fail.DISK, of_unit("f_dsk", unit), ABOVE, _nothing, of=unit, thing=thing, unit=MIB)


@dataclass(frozen=True, slots=True)
class _Spare:
    """What has to stay free of a unit where Ganeti makes the disks of an instance (:attr:`.Asked.spare`).

    Those are all nodes of a new one, and the secondary of one that becomes mirrored. On the primary of the
    latter only metadata is made: where that is on a unit of its own it is counted there, and nothing else has
    to stay free. Two for the same are equal, as limits are compared.
    """

    unit: int
    role: Role

    def __call__(self, _old: Columns, _new: Columns, asked: Asked | None) -> Any:
        if asked is None or (self.role is PRIMARY and asked.index != NOWHERE and sum(asked.wants) > 1):
            return 0
        return asked.spare[self.unit]


def _reserved_room(shape: Shape, unit: int) -> Limit:
    """What an administrator wants to stay free on a storage unit (``--min-disk``)."""
    reserved = of_unit("lo_dsk", unit)
    return _room(shape, unit)._replace(
        relation=AT_LEAST, bound=lambda old, _new, _asked: getattr(old, reserved), soft=True
    )


def _access(shape: Shape, pool: int) -> Limit:
    """A node must see the pools that the instance is on."""
    which, thing = len(shape.units) + pool, f"access to {shape.pools[pool]}"
    return Limit(Fail.DISK, of_pool(pool), ABOVE, _nothing, of=which, thing=thing, fixed=True)


@lru_cache(maxsize=32)
def unit_limits(shape: Shape) -> tuple[Limit, ...]:
    """That nodes have the storage units, where those are told; what must be free there implies it."""
    return tuple(
        Limit(Fail.DISK, of_unit("t_dsk", unit), ABOVE, _nothing, of=unit, thing=name, fixed=True)
        for unit, name in enumerate(shape.units if shape.told else ())
    )


@lru_cache(maxsize=32)
def disk_limits(shape: Shape) -> tuple[Limit, ...]:
    """What must be free on each storage unit, whatever is forced."""
    if not shape.told:
        return (_room(shape, 0),)
    return tuple(
        _room(shape, unit)._replace(bound=_Spare(unit, role), roles=(role,))
        for unit in range(len(shape.units))
        for role in BOTH
    )


@lru_cache(maxsize=32)
def _default_group(shape: Shape) -> Limit:
    """Ganeti looks for the cluster's own volume group on the node from which it copies disks, whatever groups
    they are on (``TLReplaceDisks``, ``lib/cmdlib/instance_storage.py``). A node that is offline does not
    tell, one that has the group for mirrored disks has it.
    """
    name = shape.units[0]
    mirrored = [of_unit("t_dsk", unit) for unit in shape.own_group[1:]]

    def applies(columns: Columns) -> Any:
        there = columns.offline
        for figure in mirrored:
            there = there | (getattr(columns, figure) > 0)
        return ~there

    return Limit(Fail.DISK, "t_dsk", ABOVE, _nothing, (SOURCE,), applies=applies, thing=name)


SPINDLES = Limit(
    Fail.SPINDLES,
    "f_spindles",
    AT_LEAST,
    _nothing,
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


def _spindle_use(columns: Columns, change: Change) -> Any:
    return np.where(columns.excl_stor, 0.0, 1.0 * change.asked.spindle_use)


def _disk(shape: Shape, unit: int) -> Resource:
    return Resource(
        of_unit("f_dsk", unit),
        BOTH,
        lambda _c, change: change.asked.disk[unit],
        _unit_taken(unit) if shape.told else _disk_taken,
        (*(limit for limit in disk_limits(shape) if limit.of == unit), _reserved_room(shape, unit)),
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
    )


@lru_cache(maxsize=32)
def declared_limits(shape: Shape) -> tuple[Limit, ...]:
    """All limits of a cluster, in the order they are looked at."""
    pools = (_access(shape, pool) for pool in range(len(shape.pools)))
    group = (_default_group(shape),) if shape.told else ()
    return (*pools, *(limit for resource in resources(shape) for limit in resource.limits), *group)


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
