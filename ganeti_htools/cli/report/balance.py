"""Reports of ``hbal`` about a node group and a plan for it, as text and as JSON."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.report import health, layout, tables
from ganeti_htools.cli.terminal.program import print_json
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.engine.redundancy import health as redundancy_health
from ganeti_htools.engine.rules.broken_rules import broken_rules
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.model.columns import Bools, Columns, by_unit
from ganeti_htools.model.moves import as_carried_out
from ganeti_htools.model.state import State
from ganeti_htools.model.wording import counted, size
from ganeti_htools.planning.balancing.hbal import GroupPlan
from ganeti_htools.planning.jobsets import Names, PlannedMove, cost_of, jobsets

if TYPE_CHECKING:
    from ganeti_htools.pages.markup import Markup
    from ganeti_htools.planning.balancing.stranded import StrandedInstance


class Before(NamedTuple):
    """A node group before balancing: its nodes (``scope``), its score and the components (``figures``)."""

    state: State
    group: str
    scope: Bools
    score: float
    figures: Statistics


class After(NamedTuple):
    """A plan for a node group, its moves in jobsets, and the score that it leads to."""

    plan: GroupPlan
    sets: Sequence[Sequence[PlannedMove]]
    score: float
    figures: Statistics


class GroupReport(NamedTuple):
    """The report of a group.

    ``stranded`` are instances that stay on nodes which are offline or drained. ``planned`` is False for a
    group that was well balanced already.
    """

    before: Before
    after: After
    stranded: "Sequence[StrandedInstance]"
    planned: bool


class StepLines:
    """Lines about the steps of a plan for the nodes in scope, in the layout of Ganeti's htools."""

    def __init__(self, state: State, scope: Bools) -> None:
        names, here = Names(state), np.flatnonzero(scope[state.pnode]).tolist()
        nodes = np.flatnonzero(scope).tolist()
        self._instance = max((len(names.instances[row]) for row in here), default=0)
        self._nodes = 2 * max((len(names.nodes[row]) for row in nodes), default=0) + 1
        self._number = 0

    def line(self, move: PlannedMove) -> str:
        self._number += 1
        was, now = (":".join(nodes).ljust(self._nodes) for nodes in (move.was, move.now))
        score = fixed(move.step.score, 8).rjust(12)
        return f"  {self._number:3}. {move.instance:{self._instance}} {was} => {now} {score} a={move.summary}"


def about_group(before: Before, line: CommandLine) -> Iterator[str]:
    """Describe the group before balancing."""
    state, scope, columns = before.state, before.scope, before.state.columns
    yield f"Group size {scope.sum()} nodes, {scope[state.pnode].sum()} instances"
    yield f"Selected node group: {before.group}"
    bad = redundancy_health.bad_nodes(state, scope)
    if line.verbose >= 1:
        affected = redundancy_health.bad_instances(state, scope)
        yield f"Initial check done: {bad.sum()} bad nodes, {affected.sum()} bad instances."
    with np.errstate(divide="ignore", invalid="ignore"):
        cpu = columns.u_cpu / columns.t_cpu > columns.vcpu_ratio
    disk = columns.inst_spindles > columns.hi_spindles
    others = np.flatnonzero(scope & (~bad | _without_share(columns))).tolist()
    if line.verbose > 4:
        names = [node.name for node in state.cluster.nodes]
        health = ["Bad FailDisk" if disk[row] else "Bad FailCPU" if cpu[row] else "Ok ()" for row in others]
        statuses = (f"({_quoted(names[row])},{word})" for row, word in zip(others, health, strict=True))
        yield f"Bad nodes: [{','.join(_quoted(names[row]) for row in np.flatnonzero(bad).tolist())}]"
        yield f"N+1 happy nodes: [{','.join(_quoted(names[row]) for row in others)}]"
        yield f"Node policy status: [{','.join(statuses)}]"
    if bad.any():
        yield ("Cluster is not N+1 happy, continuing but no guarantee that the cluster will end N+1 happy.")
    violating = int((cpu | disk)[others].sum())
    if violating:
        yield f"The cluster contains {violating} policy-violating nodes."
        yield (
            "Continuing, ignoring soft errors."
            if line.ignore_soft_errors
            else "Continuing, but the set of moves might be too restricted; "
            "consider using the --ignore-soft-errors option."
        )


def _without_share(columns: Columns) -> Bools:
    """Nodes where a share of memory or CPUs is 0 / 0.

    Ganeti's htools compare NaN with limits, which is never true, so they do not count such a node as bad.
    """
    memory = (columns.unallocated == 0) | (columns.f_mem_forth == 0) | (columns.r_mem == 0)
    cpus = (columns.u_cpu == 0) | (columns.u_cpu_forth == 0)
    nothing: Bools = memory & (columns.t_mem == 0) | cpus & (columns.t_cpu == 0)
    return nothing


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def about_score(before: Before, verbose: int) -> Iterator[str]:
    if verbose > 2:
        yield f"Initial coefficients: overall {fixed(before.score, 8)}"
        yield components(before.figures)
    else:
        yield f"Initial score: {fixed(before.score, 8)}"


def about_plan(before: Before, after: After, verbose: int) -> Iterator[str]:
    """Describe the gain and the cost of a plan."""
    made, greedy = after.plan.moves, after.plan.greedy
    if after.plan.front:
        yield front_table(after.plan.front)
        if not made:
            yield "--pick=PLAN makes one of these plans"
            return
    if not made:
        yield "No solution found"
    elif verbose > 2:
        yield f"Final coefficients:   overall {fixed(after.score, 8)}"
        yield components(after.figures)
    else:
        # A repair of broken rules may have a higher score.
        verb = "rose" if after.score > before.score else "improved"
        yield f"Cluster score {verb} from {fixed(before.score, 8)} to {fixed(after.score, 8)}"
    if verbose > 0:
        yield f"Solution length={len(made)}"
        if made:
            yield cost_line(cost_of(after.sets), verbose > 1)
        if greedy is not None:
            if after.plan.price:
                yield (
                    f"Default price: {after.plan.price:g} for each TiB, and a gain of at least --min-gain"
                    " beyond it; --price=0 makes the most even plan"
                )
            yield brief("Greedy plan:   ", greedy, before.score)
            yield brief("Optimised plan:", made, before.score)
        if made and verbose == 2:
            yield changes(before.figures, after.figures)


def page_notes(groups: Sequence[GroupReport]) -> list[str]:
    """Describe the gain of each group's plan, and the instances that it leaves on lost nodes, in lines."""
    lines = []
    for before, after, stranded, planned in groups:
        if not after.plan.moves and not after.plan.front:
            lines.append(
                f"{before.group}: {'no better placement found' if planned else 'well balanced already'}"
            )
        left = () if after.plan.front and not after.plan.moves else stranded
        lines += [f"{each.instance} is left on {', '.join(each.nodes)}: {each.why}" for each in left]
    return lines


def cost_line(cost: Mapping[str, Any], by_unit: bool = False) -> str:
    """Describe the cost of a plan in one line; ``by_unit`` adds the MiB to copy of each storage unit."""
    units = ", ".join(f"{size(mib)} on {unit}" for unit, mib in cost.get("disk_mib_by_unit", {}).items())
    disks = f"{size(cost['disk_mib'])} of disks{f' ({units})' if by_unit and units else ''}"
    moves = ", ".join(f"{number} {_moves(number, name)}" for name, number in cost["moves"].items())
    jobsets = counted(cost["jobsets"], "jobset")
    return f"Cost: {moves}; to copy: {disks}, {size(cost['memory_mib'])} of memory; {jobsets}"


_SINGULAR = {
    "failovers": "failover",
    "migrations": "migration",
    "secondaries": "secondary",
    "primaries": "primary",
    "moves of stopped instances": "move of a stopped instance",
}


def _moves(number: int, name: str) -> str:
    """Put the name of a kind of moves in the singular if there is only one."""
    for many, one in _SINGULAR.items():
        name = name.replace(many, one, 1) if number == 1 else name
    return name


def brief(title: str, made: Sequence[PlannedMove], initial: float) -> str:
    """Summarise a plan in one line, to compare it with another for the same group."""
    figures = _rival(made, initial)
    cost = figures["cost"]
    copied = f"{size(cost['disk_mib'])} of disks, {size(cost['memory_mib'])} of memory"
    score = fixed(figures["score"], 8)
    return f"{title} score {score}, {counted(len(made), 'move')}; to copy: {copied}"


def front_table(plans: Sequence[Mapping[str, Any]]) -> str:
    """Lay out the plans to pick from, the one that copies least first."""
    header, rows = _front(plans)
    return layout.table(header, rows, [True] * len(header), "  ").removesuffix("\n")


def _front(plans: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return the header and the cells of the plans to pick from."""
    weighted = any(plan["weighted_mib"] != plan["disk_mib"] + plan["memory_mib"] for plan in plans)
    header = ["Plan", "Score", "Moves", "GiB", "Time", *(["Weighted GiB"] if weighted else [])]
    rows = []
    for plan in plans:
        copied = plan["disk_mib"] + plan["memory_mib"]
        cells = [str(plan["plan"]), fixed(float(plan["score"]), 8), str(plan["moves"]), layout.gib(copied)]
        cells.append(_duration(plan["seconds"]))
        cells += [layout.gib(plan["weighted_mib"])] if weighted else []
        rows.append(cells)
    return header, rows


def page_answer(groups: Sequence[GroupReport]) -> tuple[str, dict[str, str]]:
    """Answer for a page without moves, in a sentence and in figures: the plans to pick from, if any."""
    plans = [plan for group in groups for plan in group.after.plan.front]
    if not plans:
        return "No instance moves.", {}
    scores = " → ".join(fixed(float(plan["score"]), 2) for plan in (plans[0], plans[-1]))
    copied = size(plans[-1]["disk_mib"] + plans[-1]["memory_mib"])
    most = f"{counted(plans[-1]['moves'], 'move')}, {copied} to copy"
    sentence = f"{counted(len(plans), 'plan')} to pick from, up to {most}; unevenness {scores}"
    return f"{sentence}; --pick=N makes plan N.", {
        "Plans": str(len(plans)),
        "Unevenness": scores,
        "To copy": f"up to {copied}",
    }


def page_front(groups: Sequence[GroupReport]) -> "Iterator[Markup]":
    """Yield the section of a page about the plans to pick from, if there are any."""
    from ganeti_htools.pages.front import front  # seldom needed

    for group in groups:
        if found := group.after.plan.front:
            header, rows = _front(found)
            units = [{"Time": "Time (h:min)"}.get(name, name) for name in header]
            yield front(group.before.group, found, units, rows)


def _duration(seconds: float) -> str:
    """Format an estimated time: hours and minutes."""
    hours, minutes = divmod(math.ceil(seconds / 60), 60)
    return f"{hours}:{minutes:02}"


def components(figures: Statistics) -> str:
    """Lay out the components of a score as Ganeti's htools do."""
    table = tables.components(figures) if figures.online else "   Field Value Weight\n"
    return table.removesuffix("\n")


def changes(before: Statistics, after: Statistics) -> str:
    """Lay out the components of the score before and after a plan, without those that stay 0."""
    rows = [
        (name, fixed(float(old), 8), fixed(float(new), 8), f"x{weight:.2f}")
        for name, weight, old, new in zip(
            before.names, before.weights, before.components(), after.components(), strict=True
        )
        if old or new
    ]
    header = ("Field", "Before", "After", "Weight")
    return layout.table(header, rows, (False, True, True, True), "  ").removesuffix("\n")


def totals(title: str, state: State, scope: Bools) -> str:
    """Sum up the free memory and disk (MiB, all storage units) of the nodes in one line."""
    memory = int(state.columns.unallocated[scope].sum())
    disk = sum(int(free[scope].sum()) for free in by_unit(state.columns, "f_dsk"))
    return f"{title + ':':9} mem={memory} disk={disk}"


def report(
    state: State,
    groups: Sequence[GroupReport],
    many: bool,
    more: Mapping[str, Any],
    outcome: Mapping[str, Any] | None = None,
    repairs: bool = False,
) -> None:
    """Print a plan that starts from a state as a JSON document, of one group or of ``many``.

    ``more`` has further keys, ``outcome`` the record of its run, if it was carried out. ``repairs``: the plan
    repairs broken rules.
    """
    documents, number = [], 0
    for group in groups:
        after = group.after.plan.after
        broken = {"broken_rules": health.broken_rules_json(after, broken_rules(after))} if repairs else {}
        documents.append(_document(group, number) | broken)
        number += len(group.after.sets)
    cost = cost_of([moves for group in groups for moves in group.after.sets])
    print_json(
        {
            "nodes": len(state.cluster.nodes),
            "instances": len(state.cluster.instances),
            **({"groups": documents, "cost": cost} if many else documents[0]),
            **more,
            **({} if outcome is None else {"execution": outcome}),
        },
        state.cluster,
    )


def _document(group: GroupReport, jobsets_before: int) -> dict[str, Any]:
    before, after, stranded, _ = group
    state, scope, greedy = before.state, before.scope, after.plan.greedy
    steps = [
        {
            "instance": move.step.instance,
            "move": as_carried_out(move.step.title, move.commands),
            "from": move.step.was,
            "to": move.step.now,
            "score": move.step.score,
            "jobset": number,
            "commands": move.commands,
        }
        for number, jobs in enumerate(after.sets, jobsets_before + 1)
        for move in jobs
    ]
    parts = [side.figures.components() for side in (before, after)]
    front = [{**plan, "score": float(plan["score"])} for plan in after.plan.front]
    return {
        "group": {
            "name": before.group,
            "nodes": int(scope.sum()),
            "instances": int(scope[state.pnode].sum()),
        },
        "score": {"before": before.score, "after": after.score},
        "components": {
            name: {"weight": weight, "before": float(old), "after": float(new)}
            for name, weight, old, new in zip(
                before.figures.names, before.figures.weights, *parts, strict=True
            )
            if weight
        },
        "cost": cost_of(after.sets),
        "steps": steps,
        "left_on_offline_nodes": [each._asdict() for each in stranded],
        **({} if greedy is None else {"greedy": _rival(greedy, before.score)}),
        **({"default_price": after.plan.price} if after.plan.price else {}),
        **({"front": front} if front else {}),
    }


def _rival(made: Sequence[PlannedMove], initial: float) -> dict[str, Any]:
    score = made[-1].step.score if made else initial
    return {"score": score, "cost": cost_of(jobsets(made))}
