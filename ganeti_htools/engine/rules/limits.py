"""What a limit is. Those that there are stand in :mod:`.resources` and :mod:`.storage_limits`."""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.model.columns import Columns
from ganeti_htools.model.state import RequestedInstance
from ganeti_htools.model.types import Fail

MIB = "MiB"


class Role(Enum):
    """What a node is to an instance."""

    PRIMARY = "primary"
    SECONDARY = "secondary"
    SOURCE = "source"  # the node from which its disks are copied to a new secondary


PRIMARY, SECONDARY, SOURCE = Role
BOTH = (PRIMARY, SECONDARY)


class Relation(NamedTuple):
    """How a figure has to relate to its bound: when it does not, and by how much it misses."""

    broken: Callable[[Any, Any], Any]
    missing: Callable[[Any, Any], Any]


ABOVE = Relation(np.less_equal, lambda figure, bound: bound + 1 - figure)  # of whole numbers
AT_LEAST = Relation(np.less, lambda figure, bound: bound - figure)
AT_MOST = Relation(np.greater, lambda figure, bound: figure - bound)


def _nothing(_old: Columns, _new: Columns, _asked: Any) -> Any:
    return 0


class Limit(NamedTuple):
    """Something that must hold once an instance has come to a node.

    ``figure`` is the column that is limited; ``bound`` gets the columns before and after, and the instance.
    ``soft``: may be broken with ``force``. ``of``: only for instances that want this storage unit, pool or
    custom class, by its position in :attr:`.RequestedInstance.wants`.
    ``settled``: only for figures without forthcoming instances; else those with them are limited likewise,
    but never with ``force``. ``applies``: for which nodes, given the columns before. ``per``: the column by
    which the figure is divided first. ``thing`` and ``unit``: what users are told is missing. ``fixed``: no
    placement changes the figure.
    """

    fail: Fail
    figure: str
    relation: Relation
    bound: Callable[[Columns, Columns, Any], Any] = _nothing
    roles: tuple[Role, ...] = BOTH
    soft: bool = False
    of: int | None = None
    settled: bool = False
    applies: Callable[[Columns], Any] | None = None
    per: str | None = None
    thing: str = ""
    unit: str = ""
    fixed: bool = False

    def broken(self, figure: Any, old: Columns, new: Columns, asked: RequestedInstance | None = None) -> Any:
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

    def missing(self, figure: Any, old: Columns, new: Columns, asked: RequestedInstance | None = None) -> Any:
        """How much a figure lacks to keep the limit, whether it applies or not; above 0 where it does not."""
        bound = self.bound(old, new, asked)
        return self.relation.missing(figure, bound if self.per is None else bound * getattr(old, self.per))
