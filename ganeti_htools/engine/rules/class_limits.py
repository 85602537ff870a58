"""What demands of custom resource classes ask of nodes (OpenStack Placement's inventories).

An instance takes its amount on its primary node. As with memory, its secondary has to be able to run it: it
keeps free what the worst of its peers would need.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.rules.limits import AT_LEAST, AT_MOST, PRIMARY, SECONDARY, Limit, Relation
from ganeti_htools.model.columns import Columns, Shape, of_class
from ganeti_htools.model.types import Fail

# An amount has to be a multiple of the step; of what exceeds one, the rest is missing.
IN_STEPS = Relation(lambda step, amount: amount % step != 0, lambda step, amount: -amount % step)


def _position(shape: Shape, which: int) -> int:
    """Where a class stands in :attr:`.RequestedInstance.wants`."""
    return len(shape.units) + len(shape.pools) + which


@lru_cache(maxsize=256)
def allowed_limits(shape: Shape, which: int) -> tuple[Limit, ...]:
    """Which amounts a node has for one instance, whatever is used; with what there is at all, that is what
    :meth:`.Inventory.allows` says.
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
    """The same of all classes."""
    return tuple(each for which in range(len(shape.classes)) for each in allowed_limits(shape, which))


@lru_cache(maxsize=256)
def class_limits(shape: Shape, which: int) -> tuple[Limit, ...]:
    """What must be there of a class, and free on a primary whatever is forced."""
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
    """What must be free of a class on a secondary, and beside what is kept free already. A node that has not
    kept enough may go on so.
    """
    free, kept = of_class("f", which), of_class("r", which)
    enough = Limit(
        Fail.RESOURCE,
        free,
        AT_LEAST,
        lambda _old, _new, asked: asked.kept[which],
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
    """Instances as limits of classes see them: of each class one amount, or an array."""

    classes: Sequence[Any]


def refused(columns: Columns, which: int, amounts: Any) -> Any:
    """Where nodes do not give these amounts of a class to one instance, whatever is used."""
    asked: Any = _Amounts([amounts] * len(columns.shape.classes))
    limits = allowed_limits(columns.shape, which)
    return np.any(
        [limit.broken(getattr(columns, limit.figure), columns, columns, asked) for limit in limits], axis=0
    )
