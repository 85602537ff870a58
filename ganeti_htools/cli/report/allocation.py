"""Results of ``hspace``, the figures of all its reports, and its report as JSON."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.report.storage_left import StorageLeft
from ganeti_htools.cli.report.totals import Resources, total
from ganeti_htools.engine.capacity.counting import Capacity
from ganeti_htools.engine.capacity.obstacles import Obstruction
from ganeti_htools.model.cluster import Disk
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.types import Fail


@dataclass(frozen=True, slots=True)
class Mode:
    """A way to allocate: its names, and the prefixes of its keys."""

    name: str
    description: str
    spec: str
    figures: str
    count: str


TIERED = Mode("Tiered", "Tiered (initial size)", "TSPEC_INI", "TRL", "TSPEC")
STANDARD = Mode("Standard", "Standard (fixed-size)", "SPEC", "FIN", "ALLOC")


@dataclass(frozen=True, slots=True)
class Allocation:
    """The result of one way to allocate on a cluster (``before``), beginning at a size.

    ``why`` names the nodes whose loss prevents any allocation. ``left`` is the remaining storage, if nodes
    report their units.
    """

    mode: Mode
    kind: InstanceKind
    size: InstanceSize
    before: State
    result: Capacity
    why: Obstruction | None
    left: StorageLeft | None = None


def score(figure: float) -> str:
    """Format a score or a ratio with the digits that Ganeti's tools show."""
    return fixed(figure, 8)


def ratio(used: float, whole: float) -> float:
    """Divide a part by a whole; infinite or NaN if the whole is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.float64(used) / np.float64(whole))


def efficiency(figures: Resources) -> dict[str, float]:
    """Compute the used part (0 to 1) of memory, disk, virtual CPUs and spindles."""
    return {
        "memory": ratio(figures.i_mem, figures.t_mem),
        "disk": ratio(figures.i_dsk, figures.t_dsk),
        "vcpu": ratio(figures.i_cpu, figures.v_cpu),
        "spindles": ratio(figures.i_spindles, figures.t_spindles),
    }


def named(size: InstanceSize, spindles: bool) -> dict[str, int]:
    """Return the amounts of a size (memory and disk in MiB) by name, with or without spindles."""
    amounts = {"MEM": size.mem, "DSK": size.dsk, "CPU": size.vcpus}
    return amounts | {"SPN": size.spindles} if spindles else amounts


def by_number(result: Capacity) -> list[Fail]:
    """List the reasons for failures, the most frequent first."""
    failures = reasons(result)
    return sorted(failures, key=lambda fail: -failures[fail])


def reasons(result: Capacity) -> dict[Fail, int]:
    """Count the reasons for failures; those that only our tools know only if they occurred."""
    failures, ours = result.failures.items(), (Fail.RESOURCE, Fail.RULE)
    return {fail: number for fail, number in failures if number or fail not in ours}


def cluster_json(state: State, initial: Resources) -> dict[str, Any]:
    """Describe the cluster before allocation as JSON."""
    return {"nodes": len(state.cluster.nodes), "resources": asdict(initial)}


def allocation_json(allocation: Allocation) -> dict[str, Any]:
    kind, result, why = allocation.kind, allocation.result, allocation.why
    final = total(result.state)
    return {
        "disk_template": kind.template.value,
        "required_nodes": kind.template.required_nodes,
        "spindle_use": kind.spindle_use,
        "spec": asdict(allocation.size),
        "instances": result.placed,
        "tiers": [asdict(tier) | {"instances": number} for tier, number in result.tiers],
        "failures": {fail.value: number for fail, number in reasons(result).items()},
        "obstruction": asdict(why) if why else None,
        "efficiency": efficiency(final),
        "resources": asdict(final),
        **({"storage": asdict(allocation.left)} if allocation.left else {}),
        **({"disks": [_disk_json(disk) for disk in kind.disks]} if kind.disks else {}),
        **({"storage_unit": _unit_json(kind.unit)} if kind.unit else {}),
        **({"demands": [{"class": each, "amount": n} for each, n in kind.demands]} if kind.demands else {}),
    }


def _disk_json(disk: Disk) -> dict[str, Any]:
    return {"size": disk.size, "storage_unit": disk.unit and _unit_json(disk.unit)}


def _unit_json(unit: DesiredUnit) -> dict[str, str]:
    return {"type": unit.type.value, "key": unit.key}
