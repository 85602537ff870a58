"""What the score is made of: one entry for each component (``hbal(1)``).

A new component is one entry in COMPONENTS. Everything else follows from its declaration: how the statistics
are kept, what a move changes, what is computed once for components that are the same, what reports show.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from ganeti_htools.model.columns import CHANGING, FIGURES, FORTHCOMING, Columns, Floats


class Aggregate(Enum):
    """How the nodes' values become one figure."""

    SPREAD = "standard deviation over the online nodes"
    COUNT = "sum over the online nodes"
    LOST = "sum over the offline nodes"
    CLUSTER = "figure of the whole cluster, which the caller adds"


@dataclass(frozen=True, slots=True)
class Component:
    """A component of the score.

    ``formula`` gives what each node contributes. It gets the columns of the nodes, of which it may use
    those that no placement changes, and the columns named in ``figures``, which placements change.
    ``divisors`` are the columns it divides by. ``proportional``: what an instance changes on a node is an
    amount of the instance times a unit of the node, whatever else is there.
    """

    name: str
    weight: float
    aggregate: Aggregate
    figures: tuple[str, ...]
    formula: Callable[..., Any]
    divisors: tuple[str, ...] = ()
    proportional: bool = True

    def of(self, columns: Columns) -> Any:
        """What each node contributes."""
        return self.formula(columns, *(getattr(columns, name) for name in self.figures))


def _of_memory(c: Columns, amount: Any) -> Any:
    return amount / c.t_mem


def _of_cpus(c: Columns, used: Any) -> Any:
    return used / c.t_cpu / c.cpu_speed


def _as_it_is(_c: Columns, amount: Any) -> Any:
    return amount


def free_disk_share(c: Columns, f_dsk: Any, f_spindles: Any) -> Floats:
    """Free share of a node's disk, or of its spindles with exclusive storage; 1 where it has none."""
    free = np.where(c.excl_stor, f_spindles, f_dsk)
    total = np.where(c.excl_stor, c.t_spindles, c.t_dsk)
    return np.where(total == 0, 1.0, free / np.where(total == 0, 1, total))


def _forthcoming(component: Component) -> Component:
    """The counterpart of a component in the view that includes forthcoming instances."""
    figures = tuple(FORTHCOMING.get(name, name) for name in component.figures)
    return replace(component, name=f"{component.name}_forth", figures=figures)


SPREAD, COUNT, LOST, CLUSTER = Aggregate
UNCHANGED: Floats = np.zeros(())

_FREE_DISK = Component("free_disk_cv", 0.5, SPREAD, ("f_dsk", "f_spindles"), free_disk_share)
_CPUS = Component("vcpu_ratio_cv", 0.5, SPREAD, ("u_cpu",), _of_cpus, ("t_cpu", "cpu_speed"))
_SPINDLES = Component(
    "spindles_cv", 0.5, SPREAD, ("inst_spindles",), lambda c, used: used / c.hi_spindles, ("hi_spindles",)
)

# The order is that of Ganeti's htools, in which the weighted components are added up.
COMPONENTS = (
    Component("free_mem_cv", 0.5, SPREAD, ("i_mem",), lambda c, _used: c.unallocated / c.t_mem, ("t_mem",)),
    _FREE_DISK,
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
    _forthcoming(_FREE_DISK),
    _forthcoming(_CPUS),
    _forthcoming(_SPINDLES),
    Component("location_score", 1.0, COUNT, ("location",), _as_it_is, proportional=False),
    # Instances in excess of one for each pair of location and exclusion tag.
    Component("location_exclusion_score", 1.0, CLUSTER, (), lambda _c: UNCHANGED),
    Component("reserved_mem_rtotal", 0.25, COUNT, ("r_mem",), _of_memory, ("t_mem",), proportional=False),
)

INDEX = {component.name: which for which, component in enumerate(COMPONENTS)}
WEIGHTS = tuple(component.weight for component in COMPONENTS)
AGGREGATES = tuple(component.aggregate for component in COMPONENTS)
# Where the columns that a component is made of stand among all columns.
PARTS = tuple(tuple(map(FIGURES.index, component.figures)) for component in COMPONENTS)
(CROWDING,) = (which for which, aggregate in enumerate(AGGREGATES) if aggregate is CLUSTER)

assert len(INDEX) == len(COMPONENTS), "two components have the same name"
assert all(set(component.figures) <= set(CHANGING) for component in COMPONENTS)
