"""Report of ``hspace`` about the instances that fit, as ``KEY=VALUE`` lines."""

from collections.abc import Iterable

from ganeti_htools.backends.haskell import fixed, show
from ganeti_htools.cli.report.allocation import (
    TIERED,
    Allocation,
    Mode,
    by_number,
    efficiency,
    named,
    ratio,
    score,
)
from ganeti_htools.cli.report.layout import key_lines
from ganeti_htools.cli.report.totals import Resources, total
from ganeti_htools.engine.capacity.counting import Capacity
from ganeti_htools.engine.capacity.obstacles import Obstruction
from ganeti_htools.model.state import State

Pairs = Iterable[tuple[str, str]]


def cluster(state: State, initial: Resources) -> str:
    """The resources of the cluster before anything is allocated."""
    totals = {
        "CLUSTER_MEM": fixed(initial.t_mem, 0),
        "CLUSTER_DSK": fixed(initial.t_dsk, 0),
        "CLUSTER_CPU": fixed(initial.t_cpu, 0),
        "CLUSTER_VCPU": str(initial.v_cpu),
        "CLUSTER_SPN": str(initial.t_spindles),
        "CLUSTER_NODES": str(len(state.cluster.nodes)),
    }
    return _lines([*totals.items(), *_figures("INI", initial)])


def spec(allocation: Allocation) -> str:
    """The size that the allocation starts from."""
    mode, template = allocation.mode, allocation.kind.template
    size = {key: str(figure) for key, figure in named(allocation.size, True).items()}
    more = {"RQN": str(template.required_nodes), "DISK_TEMPLATE": template.value}
    return _lines((f"{mode.spec}_{key}", figure) for key, figure in (size | more).items())


def results(allocation: Allocation, initial: Resources) -> str:
    """Report the number of allocated instances, the reason to stop, and the usage at the end."""
    mode, result = allocation.mode, allocation.result
    final = total(result.state)
    more = _tier_keys(initial, final, result) if mode is TIERED else _count_keys(initial, result)
    return _lines([*_figures(mode.figures, final), *more, *_obstacle_keys(mode, allocation.why)])


def end() -> str:
    """Return the line that marks the end of the report."""
    return _lines([("OK", "1")])


def _lines(pairs: Pairs) -> str:
    return key_lines("HTS", pairs)


def _figures(phase: str, r: Resources) -> Pairs:
    """The ``INI_``, ``TRL_`` or ``FIN_`` keys."""
    used = {kind: score(part) for kind, part in efficiency(r).items()}
    figures: dict[str, object] = {
        "SCORE": score(r.score),
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


def _count_keys(initial: Resources, result: Capacity) -> Pairs:
    before, reasons = initial.instances, by_number(result)
    return [
        ("ALLOC_USAGE", score(ratio(before, before + result.placed))),
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
