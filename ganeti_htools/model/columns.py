"""Figures of nodes as NumPy columns, one entry for each node.

Two views of memory (Ganeti's design "memory over-commitment"): the state of record is what the
configuration says (``n_mem`` for the node itself, ``i_mem`` for its running instances), the state of
the world is what the node reports (``f_mem``). Their difference ``x_mem`` is unaccounted memory.
"""

from collections import namedtuple
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Shape(NamedTuple):
    """The storage units, pools (those that some nodes do not see) and resource classes that have columns.

    ``reported``: nodes report their units; otherwise each node has the only one. ``own_group`` are the
    positions of the cluster's own volume group: the first, and the group's unit for mirrored disks, if any.
    ``limited`` are classes that Ganeti counts, with limits of the amount of one instance; each with the
    position of its storage unit, NOWHERE if it has none. ``load`` are the kinds of measured load that count.
    """

    units: tuple[str, ...] = ("",)
    pools: tuple[str, ...] = ()
    reported: bool = False
    own_group: tuple[int, ...] = (0,)
    classes: tuple[str, ...] = ()
    limited: tuple[tuple[str, int], ...] = ()
    load: tuple[str, ...] = ()

    @property
    def binds(self) -> bool:
        """Whether nodes differ in the storage and amounts that they give, not only in free amounts."""
        return self.reported or bool(self.pools) or bool(self.classes) or bool(self.limited)


SINGLE = Shape()

# The figures of a resource class that limit the amount of one instance.
AMOUNT_LIMITS = ("least", "most", "step")

NOWHERE = -1  # the row that stands for "no node" or "no instance"


def existing(*nodes: int) -> tuple[int, ...]:
    """Return the nodes (rows) that are not NOWHERE."""
    return tuple(int(node) for node in nodes if node != NOWHERE)


class Columns(NamedTuple):
    """Figures of nodes, one array per figure; all arrays broadcast against each other.

    ``..._forth`` figures count forthcoming instances too; without forthcoming instances they equal the plain
    ones. ``aliases`` names columns that equal others: what follows from equal columns is computed once.
    ``conflicts`` counts primary instances in excess of one per exclusion tag; ``location`` is the
    sum of the primary instances' location and unmet desired-location scores. ``load_...`` are sums
    of dynamic utilisation. ``..._dsk`` is disk space of the default storage unit; a cluster with more units,
    with pools that some nodes do not see, or with custom resource classes has columns of a type with more
    figures (:func:`columns_type`).
    """

    t_mem: Floats
    n_mem: Ints
    x_mem: Ints
    t_dsk: Floats
    t_cpu: Floats
    cpu_speed: Floats
    t_spindles: Ints
    lo_dsk: Ints
    hi_spindles: Floats
    vcpu_ratio: Floats
    offline: Bools
    excl_stor: Bools
    # A placement changes the following columns.
    i_mem: Ints
    f_mem_forth: Ints
    f_dsk: Ints
    f_dsk_forth: Ints
    f_spindles: Ints
    f_spindles_forth: Ints
    u_cpu: Ints
    u_cpu_forth: Ints
    inst_spindles: Floats
    inst_spindles_forth: Floats
    r_mem: Ints
    fail_n1: Bools
    load_cpu: Floats
    load_mem: Floats
    load_dsk: Floats
    load_net: Floats
    primaries: Ints
    secondaries: Ints
    conflicts: Ints
    location: Ints

    @property
    def shape(self) -> Shape:
        """The storage units, pools and custom classes that have columns."""
        return SINGLE

    @property
    def aliases(self) -> Mapping[str, str]:
        """For each column that equals another one further left: the name of the other."""
        return {}

    @property
    def firsts(self) -> Sequence[int]:
        """For each column the position of the column that it equals, or its own position."""
        return range(len(self))

    def map(self, change: Callable[[Any], Any]) -> "Columns":
        """Apply ``change`` to every column, and only once to a column and its aliases."""
        done: list[Any] = []
        for position, (first, column) in enumerate(zip(self.firsts, self, strict=True)):
            done.append(change(column) if first == position else done[first])
        return type(self)._make(done)

    def with_columns(self, columns: Sequence[Any], apart: Collection[str] = ()) -> "Columns":
        """Return the same figures with other columns; columns named in ``apart`` are no aliases."""
        kind = type(self)
        if apart:
            left = {name: first for name, first in self.aliases.items() if name not in apart}
            kind = columns_type(self.shape, tuple(left.items()))
        return kind._make(columns)

    def take(self, rows: Ints | slice | list[int]) -> "Columns":
        return self.map(lambda column: column[rows])

    def copy(self) -> "Columns":
        """Return figures that can be changed apart from these."""
        return self.map(lambda column: column.copy())

    def without_load(self) -> "Columns":
        """Return the figures other than those of measured load."""
        kind = columns_type(self.shape._replace(load=()), tuple(self.aliases.items()))
        return kind._make(getattr(self, name) for name in kind._fields)

    def changed(self, **new: Any) -> "Columns":
        """These columns, with the named ones replaced, which are no aliases then."""
        apart = [name for name, first in self.aliases.items() if name in new or first in new]
        return self.with_columns(self._replace(**new), apart)

    def with_figures(self, figures: Mapping[str, Any]) -> "Columns":
        """With other figures in the named columns, which are no aliases, and in all their aliases."""
        same = {name: figures[first] for name, first in self.aliases.items() if first in figures}
        return self._replace(**figures, **same)

    def apart(self, aliases: Mapping[str, str]) -> "Columns":
        """With arrays of their own for aliases that are none in ``aliases``, so that each can be changed."""
        apart = [name for name, first in self.aliases.items() if aliases.get(name) != first]
        return self.changed(**{name: getattr(self, name).copy() for name in apart}) if apart else self

    def with_forthcoming_apart(self) -> "Columns":
        """With arrays of their own for the views that count forthcoming instances."""
        return self.changed(**{view: getattr(self, view).copy() for view in forthcoming(self.shape).values()})

    @classmethod
    def changing(cls) -> tuple[str, ...]:
        return cls._fields[cls._fields.index("i_mem") :]

    def put(self, rows: Any, new: "Columns", at: Any = 0) -> None:
        """Write the changing figures of nodes in place: those of other columns, at some positions."""
        first = self._fields.index("i_mem")
        for column, figure in zip(self[first:], new[first:], strict=True):
            column[rows] = figure[at]

    @property
    def unallocated(self) -> Ints:
        """Memory guaranteed to be free (MiB): free by record, less what is unaccounted for."""
        record: Ints = self.t_mem.astype(np.int64) - self.n_mem - self.i_mem
        return record - np.maximum(self.x_mem, 0)


FIGURES = Columns._fields
_FIRST_CHANGING = FIGURES.index("i_mem")
CHANGING = FIGURES[_FIRST_CHANGING:]


def of_unit(figure: str, unit: int) -> str:
    """The name of a figure of disk space (``t_dsk``, ``lo_dsk``, ``f_dsk``) for a storage unit."""
    return f"{figure}_{unit}" if unit else figure


def of_pool(pool: int) -> str:
    """Return the name of the column that marks the nodes that see a pool."""
    return f"sees_{pool}"


def of_class(figure: str, which: int) -> str:
    """Return the name of a figure of a custom resource class.

    ``t`` is the total, ``f`` the free amount, ``r`` the amount kept free for instances whose primary may
    fail. An instance may request between ``least`` and ``most``, in steps of ``step``.
    """
    return f"{figure}_class_{which}"


def of_limited(figure: str, which: int) -> str:
    """Return the name of a figure of a limited class: ``least``, ``most`` or ``step``."""
    return f"{figure}_limited_{which}"


def of_load(figure: str, kind: str) -> str:
    """Return the name of a figure of a kind of measured load.

    ``t`` is what the node can carry, ``hours`` the sums by hour of the week (:class:`.HourSums`).
    """
    return f"{figure}_load_{kind}"


def by_unit(columns: Columns, figure: str) -> list[Any]:
    """Return a figure of disk space for each storage unit."""
    return [getattr(columns, of_unit(figure, unit)) for unit in range(len(columns.shape.units))]


def availability(columns: Columns) -> Bools:
    """Return a matrix by nodes of the storage units and custom classes they have, and the pools they see.

    Rows are in the order units, pools, classes.
    """
    shape = columns.shape
    pools = [getattr(columns, of_pool(pool)) for pool in range(len(shape.pools))]
    classes = [getattr(columns, of_class("t", which)) for which in range(len(shape.classes))]
    return np.array([figure > 0 for figure in (*by_unit(columns, "t_dsk"), *pools, *classes)])


@lru_cache(maxsize=256)
def columns_type(shape: Shape, aliases: tuple[tuple[str, str], ...] = ()) -> type[Columns]:
    """The type of columns with figures of so many units, pools and classes, and with these aliases.

    Each alias comes with the name of the column that it equals, which is no alias and stands further left.
    """
    if aliases:
        base, same = columns_type(shape), dict(aliases)
        firsts = tuple(base._fields.index(same.get(name, name)) for name in base._fields)
        own = {"__slots__": (), "shape": shape, "aliases": same, "firsts": firsts}
        return cast(type[Columns], type("Columns", (base,), own))
    if shape == SINGLE:
        return Columns
    units = range(1, len(shape.units))
    more = [of_unit(figure, unit) for unit in units for figure in ("t_dsk", "lo_dsk")]
    more += map(of_pool, range(len(shape.pools)))
    classes = range(len(shape.classes))
    more += [of_class(figure, which) for which in classes for figure in ("t", *AMOUNT_LIMITS)]
    more += [of_limited(figure, which) for which in range(len(shape.limited)) for figure in AMOUNT_LIMITS]
    more += [of_load("t", kind) for kind in shape.load]
    free = [of_unit("f_dsk", unit) for unit in units] + [of_class("f", which) for which in classes]
    kept = [of_class("r", which) for which in classes] + [of_load("hours", kind) for kind in shape.load]
    changing = [*CHANGING, *free, *(f"{figure}_forth" for figure in free), *kept]
    plain = namedtuple("Columns", [*FIGURES[:_FIRST_CHANGING], *more, *changing])  # type: ignore[misc]
    members = {name: vars(Columns)[name] for name in _MEMBERS}
    return cast(type[Columns], type("Columns", (plain,), {"__slots__": (), **members, "shape": shape}))


_MEMBERS = (
    "__doc__",
    "aliases",
    "firsts",
    "changing",
    "map",
    "take",
    "with_columns",
    "copy",
    "without_load",
    "changed",
    "with_figures",
    "apart",
    "with_forthcoming_apart",
    "put",
    "unallocated",
)


@lru_cache(maxsize=32)
def forthcoming(shape: Shape) -> dict[str, str]:
    """For each column that has a counterpart which counts forthcoming instances: that counterpart's name."""
    names = columns_type(shape)._fields
    return {name: f"{name}_forth" for name in names if f"{name}_forth" in names}


FORTHCOMING = forthcoming(SINGLE)


def sorted_unique(values: Any) -> Any:
    """The different values of an array, in ascending order.

    ``np.unique`` does that as well, but its first call imports much.
    """
    ordered = np.sort(values)
    keep = np.ones(len(ordered), np.bool_)
    keep[1:] = ordered[1:] != ordered[:-1]
    return ordered[keep]
