"""The load of instances as measured: a profile of the hours of the week."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # clients start faster without arrays
    from ganeti_htools.model.columns import Floats

HOURS = 7 * 24  # of a week in local time; the first one begins on Monday at 0:00

# What balancing knows of load: nothing, what -U means, or the worst hours of the week.
LoadMode = Literal["none", "upstream", "real"]

# CPU (cores), memory (MiB), disk and network (MiB/s), in the order of a profile's rows.
LOAD_KINDS = ("cpu", "mem", "dsk", "net")


@dataclass(frozen=True, slots=True, eq=False)
class LoadProfile:
    """The measured load of an instance.

    ``mean`` and ``peak`` (the 95th percentile) are arrays by kind of load and hour of the week, ``last`` (the
    last values) is an array by kind of load. No figure is negative. Arrays are never changed.
    """

    mean: "Floats"
    peak: "Floats"
    last: "Floats"


@dataclass(frozen=True, slots=True, eq=False)
class PresentLoad:
    """The present load by name: cores that instances and nodes use, and the pressure of nodes.

    Pressure is the highest share of time that work of a node waits for CPU, memory or disk. ``unused`` is the
    reason why measured load must not be used, if there is one.
    """

    instances: Mapping[str, float]
    nodes: Mapping[str, float]
    pressure: Mapping[str, float]
    unused: str | None = None
