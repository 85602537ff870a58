"""``hspace``: count how many more instances a cluster takes (``hspace(1)``)."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ganeti_htools.backends.haskell import fixed, show
from ganeti_htools.cli import clusters
from ganeti_htools.cli.report import keys, tables
from ganeti_htools.cli.report.records import record
from ganeti_htools.cli.terminal.program import execute, print_json
from ganeti_htools.cli.terminal.saying import progress, say, warn
from ganeti_htools.cli.viewing import seen
from ganeti_htools.commandline.parameters import algorithm
from ganeti_htools.commandline.programs import HSPACE
from ganeti_htools.commandline.reading import CommandLine
from ganeti_htools.engine.capacity.counting import Capacity, check_enough, standard, tiered
from ganeti_htools.engine.capacity.obstacles import Obstruction, obstruction
from ganeti_htools.engine.capacity.shrinking import Kind, Site, Size
from ganeti_htools.engine.capacity.totals import Resources, total
from ganeti_htools.engine.redundancy.global_n1 import assess
from ganeti_htools.engine.rules import affinity, choice
from ganeti_htools.model.cluster import Cluster, common_suffix
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.errors import HtoolsError, RequestFailed
from ganeti_htools.model.policy import ISpec
from ganeti_htools.model.state import State
from ganeti_htools.model.types import AllocPolicy, DiskTemplate, Fail

Pairs = Iterable[tuple[str, str]]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; its exit status."""
    return execute(HSPACE, run, argv)


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


def run(line: CommandLine) -> int:
    """Load, allocate both ways, tell; the exit status. Raises HtoolsError."""
    cluster = clusters.load(line)
    state = seen(cluster, line)
    kind, sizes, size = _asked(cluster, line)
    initial = total(state)
    _introduce(state, line)
    if not line.json:
        print(_cluster(state, initial, line), end="", flush=True)
    site = _site(state, kind, line)
    limit = None if line.max_length == -1 else line.max_length
    report: dict[str, Any] = {"cluster": _cluster_json(state, initial)}
    for mode in (TIERED, STANDARD):
        asked = sizes if mode is TIERED else [size]
        result = Capacity(state, (), {Fail.N1: 1})
        if site is not None:
            result = _allocated(mode, state, kind, asked, site, limit)
        why = None if result.placed else _obstruction(mode, state, kind, asked, site, limit, line)
        _tell(mode, result, why, state, line)
        if line.json:
            report[mode.name.lower()] = _result_json(result, why, asked[0], kind)
        else:
            lines = (
                _spec(mode, asked[0], kind, state, line),
                _results(mode, initial, result, why, state, line),
            )
            print(*lines, sep="", end="", flush=True)
    if line.json:
        print_json(report)
    elif line.machine_readable:
        print(_keys([("OK", "1")]), end="")
    return 0


def _asked(cluster: Cluster, line: CommandLine) -> tuple[Kind, list[Size], Size]:
    """The kind of instances, the sizes to start from in tiered allocation, and the standard size."""
    policy = cluster.ipolicy
    template = line.disk_template or next(iter(policy.disk_templates), None)
    if template is None:
        raise HtoolsError("null list of disk templates received from cluster")
    use = policy.std.spindle_use if line.spindle_use is None else line.spindle_use
    sizes = [_given(line.tiered_alloc)] if line.tiered_alloc else [_size(pair.max) for pair in policy.minmax]
    if not sizes:
        raise HtoolsError("Empty list of specs received from the cluster")
    size = _given(line.standard_alloc) if line.standard_alloc else _size(policy.std)
    return Kind(template, use), sizes, size


def _size(spec: ISpec) -> Size:
    return Size(spec.memory_size, spec.disk_size, spec.cpu_count, spec.spindle_use)


def _given(spec: Sequence[int]) -> Size:
    dsk, mem, vcpus, spindles = spec
    return Size(mem, dsk, vcpus, spindles)


def _introduce(state: State, line: CommandLine) -> None:
    """What is told of the cluster on standard error."""
    suffix = common_suffix(state.cluster)
    if suffix and line.verbose > 1:
        warn(f"Note: Stripping common suffix of '{suffix}' from names")
    if line.print_nodes is not None:
        say(tables.node_status("Initial cluster", state, line.print_nodes))
    if line.verbose > 2:
        everyone = np.ones(len(state.group), np.bool_)
        figures = choice.base(state, everyone, affinity.crowding(state, everyone))
        score = fixed(float(figures.score()), 8)
        say(f"Initial coefficients: overall {score}\n{tables.components(figures)}")


def _site(state: State, kind: Kind, line: CommandLine) -> Site | None:
    """Where instances may go; None if redundancy that is missing forbids any. Raises HtoolsError.

    A node that is not N+1 rules out all, or only its group (``--independent-groups``, which also rules
    out groups that are not redundant), or nothing (``--accept-existing-errors``).
    """
    groups, options = state.cluster.groups, algorithm(line)
    bad_nodes = state.columns.fail_n1 & ~state.columns.offline
    bad_groups = np.zeros(len(groups), np.bool_)
    if line.independent_groups or line.verbose > 3:
        bad_groups[:] = [not assess(state, state.group == row, options).holds() for row in range(len(groups))]
    if line.verbose > 3:
        _list("Bad nodes", [node.name for node in _chosen(state.cluster.nodes, bad_nodes)])
        _list("Bad groups", [group.name for group in _chosen(groups, bad_groups)])
    allocable = np.array([group.alloc_policy is not AllocPolicy.UNALLOCABLE for group in groups], np.bool_)
    if not line.accept_existing_errors:
        allocable[state.group[bad_nodes]] = False
    ignored = np.zeros(len(state.group), np.bool_)
    if line.independent_groups:
        allocable &= ~bad_groups
        ignored = bad_groups[state.group]
    spared = line.accept_existing_errors or (line.independent_groups and bool(allocable.any()))
    nodes = np.flatnonzero(~state.columns.offline & allocable[state.group])
    if line.verbose > 3:
        warn(f"Allocatable nodes: {_places(state, kind, nodes)}")
    if bad_nodes.any() and not spared:
        return None
    try:
        check_enough(state, kind.template, nodes)
    except RequestFailed as failure:
        raise HtoolsError(f"failure during allocation: {failure}") from failure
    return Site(nodes, ignored, options)


def _obstruction(
    mode: Mode,
    state: State,
    kind: Kind,
    sizes: Sequence[Size],
    site: Site | None,
    limit: int | None,
    line: CommandLine,
) -> Obstruction | None:
    """Why nothing was allocated, if it is redundancy that is or would be missing."""
    options = algorithm(line)
    if site is not None and not site.guards(kind.template is DiskTemplate.DRBD):
        return None
    groups = state.cluster.groups
    allocable = np.array([group.alloc_policy is not AllocPolicy.UNALLOCABLE for group in groups], np.bool_)
    nodes = np.flatnonzero(~state.columns.offline & allocable[state.group])
    everywhere = site or Site(nodes, np.zeros(len(state.group), np.bool_), options)
    unchecked = replace(everywhere, nodes=nodes, options=replace(options, capacity=False))
    try:
        check_enough(state, kind.template, nodes)
    except RequestFailed:
        return None
    without = _allocated(mode, state, kind, sizes, unchecked, limit)
    if not without.placed:
        return None
    one = _allocated(mode, state, kind, [without.tiers[0][0]], unchecked, 1)
    return obstruction(state, one.state, without.placed, everywhere)


def _places(state: State, kind: Kind, nodes: Ints) -> str:
    """Rows of the nodes, or of primaries with those of their possible secondaries."""
    if kind.template.required_nodes == 1:
        return f"Left {_rows(nodes)}"
    seconds = {node: nodes[(state.group[nodes] == state.group[node]) & (nodes != node)] for node in nodes}
    pairs = (f"({node},{_rows(others)})" for node, others in seconds.items() if len(others))
    return f"Right [{','.join(pairs)}]"


def _rows(nodes: Ints) -> str:
    return f"[{','.join(map(str, nodes))}]"


def _chosen(rows: Sequence[Any], chosen: Bools) -> list[Any]:
    return [rows[row] for row in np.flatnonzero(chosen).tolist()]


def _list(title: str, names: Sequence[str]) -> None:
    if names:
        warn(f"{title}: {record(tuple(names))}")


def _allocated(
    mode: Mode, state: State, kind: Kind, sizes: Sequence[Size], site: Site, limit: int | None
) -> Capacity:
    with progress() as tell:
        placed = 0

        def count(_: int) -> None:
            nonlocal placed
            placed += 1
            if placed % 64 == 0:
                tell(f"{mode.name} allocation: {placed} instances tried")

        site = replace(site, progress=count)
        if mode is TIERED:
            return tiered(state, kind, sizes, site, limit)
        return standard(state, kind, sizes[0], site, limit)


def _tell(mode: Mode, result: Capacity, why: Obstruction | None, state: State, line: CommandLine) -> None:
    """What is told of an allocation on standard error, and its file."""
    title = f"{mode.name} allocation"
    for obstacle in _obstacles(why) if why else ():
        warn(f"{title}: {obstacle}")
    if line.verbose > 1:
        say(f"{title} map\n{_map(result.state, len(state.cluster.instances))}")
    if line.print_nodes is not None:
        # Names are shortened as they were before; those of the new instances have no domain.
        named = replace(result.state.cluster, instances=state.cluster.instances)
        say(tables.node_status(title, replace(result.state, cluster=named), line.print_nodes))
    if line.save is not None:
        settled = result.state.settled()
        warn(clusters.save(line.save, mode.name.lower(), f"after {title.lower()}", settled))


# So many nodes, and instances of each, are named in a text.
NAMED = 8


def _obstacles(why: Obstruction) -> list[str]:
    """Why nothing was allocated, and what would be without it, line by line."""
    cannot = "could not be lost with an instance more" if why.more else "cannot be lost"
    lines = [
        f"{obstacle.node} {cannot}: {_some(obstacle.instances)} would not come back"
        if obstacle.instances
        else f"{obstacle.node} has less memory free than it has to keep"
        for obstacle in why.obstacles[:NAMED]
    ]
    more = len(why.obstacles) - len(lines)
    if more:
        lines.append(f"nor {more} other nodes" if more > 1 else "nor another node")
    return [*lines, f"without this check {why.unchecked} would fit"]


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:NAMED])} and {more} more"


def _map(state: State, first: int) -> str:
    """The instances from a row on, and where they are."""
    names, exclusive = [node.name for node in state.cluster.nodes], bool(state.columns.excl_stor.any())
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
    return tables.table(rows[0], rows[1:], [False] * 3 + [True] * 4) if rows else ""


def _keys(pairs: Pairs) -> str:
    return keys.lines("HTS", pairs)


def _score(figure: float) -> str:
    return fixed(figure, 8)


def _ratio(used: float, whole: float) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.float64(used) / np.float64(whole))


def _efficiency(figures: Resources) -> dict[str, float]:
    """What part of the totals instances use; of virtual CPUs and spindles, what is in use."""
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


def _cluster(state: State, initial: Resources, line: CommandLine) -> str:
    number, exclusive = len(state.cluster.nodes), bool(state.columns.excl_stor.any())
    totals = {
        "MEM": fixed(initial.t_mem, 0),
        "DSK": fixed(initial.t_dsk, 0),
        "CPU": fixed(initial.t_cpu, 0),
        "VCPU": str(initial.v_cpu),
    }
    if line.machine_readable or exclusive:
        totals["SPN"] = str(initial.t_spindles)
    if line.machine_readable:
        pairs = [(f"CLUSTER_{key}", figure) for key, figure in totals.items()]
        return _keys([*pairs, ("CLUSTER_NODES", str(number)), *_figures("INI", initial)])
    listed = ", ".join(f"{key} {figure}" for key, figure in totals.items())
    return (
        f"The cluster has {number} nodes and the following resources:\n  {listed}.\n"
        f"There are {initial.instances or 'no'} initial instances on the cluster.\n"
    )


def _named(size: Size, spindles: bool) -> dict[str, int]:
    named = {"MEM": size.mem, "DSK": size.dsk, "CPU": size.vcpus}
    return named | {"SPN": size.spindles} if spindles else named


def _listed(size: Size, spindles: bool) -> str:
    return ", ".join(f"{key} {figure}" for key, figure in _named(size, spindles).items())


def _spec(mode: Mode, size: Size, kind: Kind, state: State, line: CommandLine) -> str:
    template = kind.template
    if line.machine_readable:
        pairs = [(f"{mode.spec}_{key}", str(figure)) for key, figure in _named(size, True).items()]
        more = [(f"{mode.spec}_RQN", str(template.required_nodes))]
        return _keys([*pairs, *more, (f"{mode.spec}_DISK_TEMPLATE", template.value)])
    listed = _listed(size, bool(state.columns.excl_stor.any()))
    return f"{mode.description} instance spec is:\n  {listed}, using disk template '{template.value}'.\n"


def _results(
    mode: Mode,
    initial: Resources,
    result: Capacity,
    why: Obstruction | None,
    state: State,
    line: CommandLine,
) -> str:
    final = total(result.state)
    if line.machine_readable:
        more = _tier_keys(initial, final, result) if mode is TIERED else _count_keys(initial, result)
        return _keys([*_figures(mode.figures, final), *more, *_obstacle_keys(mode, why)])
    exclusive = bool(state.columns.excl_stor.any())
    if mode is STANDARD:
        counts = f"Normal (fixed-size) allocation results:\n  - {result.placed:3} instances allocated\n"
    else:
        listed = [
            f"  - {number:3} instances of spec {_listed(size, exclusive)}\n" for size, number in result.tiers
        ] or ["  - no instances allocated\n"]
        counts = f"Tiered allocation results:\n{''.join(listed)}"
    reasons = _by_number(result)
    reason = reasons[0].value if reasons else "none, as none was to be allocated"
    obstacles = [f"  - {obstacle}\n" for obstacle in (_obstacles(why) if why else ())]
    used = _efficiency(final)
    if not exclusive:
        del used["spindles"]
    width = max(map(len, used))
    parts = [
        f"  - {kind:>{width}} usage efficiency: {fixed(part * 100, 2):>5}%\n" for kind, part in used.items()
    ]
    return (
        f"{counts}  - most likely failure reason: {reason}\n"
        f"{''.join(obstacles)}"
        f"  - initial cluster score: {_score(initial.score)}\n"
        f"  -   final cluster score: {_score(final.score)}\n{''.join(parts)}"
    )


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
    return sorted(result.failures, key=lambda fail: -result.failures[fail])


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


def _cluster_json(state: State, initial: Resources) -> dict[str, Any]:
    return {"nodes": len(state.cluster.nodes), "resources": asdict(initial)}


def _result_json(result: Capacity, why: Obstruction | None, size: Size, kind: Kind) -> dict[str, Any]:
    final = total(result.state)
    return {
        "disk_template": kind.template.value,
        "required_nodes": kind.template.required_nodes,
        "spindle_use": kind.spindle_use,
        "spec": asdict(size),
        "instances": result.placed,
        "tiers": [asdict(tier) | {"instances": number} for tier, number in result.tiers],
        "failures": {fail.value: number for fail, number in result.failures.items()},
        "obstruction": asdict(why) if why else None,
        "efficiency": _efficiency(final),
        "resources": asdict(final),
    }


if __name__ == "__main__":
    sys.exit(main())
