"""Components of the score, each declared by one entry (``hbal(1)``).

A new component is one entry in :func:`components`. The declaration decides how statistics are kept, what a
move changes, which components are computed once, and what reports show.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.model.columns import (
    FORTHCOMING,
    SINGLE,
    Columns,
    Floats,
    Shape,
    columns_type,
    of_load,
    of_unit,
)


class Aggregate(Enum):
    """Aggregation of the nodes' values to one figure."""

    SPREAD = "standard deviation over the online nodes"
    COUNT = "sum over the online nodes"
    LOST = "sum over the offline nodes"
    CLUSTER = "figure of the whole cluster, which the caller adds"


@dataclass(frozen=True, slots=True)
class Component:
    """A component of the score.

    * ``formula`` computes the contribution of each node. Its arguments are the columns of the nodes, of which
      it may use those that no placement changes, and the columns named in ``figures``, which placements
      change.
    * ``divisors`` are the columns that it divides by.
    * ``proportional``: an instance changes a node by an amount of the instance times a unit of the node,
      whatever else the node has.
    * ``counted`` selects the online nodes of a spread that count. Placements on other nodes must not change
      their contribution.
    * Components with the same word in ``shared`` share their weight, those that count any node (Ganeti's
      design "multi-storage htools", "Balancing").
    """

    name: str
    weight: float
    aggregate: Aggregate
    figures: tuple[str, ...]
    formula: Callable[..., Any]
    divisors: tuple[str, ...] = ()
    proportional: bool = True
    counted: Callable[[Columns], Any] | None = None
    shared: str = ""

    def of(self, columns: Columns) -> Any:
        """Compute the contribution of each node."""
        return self.formula(columns, *(getattr(columns, name) for name in self.figures))


def _of_memory(c: Columns, amount: Any) -> Any:
    return amount / c.t_mem


def _of_cpus(c: Columns, used: Any) -> Any:
    return used / c.t_cpu / c.cpu_speed


def _as_it_is(_c: Columns, amount: Any) -> Any:
    return amount


def free_disk_share(c: Columns, f_dsk: Any, f_spindles: Any) -> Floats:
    """Compute the free share of a node's disk, or of its spindles with exclusive storage; 1 where it has
    none.
    """
    free = np.where(c.excl_stor, f_spindles, f_dsk)
    return _share(free, np.where(c.excl_stor, c.t_spindles, c.t_dsk))


def _share(free: Any, total: Any) -> Floats:
    return np.where(total == 0, 1.0, free / np.where(total == 0, 1, total))


def _free_disk(shape: Shape) -> tuple[Component, ...]:
    """Declare the spread of the free shares of each storage unit, over the nodes that have the unit."""
    first = Component("free_disk_cv", 0.5, SPREAD, ("f_dsk", "f_spindles"), free_disk_share)
    if not shape.reported:
        return (first,)
    first = replace(first, counted=_has_disk, shared=first.name)
    if len(shape.units) == 1:
        return (first,)
    others = range(1, len(shape.units))
    found = (first, *(replace(first, **_free_unit(unit)) for unit in others))
    return tuple(
        replace(each, name=f"{first.name}:{name}") for each, name in zip(found, shape.units, strict=True)
    )


def _has_disk(c: Columns) -> Any:
    return np.where(c.excl_stor, c.t_spindles, c.t_dsk) > 0


def _free_unit(unit: int) -> dict[str, Any]:
    """The differences of a storage unit without spindles from the default volume group."""
    whole = of_unit("t_dsk", unit)
    return {
        "figures": (of_unit("f_dsk", unit),),
        "formula": lambda c, free: _share(free, getattr(c, whole)),
        "counted": lambda c: getattr(c, whole) > 0,
    }


def _peak(kind: str) -> Component:
    """Declare a kind of measured load: the share of what a node carries that its worst hour of the week uses.

    An hour has the 95th percentiles of the node's instances, so instances whose peaks do not coincide fit
    together. The eighth power weighs the fullest nodes: the score of one that is used up rises by 1.
    """
    carries = of_load("t", kind)

    def formula(c: Columns, hours: Any) -> Any:
        share = hours.worst() / getattr(c, carries)
        return np.square(np.square(np.square(share)))  # several times as fast as a power

    name = f"{kind.replace('dsk', 'disk')}_peak"
    return Component(name, 1.0, COUNT, (of_load("hours", kind),), formula, proportional=False)


def _forthcoming(component: Component) -> Component:
    """Declare the counterpart of a component that includes forthcoming instances."""
    figures = tuple(
        f"{name}_forth" if name.startswith("f_dsk") else FORTHCOMING.get(name, name)
        for name in component.figures
    )
    base, *unit = component.name.split(":", 1)
    name, shared = ":".join((f"{base}_forth", *unit)), component.shared and f"{component.shared}_forth"
    return replace(component, name=name, figures=figures, shared=shared)


SPREAD, COUNT, LOST, CLUSTER = Aggregate
UNCHANGED: Floats = np.zeros(())

_CPUS = Component("vcpu_ratio_cv", 0.5, SPREAD, ("u_cpu",), _of_cpus, ("t_cpu", "cpu_speed"))
_SPINDLES = Component(
    "spindles_cv", 0.5, SPREAD, ("inst_spindles",), lambda c, used: used / c.hi_spindles, ("hi_spindles",)
)


@lru_cache(maxsize=32)
def components(shape: Shape) -> tuple[Component, ...]:
    """Declare the components of a cluster's score, in the order in which Ganeti's htools add them up."""
    disk = _free_disk(shape)
    return (
        Component(
            "free_mem_cv", 0.5, SPREAD, ("i_mem",), lambda c, _used: c.unallocated / c.t_mem, ("t_mem",)
        ),
        *disk,
        Component(
            "n1_cnt",
            1.0,
            COUNT,
            ("fail_n1", "primaries", "secondaries"),
            lambda _c, failing, primaries, secondaries: np.where(failing, primaries + secondaries, 0),
            proportional=False,
        ),
        Component("reserved_mem_cv", 1.0, SPREAD, ("r_mem",), _of_memory, ("t_mem",), proportional=False),
        Component("offline_all_cnt", 4.0, LOST, ("primaries", "secondaries"), lambda _c, pri, sec: pri + sec),
        Component("offline_pri_cnt", 16.0, LOST, ("primaries",), _as_it_is),
        _CPUS,
        Component("cpu_load_cv", 1.0, SPREAD, ("load_cpu",), _as_it_is),
        Component("mem_load_cv", 1.0, SPREAD, ("load_mem",), _as_it_is),
        Component("disk_load_cv", 1.0, SPREAD, ("load_dsk",), _as_it_is),
        Component("net_load_cv", 1.0, SPREAD, ("load_net",), _as_it_is),
        Component("pri_tags_score", 2.0, COUNT, ("conflicts",), _as_it_is, proportional=False),
        _SPINDLES,
        Component("free_mem_cv_forth", 0.5, SPREAD, ("f_mem_forth",), _of_memory, ("t_mem",)),
        *map(_forthcoming, disk),
        _forthcoming(_CPUS),
        _forthcoming(_SPINDLES),
        Component("location_score", 1.0, COUNT, ("location",), _as_it_is, proportional=False),
        # Instances in excess of one for each pair of location and exclusion tag.
        Component("location_exclusion_score", 1.0, CLUSTER, (), lambda _c: UNCHANGED),
        Component("reserved_mem_rtotal", 0.25, COUNT, ("r_mem",), _of_memory, ("t_mem",), proportional=False),
        *map(_peak, shape.load),
    )


class ComponentTable(NamedTuple):
    """The components of a cluster's score, with derived tables; all by the component's position."""

    components: tuple[Component, ...]
    weights: tuple[float, ...]
    aggregates: tuple[Aggregate, ...]
    parts: tuple[tuple[int, ...], ...]  # positions of the columns of each component
    first: dict[str, int]  # the first component with that name
    location_exclusion: int
    partial: tuple[int, ...]  # components that do not count all online nodes


@lru_cache(maxsize=32)
def table(shape: Shape = SINGLE) -> ComponentTable:
    found, names = components(shape), columns_type(shape)._fields
    assert all(set(component.figures) <= set(columns_type(shape).changing()) for component in found)
    partial = tuple(which for which, each in enumerate(found) if each.counted)
    assert all(found[which].aggregate is SPREAD for which in partial)
    (location_exclusion,) = (which for which, component in enumerate(found) if component.aggregate is CLUSTER)
    return ComponentTable(
        found,
        tuple(component.weight for component in found),
        tuple(component.aggregate for component in found),
        tuple(tuple(map(names.index, component.figures)) for component in found),
        {component.name: which for which, component in reversed(list(enumerate(found)))},
        location_exclusion,
        partial,
    )


COMPONENTS, WEIGHTS, AGGREGATES, PARTS, INDEX, LOCATION_EXCLUSION, _ = table()
assert len(INDEX) == len(COMPONENTS), "two components have the same name"
