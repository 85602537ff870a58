"""What ``hspace`` tells of the instances that fit, as JSON."""

from dataclasses import asdict
from typing import Any

from ganeti_htools.cli.report.allocation import Allocation, efficiency, reasons
from ganeti_htools.engine.capacity.totals import Resources, total
from ganeti_htools.model.cluster import Disk
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit


def cluster(state: State, initial: Resources) -> dict[str, Any]:
    """The cluster before anything is allocated, as a part of a JSON document."""
    return {"nodes": len(state.cluster.nodes), "resources": asdict(initial)}


def allocated(allocation: Allocation) -> dict[str, Any]:
    """An allocation as a part of a JSON document."""
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
