"""Limits of figures of nodes, as :mod:`.resources` and :mod:`.storage_limits` declare them."""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.model.columns import Columns
from ganeti_htools.model.state import RequestedInstance
from ganeti_htools.model.types import Fail

MIB = "MiB"


class NodeRole(Enum):
    PRIMARY = "primary"
    SECONDARY = "secondary"
    SOURCE = "source"  # the node from which its disks are copied to a new secondary


PRIMARY, SECONDARY, SOURCE = NodeRole
BOTH = (PRIMARY, SECONDARY)


class Relation(NamedTuple):
    """Relation of a figure to its bound: a test whether it is broken, and the amount that is missing."""

    broken: Callable[[Any, Any], Any]
    missing: Callable[[Any, Any], Any]


ABOVE = Relation(np.less_equal, lambda figure, bound: bound + 1 - figure)  # for whole numbers
AT_LEAST = Relation(np.less, lambda figure, bound: bound - figure)
AT_MOST = Relation(np.greater, lambda figure, bound: figure - bound)


def _nothing(_old: Columns, _new: Columns, _asked: Any) -> Any:
    return 0


class Limit(NamedTuple):
    """A condition on a node that must hold once an instance has come.

    * ``figure`` is the limited column. ``bound`` computes the bound from the columns before and after, and
      the instance.
    * ``soft``: ``force`` drops the limit.
    * ``of``: the position in :attr:`.RequestedInstance.wants` of the storage unit, pool or custom class that
      the limit concerns. It holds only for instances that want this unit.
    * ``settled``: only for figures without forthcoming instances. Other limits also hold for figures with
      forthcoming instances, but never with ``force``.
    * ``applies``: selects nodes by the columns before.
    * ``per``: the column that divides the figure.
    * ``thing`` and ``unit``: the name of what is missing, for users.
    * ``fixed``: no placement changes the figure.
    """

    fail: Fail
    figure: str
    relation: Relation
    bound: Callable[[Columns, Columns, Any], Any] = _nothing
    roles: tuple[NodeRole, ...] = BOTH
    soft: bool = False
    of: int | None = None
    settled: bool = False
    applies: Callable[[Columns], Any] | None = None
    per: str | None = None
    thing: str = ""
    unit: str = ""
    fixed: bool = False

    def broken(self, figure: Any, old: Columns, new: Columns, asked: RequestedInstance | None = None) -> Any:
        """Find the nodes whose figure breaks the limit after the instance has come."""
        if self.per is not None:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # nodes that report nothing
                figure = figure / getattr(old, self.per)
        return self._where_it_applies(old, self.relation.broken(figure, self.bound(old, new, asked)))

    def broken_now(self, columns: Columns) -> Any:
        """Find the nodes that break the limit now; for limits that do not depend on the instance."""
        broken = self.relation.broken(getattr(columns, self.figure), self.bound(columns, columns, None))
        return self._where_it_applies(columns, broken)

    def _where_it_applies(self, old: Columns, broken: Any) -> Any:
        return broken if self.applies is None else self.applies(old) & broken

    def missing(self, figure: Any, old: Columns, new: Columns, asked: RequestedInstance | None = None) -> Any:
        """Compute the amount that a figure lacks to keep the limit, whether it applies or not.

        The amount is above 0 where the limit is broken.
        """
        bound = self.bound(old, new, asked)
        return self.relation.missing(figure, bound if self.per is None else bound * getattr(old, self.per))
