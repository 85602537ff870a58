"""Limits of resource classes (OpenStack Placement's inventories).

Of each class a node may limit the amount of one instance: the least, the most, and steps. The limits hold for
both nodes of an instance, whatever is in use. Of custom classes an instance takes its amount on its primary.
Its secondary keeps free what the worst of its peers needs, as it does for memory.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.rules.limits import AT_LEAST, AT_MOST, MIB, PRIMARY, SECONDARY, Limit, Relation
from ganeti_htools.model.cluster import MAX_MIB, Instance
from ganeti_htools.model.columns import (
    AMOUNT_LIMITS,
    NOWHERE,
    Bools,
    Columns,
    Ints,
    Shape,
    of_class,
    of_limited,
)
from ganeti_htools.model.resource_classes import MEMORY, SPINDLES, VCPU, is_disk
from ganeti_htools.model.state import State
from ganeti_htools.model.types import Fail, Status
from ganeti_htools.model.units import needs_of

# The amount of a class that an instance requests of nodes with these columns.
Amount = Callable[[Columns, Any], Any]

# An amount must be a multiple of the step; the distance to the next multiple is missing.
IN_STEPS = Relation(lambda step, amount: amount % step != 0, lambda step, amount: -amount % step)


def _position(shape: Shape, which: int) -> int:
    """Return the position of a class in :attr:`.RequestedInstance.wants`."""
    return len(shape.units) + len(shape.pools) + which


def _amount_limits(
    fail: Fail, name: str, figures: Sequence[str], amount: Amount, of: int | None = None, unit: str = ""
) -> tuple[Limit, ...]:
    """Build the limits of the amount of one instance; ``figures`` are the columns of AMOUNT_LIMITS.

    Together with the capacity they equal :meth:`.Inventory.allows`. An instance that requests nothing is
    allowed.
    """

    def requested(old: Columns, _new: Columns, asked: Any) -> Any:
        return amount(old, asked)

    def if_any(old: Columns, _new: Columns, asked: Any) -> Any:
        wanted = amount(old, asked)
        return np.where(np.equal(wanted, 0), MAX_MIB, wanted)

    def beyond_least(old: Columns, _new: Columns, asked: Any) -> Any:
        wanted = amount(old, asked)
        return np.where(getattr(old, least) == wanted, 0, wanted)

    least, most, step = figures
    one = Limit(fail, most, AT_LEAST, requested, of=of, unit=unit, fixed=True)
    return (
        one._replace(thing=f"{name} for one instance (max_unit)"),
        one._replace(
            figure=least, relation=AT_MOST, bound=if_any, thing=f"{name} to the least amount (min_unit)"
        ),
        one._replace(
            figure=step,
            relation=IN_STEPS,
            bound=beyond_least,
            thing=f"{name} to a multiple of its step (step_size)",
        ),
    )


@lru_cache(maxsize=256)
def allowed_limits(shape: Shape, which: int) -> tuple[Limit, ...]:
    """Build the limits of the amount that one instance may take of a custom class, whatever is in use."""
    name, of = shape.classes[which], _position(shape, which)

    def amount(_columns: Columns, asked: Any) -> Any:
        return asked.classes[which]

    capacity = Limit(
        Fail.RESOURCE,
        of_class("t", which),
        AT_LEAST,
        lambda old, _new, asked: amount(old, asked),
        of=of,
        thing=name,
        fixed=True,
    )
    figures = [of_class(figure, which) for figure in AMOUNT_LIMITS]
    return (capacity, *_amount_limits(Fail.RESOURCE, name, figures, amount, of))


def _memory(_columns: Columns, asked: Any) -> Any:
    return asked.mem if asked.forthcoming else asked.record_mem


def _vcpus(_columns: Columns, asked: Any) -> Any:
    return asked.vcpus


def _spindles(columns: Columns, asked: Any) -> Any:
    """Compute the spindles of disks with exclusive storage, 0 if unknown, and otherwise the spindle use."""
    disks = 0 if asked.spindles is None else asked.spindles
    return np.where(columns.excl_stor, disks, asked.spindle_use)


# Classes that Ganeti counts, without disk space: see :func:`.resource_usage.usage_on`.
_OWN: dict[str, tuple[Fail, Amount, str]] = {
    MEMORY: (Fail.MEM, _memory, MIB),
    VCPU: (Fail.CPU, _vcpus, ""),
    SPINDLES: (Fail.SPINDLES, _spindles, ""),
}


@lru_cache(maxsize=32)
def own_limits(shape: Shape) -> dict[str, tuple[Limit, ...]]:
    """Build the limits of the amount that one instance may take of classes that Ganeti counts, by class."""
    found = {}
    for which, (name, unit) in enumerate(shape.limited):
        fail, amount, measure = (Fail.DISK, _disk_of(unit), MIB) if is_disk(name) else _OWN[name]
        figures = [of_limited(figure, which) for figure in AMOUNT_LIMITS]
        found[name] = _amount_limits(fail, name, figures, amount, unit=measure)
    return found


def _disk_of(unit: int) -> Amount:
    return lambda _columns, asked: asked.disk[unit]


def own_limits_of(shape: Shape, fail: Fail, unit: int = NOWHERE) -> tuple[Limit, ...]:
    """Return :func:`own_limits` of memory, CPUs, spindles or the disk space of a unit, by their reason."""
    limits = (each for name, at in shape.limited if at == unit for each in own_limits(shape)[name])
    return tuple(each for each in limits if each.fail is fail)


def limits_by_reason(columns: Columns) -> Iterator[tuple[Fail, tuple[Ints, ...]]]:
    """Yield the columns of AMOUNT_LIMITS of each class in :func:`own_limits`, with the reason of refusals."""
    for which, (name, _) in enumerate(columns.shape.limited):
        figures = (getattr(columns, of_limited(figure, which)) for figure in AMOUNT_LIMITS)
        yield own_limits(columns.shape)[name][0].fail, tuple(figures)


@lru_cache(maxsize=32)
def all_allowed(shape: Shape) -> tuple[Limit, ...]:
    """Build the limits of the amounts of one instance, of all classes."""
    custom = (each for which in range(len(shape.classes)) for each in allowed_limits(shape, which))
    return (*custom, *(each for limits in own_limits(shape).values() for each in limits))


@lru_cache(maxsize=256)
def class_limits(shape: Shape, which: int) -> tuple[Limit, ...]:
    """Build the hard limits of a class: allowed amounts, and what must be free on a primary."""
    free = Limit(
        Fail.RESOURCE,
        of_class("f", which),
        AT_LEAST,
        roles=(PRIMARY,),
        of=_position(shape, which),
        thing=shape.classes[which],
    )
    return (*allowed_limits(shape, which), free)


@lru_cache(maxsize=256)
def kept_limits(shape: Shape, which: int) -> tuple[Limit, ...]:
    """Build the limits of the amount that a secondary keeps free of a class.

    A node that keeps too little already may go on so.
    """
    free, kept = of_class("f", which), of_class("r", which)
    enough = Limit(
        Fail.RESOURCE,
        free,
        AT_LEAST,
        lambda _old, _new, asked: asked.secondary_classes[which],
        (SECONDARY,),
        soft=True,
        of=_position(shape, which),
        thing=f"{shape.classes[which]} to be kept free on a secondary",
    )
    return (
        enough,
        enough._replace(
            bound=lambda _old, new, _asked: getattr(new, kept),
            roles=(PRIMARY, SECONDARY),
            applies=lambda old: getattr(old, free) >= getattr(old, kept),
            settled=True,
            thing=f"{shape.classes[which]} beside what is kept free for others",
        ),
    )


class RequestedAmounts(NamedTuple):
    """Amounts of instances as limits see them, see :class:`.RequestedInstance`; they may be arrays."""

    mem: Any
    record_mem: Any
    vcpus: Any
    spindles: Any
    spindle_use: Any
    disk: Sequence[Any]
    classes: Sequence[Any]
    forthcoming: bool = False


def refuses(columns: Columns, amounts: Any) -> Bools:
    """Whether nodes refuse amounts to one instance, whatever is in use; shapes broadcast.

    ``amounts`` are of an instance, or :class:`RequestedAmounts`.
    """
    found: Bools = np.zeros(columns.offline.shape, np.bool_)
    for limit in all_allowed(columns.shape):
        found = found | limit.broken(getattr(columns, limit.figure), columns, columns, amounts)
    return found


def refused_amounts(state: State, rows: Ints) -> Bools:
    """Find the nodes that refuse the amounts of resource classes of instances (rows), instances by nodes."""
    shape, size = state.columns.shape, (len(rows), len(state.group))
    if not (shape.classes or shape.limited):
        return np.zeros(size, np.bool_)

    def by_row(amount: Callable[[Instance], int], wanted: bool = bool(shape.limited)) -> Ints:
        found = [amount(state.cluster.instances[row]) if wanted else 0 for row in rows.tolist()]
        return np.array(found, np.int64)[:, np.newaxis]

    spindles = any(name == SPINDLES for name, _ in shape.limited)
    amounts = RequestedAmounts(
        mem=0,
        record_mem=state.record_mem[rows, np.newaxis],
        vcpus=by_row(lambda row: 0 if row.status is Status.OFFLINE else row.vcpus),
        spindles=by_row(lambda row: needs_of(row, state.units).spindles or 0, spindles),
        spindle_use=by_row(lambda row: row.spindle_use * needs_of(row, state.units).wants[0], spindles),
        disk=list(state.disk[rows].T[..., np.newaxis]),
        classes=list(state.classes[rows].T[..., np.newaxis]),
    )
    return np.broadcast_to(refuses(state.columns, amounts), size)


def without_own_limits(columns: Columns) -> Columns:
    """Return the columns of nodes that allow any amount of the classes that Ganeti counts."""
    lifted = {"least": 1, "most": MAX_MIB, "step": 1}
    return columns.changed(
        **{
            of_limited(name, which): np.full_like(getattr(columns, of_limited(name, which)), figure)
            for which in range(len(columns.shape.limited))
            for name, figure in lifted.items()
        }
    )
