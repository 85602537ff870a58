"""Report of ``hspace`` about the instances that fit, as text."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.report import layout
from ganeti_htools.cli.report.allocation import STANDARD, Allocation, by_number, efficiency, named, score
from ganeti_htools.cli.report.storage_left import StorageLeft
from ganeti_htools.cli.report.totals import Resources, total
from ganeti_htools.engine.capacity.obstacles import Obstruction
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.state import State
from ganeti_htools.model.types import Fail
from ganeti_htools.model.wording import counted, shorten_names, size

if TYPE_CHECKING:
    from ganeti_htools.pages.markup import Markup


def cluster(state: State, initial: Resources) -> str:
    """Describe the resources of the cluster before allocation."""
    number, exclusive = len(state.cluster.nodes), _exclusive(state)
    totals = {
        "MEM": fixed(initial.t_mem, 0),
        "DSK": fixed(initial.t_dsk, 0),
        "CPU": fixed(initial.t_cpu, 0),
        "VCPU": str(initial.v_cpu),
    }
    if exclusive:
        totals["SPN"] = str(initial.t_spindles)
    listed = ", ".join(f"{key} {figure}" for key, figure in totals.items())
    return (
        f"The cluster has {number} nodes and the following resources:\n  {listed}.\n"
        f"There are {initial.instances or 'no'} initial instances on the cluster.\n"
    )


def spec(allocation: Allocation) -> str:
    """The size that the allocation starts from."""
    mode, size, template = allocation.mode, allocation.size, allocation.kind.template
    listed, disks = _listed(size, _exclusive(allocation.before)), _disks(allocation.kind)
    return (
        f"{mode.description} instance spec is:\n  {listed}, using disk template '{template.value}'{disks}.\n"
    )


def _disks(kind: InstanceKind) -> str:
    """Describe the storage units of disks and the demands of custom classes that options name."""
    demands = "".join(f", with {amount} of {name}" for name, amount in kind.demands)
    if not kind.disks:
        return (f" on {kind.unit}" if kind.unit else "") + demands
    disks = (f"{disk.size} MiB{f' on {disk.unit}' if disk.unit else ''}" for disk in kind.disks)
    return f", with disks of {' and '.join(disks)}{demands}"


def results(allocation: Allocation, initial: Resources) -> str:
    """Describe the number of allocated instances, the reason to stop, and the usage at the end."""
    mode, result = allocation.mode, allocation.result
    final = total(result.state)
    exclusive = _exclusive(allocation.before)
    if mode is STANDARD:
        counts = f"Normal (fixed-size) allocation results:\n  - {result.placed:3} instances allocated\n"
    else:
        tiers = [
            f"  - {number:3} instances of spec {_listed(size, exclusive)}\n" for size, number in result.tiers
        ] or ["  - no instances allocated\n"]
        counts = f"Tiered allocation results:\n{''.join(tiers)}"
    reasons = by_number(result)
    reason = reasons[0].value if reasons else "none, as none was to be allocated"
    listed = [f"  - {line}\n" for line in (*obstacles(allocation.why), *_storage(allocation.left))]
    used = efficiency(final)
    if not exclusive:
        del used["spindles"]
    width = max(map(len, used))
    parts = [
        f"  - {kind:>{width}} usage efficiency: {fixed(part * 100, 2):>5}%\n" for kind, part in used.items()
    ]
    return (
        f"{counts}  - most likely failure reason: {reason}\n"
        f"{''.join(listed)}"
        f"  - initial cluster score: {score(initial.score)}\n"
        f"  -   final cluster score: {score(final.score)}\n{''.join(parts)}"
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


# The words of a page for reasons to stop; the others are rare, and keep their names.
_WORDS = {
    Fail.MEM: "memory",
    Fail.DISK: "disk",
    Fail.CPU: "virtual CPUs",
    Fail.N1: "memory kept for failovers (N+1)",
    Fail.SPINDLES: "spindles",
    Fail.TAGS: "exclusion tags",
}


def _ends(allocation: Allocation) -> str:
    """Name what ends first."""
    if allocation.left and allocation.left.ends_first:
        return allocation.left.ends_first
    reasons = by_number(allocation.result)
    return _WORDS.get(reasons[0], reasons[0].value) if reasons else ""


def _amounts(each: InstanceSize) -> str:
    return f"{size(each.mem)} of memory, {size(each.dsk)} of disk, {counted(each.vcpus, 'virtual CPU')}"


def page_answer(allocations: Sequence[Allocation]) -> tuple[str, dict[str, str]]:
    """Answer how many more instances fit, and what ends first, in a sentence and in figures."""
    fixed_size = allocations[-1]
    placed, ends = fixed_size.result.placed, _ends(fixed_size)
    fit = f"{counted(placed, 'more instance')} of the standard size {'fits' if placed == 1 else 'fit'}"
    why = f"; {_obstruction(fixed_size.why)}" if fixed_size.why else f"; first to end: {ends}" if ends else ""
    figures = {"More that fit": f"{placed:,}", "Tiered sizes that fit": f"{allocations[0].result.placed:,}"}
    return f"{fit} ({_amounts(fixed_size.size)}){why}.", figures | {"First to end": ends or "nothing"}


def page_section(allocations: Sequence[Allocation]) -> "Iterator[Markup]":
    from ganeti_htools.pages.markup import element, section, table  # seldom needed

    rows = []
    for each in allocations:
        ends = _obstruction(each.why) if each.why else _ends(each)
        for kind, number in each.result.tiers or ((each.size, each.result.placed),):
            rows.append((each.mode.name, str(number), _amounts(kind), ends))
            ends = ""
    header = ("Mode", "Instances", "Size", "First to end")
    note = element("p", "The plan in the sections below is the allocation of standard instances.")
    fitting = table("Instances that fit", header, rows, (False, True, False, False), 8)
    yield section("Capacity", note, fitting)


def _obstruction(why: Obstruction) -> str:
    """Name the nodes that prevent any allocation in a few words."""
    nodes, more = shorten_names([each.node for each in why.obstacles]), "with one more " * why.more
    return f"{more}N+1 fails on {nodes}; without this check {why.unchecked} would fit"


def obstacles(why: Obstruction | None) -> list[str]:
    """Name the nodes that prevent any allocation, and the number of instances that fit without the check."""
    if why is None:
        return []
    cannot = "cannot fail without loss with one more instance" if why.more else "cannot fail without loss"
    lines = [
        f"{obstacle.node} {cannot}: {layout.first_of(obstacle.instances)} would not come back"
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


def _exclusive(state: State) -> bool:
    """Whether any node has exclusive storage, so that spindles count."""
    return bool(state.columns.excl_stor.any())


def _listed(size: InstanceSize, spindles: bool) -> str:
    return ", ".join(f"{key} {figure}" for key, figure in named(size, spindles).items())
