"""What ``hspace`` tells of the instances that fit: as text, as ``KEY=VALUE`` lines and as JSON."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ganeti_htools.backends.haskell import fixed, show
from ganeti_htools.cli.report import keys, layout
from ganeti_htools.engine.capacity.counting import Capacity
from ganeti_htools.engine.capacity.obstacles import Obstruction
from ganeti_htools.engine.capacity.sizes import InstanceKind, Size
from ganeti_htools.engine.capacity.storage_left import StorageLeft
from ganeti_htools.engine.capacity.totals import Resources, total
from ganeti_htools.model.cluster import Disk
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.types import Fail

Pairs = Iterable[tuple[str, str]]


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
    """What came of one way to allocate on a cluster (``before``), starting from instances of a size.

    ``why`` tells what redundancy kept all instances from being allocated, if it did; ``left`` what is left of
    the storage, where nodes tell their units.
    """

    mode: Mode
    kind: InstanceKind
    size: Size
    before: State
    result: Capacity
    why: Obstruction | None
    left: StorageLeft | None = None


def obstacles(why: Obstruction | None) -> list[str]:
    """Which nodes kept instances from being allocated, and how many would fit without the check."""
    if why is None:
        return []
    cannot = "could not be lost with an instance more" if why.more else "cannot be lost"
    lines = [
        f"{obstacle.node} {cannot}: {layout.some(obstacle.instances)} would not come back"
        if obstacle.instances
        else f"{obstacle.node} has less memory free than it has to keep"
        for obstacle in why.obstacles[: layout.NAMED]
    ]
    more = len(why.obstacles) - len(lines)
    if more:
        lines.append(f"nor {more} other nodes" if more > 1 else "nor another node")
    return [*lines, f"without this check {why.unchecked} would fit"]


def instance_map(state: State, first: int) -> str:
    """A table of the instances from row ``first`` on: their nodes and sizes."""
    names, exclusive = [node.name for node in state.cluster.nodes], _exclusive(state)
    rows = [
        (
            instance.name,
            names[pnode],
            "" if snode == NOWHERE else names[snode],
            *(str(figure) for figure in (instance.mem, instance.dsk, instance.vcpus)),
            str(instance.spindles) if exclusive else "",
        )
        for instance, pnode, snode in zip(
            state.cluster.instances[first:],
            state.pnode[first:].tolist(),
            state.snode[first:].tolist(),
            strict=True,
        )
    ]
    return layout.table(rows[0], rows[1:], [False] * 3 + [True] * 4) if rows else ""


def key_lines(pairs: Pairs) -> str:
    """The ``HTS_`` lines of these keys and values."""
    return keys.lines("HTS", pairs)


def _score(figure: float) -> str:
    return fixed(figure, 8)


def _ratio(used: float, whole: float) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.float64(used) / np.float64(whole))


def _efficiency(figures: Resources) -> dict[str, float]:
    """What part (0 to 1) of memory and disk instances use, and of virtual CPUs and spindles is in use."""
    return {
        "memory": _ratio(figures.i_mem, figures.t_mem),
        "disk": _ratio(figures.i_dsk, figures.t_dsk),
        "vcpu": _ratio(figures.i_cpu, figures.v_cpu),
        "spindles": _ratio(figures.i_spindles, figures.t_spindles),
    }


def _figures(phase: str, r: Resources) -> Pairs:
    """The ``INI_``, ``TRL_`` or ``FIN_`` keys."""
    used = {kind: _score(part) for kind, part in _efficiency(r).items()}
    figures: dict[str, object] = {
        "SCORE": _score(r.score),
        "INST_CNT": r.instances,
        "MEM_FREE": r.f_mem,
        "MEM_AVAIL": r.a_mem,
        "MEM_RESVD": r.f_mem - r.a_mem,
        "MEM_INST": r.i_mem,
        "MEM_OVERHEAD": r.x_mem + r.n_mem,
        "MEM_EFF": used["memory"],
        "DSK_FREE": r.f_dsk,
        "DSK_AVAIL": r.a_dsk,
        "DSK_RESVD": r.f_dsk - r.a_dsk,
        "DSK_INST": r.i_dsk,
        "DSK_EFF": used["disk"],
        "SPN_FREE": r.f_spindles,
        "SPN_INST": r.i_spindles,
        "SPN_EFF": used["spindles"],
        "CPU_INST": r.i_cpu,
        "CPU_EFF": used["vcpu"],
        "MNODE_MEM_AVAIL": r.most_mem,
        "MNODE_DSK_AVAIL": r.most_dsk,
    }
    return [(f"{phase}_{key}", str(figure)) for key, figure in figures.items()]


def cluster(state: State, initial: Resources, machine_readable: bool) -> str:
    """The resources of the cluster before anything is allocated."""
    number, exclusive = len(state.cluster.nodes), _exclusive(state)
    totals = {
        "MEM": fixed(initial.t_mem, 0),
        "DSK": fixed(initial.t_dsk, 0),
        "CPU": fixed(initial.t_cpu, 0),
        "VCPU": str(initial.v_cpu),
    }
    if machine_readable or exclusive:
        totals["SPN"] = str(initial.t_spindles)
    if machine_readable:
        pairs = [(f"CLUSTER_{key}", figure) for key, figure in totals.items()]
        return key_lines([*pairs, ("CLUSTER_NODES", str(number)), *_figures("INI", initial)])
    listed = ", ".join(f"{key} {figure}" for key, figure in totals.items())
    return (
        f"The cluster has {number} nodes and the following resources:\n  {listed}.\n"
        f"There are {initial.instances or 'no'} initial instances on the cluster.\n"
    )


def _exclusive(state: State) -> bool:
    """Whether any node has exclusive storage, so that spindles count."""
    return bool(state.columns.excl_stor.any())


def _named(size: Size, spindles: bool) -> dict[str, int]:
    named = {"MEM": size.mem, "DSK": size.dsk, "CPU": size.vcpus}
    return named | {"SPN": size.spindles} if spindles else named


def _listed(size: Size, spindles: bool) -> str:
    return ", ".join(f"{key} {figure}" for key, figure in _named(size, spindles).items())


def spec(allocation: Allocation, machine_readable: bool) -> str:
    """The size that the allocation starts from."""
    mode, size, template = allocation.mode, allocation.size, allocation.kind.template
    if machine_readable:
        pairs = [(f"{mode.spec}_{key}", str(figure)) for key, figure in _named(size, True).items()]
        more = [(f"{mode.spec}_RQN", str(template.required_nodes))]
        return key_lines([*pairs, *more, (f"{mode.spec}_DISK_TEMPLATE", template.value)])
    listed, disks = _listed(size, _exclusive(allocation.before)), _disks(allocation.kind)
    return (
        f"{mode.description} instance spec is:\n  {listed}, using disk template '{template.value}'{disks}.\n"
    )


def _disks(kind: InstanceKind) -> str:
    """Where the disks are, and what is demanded of custom classes, as far as options say that."""
    demands = "".join(f", with {amount} of {name}" for name, amount in kind.demands)
    if not kind.disks:
        return (f" on {kind.unit}" if kind.unit else "") + demands
    disks = (f"{disk.size} MiB{f' on {disk.unit}' if disk.unit else ''}" for disk in kind.disks)
    return f", with disks of {' and '.join(disks)}{demands}"


def results(allocation: Allocation, initial: Resources, machine_readable: bool) -> str:
    """How many instances were allocated, what stopped it and what is used then."""
    mode, result = allocation.mode, allocation.result
    final = total(result.state)
    if machine_readable:
        more = _tier_keys(initial, final, result) if mode is TIERED else _count_keys(initial, result)
        return key_lines([*_figures(mode.figures, final), *more, *_obstacle_keys(mode, allocation.why)])
    exclusive = _exclusive(allocation.before)
    if mode is STANDARD:
        counts = f"Normal (fixed-size) allocation results:\n  - {result.placed:3} instances allocated\n"
    else:
        tiers = [
            f"  - {number:3} instances of spec {_listed(size, exclusive)}\n" for size, number in result.tiers
        ] or ["  - no instances allocated\n"]
        counts = f"Tiered allocation results:\n{''.join(tiers)}"
    reasons = _by_number(result)
    reason = reasons[0].value if reasons else "none, as none was to be allocated"
    listed = [f"  - {line}\n" for line in (*obstacles(allocation.why), *_storage(allocation.left))]
    used = _efficiency(final)
    if not exclusive:
        del used["spindles"]
    width = max(map(len, used))
    parts = [
        f"  - {kind:>{width}} usage efficiency: {fixed(part * 100, 2):>5}%\n" for kind, part in used.items()
    ]
    return (
        f"{counts}  - most likely failure reason: {reason}\n"
        f"{''.join(listed)}"
        f"  - initial cluster score: {_score(initial.score)}\n"
        f"  -   final cluster score: {_score(final.score)}\n{''.join(parts)}"
    )


def _storage(left: StorageLeft | None) -> Iterator[str]:
    """Lines about what ended first, and what is left of each unit and pool."""
    if left is None:
        return
    if left.ends_first:
        yield f"first to end: {left.ends_first}"
    for unit in (*left.units, *left.pools):
        name = f"{unit.type}/{unit.key}".removesuffix("/")
        if unit.free is None:
            yield f"{name}: how much is left is not known"
        else:
            most = "" if unit.most is None else f", at most {unit.most} on one node"
            yield f"{name}: {unit.free} of {unit.total} MiB left{most}"


def _count_keys(initial: Resources, result: Capacity) -> Pairs:
    before, reasons = initial.instances, _by_number(result)
    return [
        ("ALLOC_USAGE", _score(_ratio(before, before + result.placed))),
        ("ALLOC_INSTANCES", str(result.placed)),
        ("ALLOC_FAIL_REASON", reasons[0].value.upper()),
        *((f"ALLOC_{fail.value}_CNT", str(result.failures[fail])) for fail in reasons),
    ]


def _obstacle_keys(mode: Mode, why: Obstruction | None) -> Pairs:
    """Nodes that cannot be lost, each with its instances that would not come back; only if there are any."""
    if why is None:
        return []
    listed = " ".join(f"{each.node}={','.join(each.instances)}" for each in why.obstacles)
    return [(f"{mode.count}_OBSTACLES", listed), (f"{mode.count}_UNCHECKED", str(why.unchecked))]


def _by_number(result: Capacity) -> list[Fail]:
    """Reasons, the most frequent first."""
    failures = _told(result)
    return sorted(failures, key=lambda fail: -failures[fail])


def _told(result: Capacity) -> dict[Fail, int]:
    """How often each reason counted; that of custom resource classes only if it did."""
    failures = result.failures.items()
    return {fail: number for fail, number in failures if number or fail is not Fail.RESOURCE}


def _tier_keys(initial: Resources, final: Resources, result: Capacity) -> Pairs:
    tiers = [f"{size.mem},{size.dsk},{size.vcpus},{size.spindles}={number}" for size, number in result.tiers]
    pools = {
        "USED": (initial.i_cpu, initial.n_cpu, initial.i_mem, initial.i_dsk, initial.i_spindles),
        "POOL": (
            final.i_cpu - initial.i_cpu,
            final.n_cpu - initial.n_cpu,
            final.i_mem - initial.i_mem,
            final.i_dsk - initial.i_dsk,
            final.i_spindles - initial.i_spindles,
        ),
        "UNAV": (
            final.v_cpu - final.i_cpu,
            final.t_cpu - final.n_cpu,
            int(final.t_mem) - final.i_mem,
            int(final.t_dsk) - final.i_dsk,
            final.t_spindles - final.i_spindles,
        ),
    }
    metrics = [
        (f"KM_{pool}_{key}", show(figure) if key == "NPU" else str(figure))
        for pool, figures in pools.items()
        for key, figure in zip(("CPU", "NPU", "MEM", "DSK", "SPN"), figures, strict=True)
    ]
    return [("TSPEC", " ".join(tiers)), *metrics]


def cluster_json(state: State, initial: Resources) -> dict[str, Any]:
    """The cluster before anything is allocated, as a part of a JSON document."""
    return {"nodes": len(state.cluster.nodes), "resources": asdict(initial)}


def allocation_json(allocation: Allocation) -> dict[str, Any]:
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
        "failures": {fail.value: number for fail, number in _told(result).items()},
        "obstruction": asdict(why) if why else None,
        "efficiency": _efficiency(final),
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
