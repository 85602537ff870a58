"""Limits of custom resource classes (OpenStack Placement's inventories).

An instance takes its amount on its primary. Its secondary keeps free what the worst of its peers needs, as it
does for memory.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.rules.limits import AT_LEAST, AT_MOST, PRIMARY, SECONDARY, Limit, Relation
from ganeti_htools.model.columns import Columns, Shape, of_class
from ganeti_htools.model.types import Fail

# An amount must be a multiple of the step; the distance to the next multiple is missing.
IN_STEPS = Relation(lambda step, amount: amount % step != 0, lambda step, amount: -amount % step)


def _position(shape: Shape, which: int) -> int:
    """Return the position of a class in :attr:`.RequestedInstance.wants`."""
    return len(shape.units) + len(shape.pools) + which


@lru_cache(maxsize=256)
def allowed_limits(shape: Shape, which: int) -> tuple[Limit, ...]:
    """Build the limits of the amount that one instance may take of a class, whatever is in use.

    Together with the capacity they equal :meth:`.Inventory.allows`.
    """
    name, of = shape.classes[which], _position(shape, which)
    least, most, step = (of_class(figure, which) for figure in ("least", "most", "step"))

    def amount(_old: Columns, _new: Columns, asked: Any) -> Any:
        return asked.classes[which]

    def beyond_least(old: Columns, _new: Columns, asked: Any) -> Any:
        return np.where(getattr(old, least) == asked.classes[which], 0, asked.classes[which])

    one = Limit(Fail.RESOURCE, most, AT_LEAST, amount, of=of, thing=f"{name} for one instance", fixed=True)
    return (
        Limit(Fail.RESOURCE, of_class("t", which), AT_LEAST, amount, of=of, thing=name, fixed=True),
        one,
        one._replace(figure=least, relation=AT_MOST, thing=f"{name} to the least amount for one instance"),
        one._replace(
            figure=step, relation=IN_STEPS, bound=beyond_least, thing=f"{name} to a multiple of its step"
        ),
    )


@lru_cache(maxsize=32)
def all_allowed(shape: Shape) -> tuple[Limit, ...]:
    """Build :func:`allowed_limits` of all classes."""
    return tuple(each for which in range(len(shape.classes)) for each in allowed_limits(shape, which))


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


class _Amounts(NamedTuple):
    """Amounts of each class as limits see them: one amount for each class, or an array."""

    classes: Sequence[Any]


def refused(columns: Columns, which: int, amounts: Any) -> Any:
    """Whether nodes refuse these amounts of a class to one instance, whatever is in use."""
    asked: Any = _Amounts([amounts] * len(columns.shape.classes))
    limits = allowed_limits(columns.shape, which)
    return np.any(
        [limit.broken(getattr(columns, limit.figure), columns, columns, asked) for limit in limits], axis=0
    )
