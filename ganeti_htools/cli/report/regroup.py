"""Report of ``hregroup`` about node groups and plans for them, as text and as JSON."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.report import moves as move_report
from ganeti_htools.cli.report.layout import fitting_table, gib
from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.groups.bottleneck import bottleneck
from ganeti_htools.engine.groups.diagnosis import reasons
from ganeti_htools.engine.groups.levelling import DYNAMIC, STATIC, GroupLoads, group_loads
from ganeti_htools.engine.groups.outcome import RegroupingOutcome
from ganeti_htools.engine.groups.partitions import exchanges, methods
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.routes import end_of_route
from ganeti_htools.model.columns import by_unit, sorted_unique
from ganeti_htools.model.state import State
from ganeti_htools.model.wording import counted, size
from ganeti_htools.planning.groups.hregroup import RegroupPlan
from ganeti_htools.planning.jobsets import PlannedMove
from ganeti_htools.planning.redundancy_changes import redundancy_changes

_DONE = {"redistribute": "Repaired", "compress": "Emptied", "balance": "Balanced"}


def groups_text(now: Regrouping) -> str:
    """The table of groups, why some are not healthy, and which pairs cannot exchange instances."""
    told = groups_json(now)
    units = list(map(str, now.state.units.local))
    disks = [f"Disk {unit}" for unit in units] if now.state.units.reported else ["Disk"]
    header = (
        "Group",
        "Nodes",
        "Instances",
        "Health",
        "Memory",
        *disks,
        "vCPUs",
        "Load",
        "Score",
        "Partitions",
    )
    rows = [
        (
            each["name"],
            str(each["nodes"]),
            str(each["instances"]),
            each["health"],
            f"{gib(each['used']['memory'])}/{gib(each['free']['memory'])}",
            *(f"{gib(each['used']['disk'][unit])}/{gib(each['free']['disk'][unit])}" for unit in units),
            f"{each['used']['vcpus']}/{each['free']['vcpus']}",
            fixed(sum(each["load"].values()), 2),
            fixed(each["score"], 8),
            ",".join(each["partitions"]),
        )
        for each in told["groups"]
    ]
    numeric = (False, True, True, False, *[True] * (len(disks) + 4), False)
    lines = ["Node groups (used/free, memory and disk in GiB):\n", fitting_table(header, rows, numeric, " ")]
    for each in told["groups"]:
        lines += [f"{each['name']} is {each['health']}: {why}\n" for why in each["why"]]
    if told["closed"]:
        lines.append("Cannot exchange instances:\n")
        lines += [f"  {each['from']} to {each['to']}: {each['why']}\n" for each in told["closed"]]
    return "".join(lines)


def groups_json(now: Regrouping) -> dict[str, Any]:
    """Describe all groups with nodes, and the pairs of groups that cannot exchange instances."""
    state, groups = now.state, now.state.cluster.groups
    rows = sorted_unique(state.group).tolist()
    return {
        "groups": [group_json(now, group) for group in rows],
        "closed": [
            {"from": groups[each.source].name, "to": groups[each.target].name, "why": each.obstacle}
            for each in exchanges(state)
            if each.obstacle is not None
        ],
    }


def group_json(now: Regrouping, group: int) -> dict[str, Any]:
    """Describe a group: size, health, used and free resources (MiB), load, score and partitions."""
    state, scope, health = now.state, now.state.group == group, now.diagnosis(group)
    columns, up = state.columns, scope & ~state.columns.offline
    units = list(map(str, state.units.local))
    totals, free = by_unit(columns, "t_dsk"), by_unit(columns, "f_dsk")
    return {
        "name": state.cluster.groups[group].name,
        "uuid": state.cluster.groups[group].uuid,
        "nodes": int(scope.sum()),
        "instances": int(np.count_nonzero(scope[state.pnode])),
        "health": health.word,
        "why": list(reasons(state, health)),
        "used": {
            "memory": int(columns.i_mem[scope].sum()),
            "disk": {
                unit: int((total - left)[scope].sum())
                for unit, total, left in zip(units, totals, free, strict=True)
            },
            "vcpus": int(columns.u_cpu[scope].sum()),
        },
        "free": {
            "memory": int(columns.unallocated[up].sum()),
            "disk": {unit: int(left[up].sum()) for unit, left in zip(units, free, strict=True)},
            "vcpus": int((columns.t_cpu * columns.vcpu_ratio - columns.u_cpu)[up].sum()),
        },
        "load": {
            name: float(getattr(columns, f"load_{name}")[scope].sum())
            for name in ("cpu", "mem", "dsk", "net")
        },
        "score": score_of(state, scope),
        "partitions": sorted(methods(state, group)),
    }


def choices(now: Regrouping, index: int) -> dict[str, Any]:
    """List the places of an instance in other groups, the best first, and the groups that refuse it."""
    state, groups = now.state, now.state.cluster.groups
    others = [group for group in sorted_unique(state.group).tolist() if group != now.group_of(index)]
    refused = {group: now.refusal(index, group) for group in others}
    found = [place for group in others if refused[group] is None for place in now.places(index, [group])]
    best = sorted(found, key=now.rank)
    full = set(others) - {place.group for place in best}
    return {
        "instance": state.cluster.instances[index].name,
        "group": groups[now.group_of(index)].name,
        "obstacle": now.obstacle(index),
        "places": [
            {
                "group": groups[place.group].name,
                "policy": groups[place.group].alloc_policy.value,
                "nodes": state.names(end_of_route(now.state, index, place.parts)),
                "score": place.score,
            }
            for place in best
        ],
        "refused": [
            {"group": groups[group].name, "why": refused[group] or _no_room(now, index, group)}
            for group in sorted(full)
        ],
    }


def _no_room(now: Regrouping, index: int, group: int) -> str:
    why = bottleneck(now, index, group)
    return f"no room for it{f': {why}' if why else ''}"


def choices_text(told: dict[str, Any]) -> str:
    """Format the places of an instance in other groups as text."""
    lines = [f"Instance {told['instance']} in group {told['group']}:\n"]
    if told["obstacle"]:
        lines.append(f"cannot leave its group: {told['obstacle']}\n")
    rows = [
        (each["group"], each["policy"], ":".join(each["nodes"]), fixed(each["score"], 8))
        for each in told["places"]
    ]
    if rows:
        lines.append(
            fitting_table(("Group", "Policy", "Nodes", "Score"), rows, (False, False, False, True), " ")
        )
    lines += [f"  {each['group']}: {each['why']}\n" for each in told["refused"]]
    return "".join(lines)


def about(plan: RegroupPlan, verbose: int) -> Iterator[str]:
    yield from move_report.lines(plan.moves, lambda move: _groups(plan.state, move))
    yield from move_report.limits(plan.options.max_moves, plan.options.max_copy)
    yield from conclusions(plan, verbose)


def conclusions(plan: RegroupPlan, verbose: int = 0) -> Iterator[str]:
    """Describe the outcome of a plan, and what its moves cost."""
    groups, outcome, done = plan.state.cluster.groups, plan.outcome, _DONE[plan.options.action]
    if not plan.moves and not outcome.failed:
        yield "Nothing to do"
    for group in outcome.done:
        yield f"{done}: {groups[group].name}"
    for group, why in outcome.failed:
        yield f"Not {done.lower()}: {groups[group].name}: {why}"
    for each in outcome.possible:
        effort = f"{counted(each.moves, 'move')}, {size(each.copied)}"
        yield f"Could be emptied: {groups[each.group].name}: {effort}"
    if plan.options.action == "balance":
        yield from _about_load(plan.state, outcome, verbose)
    if plan.moves:
        yield move_report.total(plan.cost(), len(plan.moves))


def _groups(state: State, move: PlannedMove) -> tuple[str, str]:
    source, target = (state.group_name(state.nodes[nodes[0]]) for nodes in (move.step.was, move.step.now))
    return source, target


def _about_load(state: State, outcome: RegroupingOutcome, verbose: int) -> Iterator[str]:
    """Describe the load of outlying groups, or of all."""
    before, after = _loads(state, outcome)
    yield f"Load score {fixed(before.score, 8)} => {fixed(after.score, 8)}"
    if before.names == STATIC:
        yield "No dynamic utilisation is known: the score counts virtual CPUs and memory"
    for component, name in enumerate(before.names):
        for at, group in enumerate(before.groups):
            outlying = (group, name) in {*before.outliers, *after.outliers}
            if outlying or verbose > 1:
                was, now = (fixed(float(each.relative[component, at]), 2) for each in (before, after))
                what = f"{state.cluster.groups[group].name}: {name} {was} => {now} times the mean"
                yield f"{'Outlier' if outlying else 'Load'}: {what}"


def _loads(state: State, outcome: RegroupingOutcome) -> tuple[GroupLoads, GroupLoads]:
    groups = outcome.after.rules.groups
    return group_loads(state, groups), group_loads(outcome.after.state, groups)


def _load_json(state: State, outcome: RegroupingOutcome) -> dict[str, Any]:
    before, after = _loads(state, outcome)
    names = [state.cluster.groups[group].name for group in before.groups]
    return {
        "dynamic": before.names == DYNAMIC,
        "before": before.score,
        "after": after.score,
        "groups": [
            {
                "name": name,
                "before": dict(zip(before.names, before.relative[:, at].tolist(), strict=True)),
                "after": dict(zip(after.names, after.relative[:, at].tolist(), strict=True)),
            }
            for at, name in enumerate(names)
        ],
        "outliers": [
            {"group": state.cluster.groups[group].name, "component": name} for group, name in before.outliers
        ],
    }


def as_json(before: Regrouping, plan: RegroupPlan, ran: Mapping[str, Any] | None) -> dict[str, Any]:
    """Describe a plan, and the record of its run, as JSON."""
    groups, outcome, action = before.state.cluster.groups, plan.outcome, plan.options.action
    done = [groups[group].name for group in outcome.done]
    rows = sorted_unique(before.state.group).tolist()
    return {
        "action": action,
        "repaired": done if action == "redistribute" else [],
        "unrepairable": [{"group": groups[group].name, "why": why} for group, why in outcome.failed],
        "emptied": done if action == "compress" else [],
        "possible": [
            {"group": groups[each.group].name, "moves": each.moves, "mib": each.copied}
            for each in outcome.possible
        ],
        "moves": [
            {"instance": move.step.instance, "from_group": source, "to_group": target}
            | move_report.to_json(move)
            for move in plan.moves
            for source, target in [_groups(before.state, move)]
        ],
        "cost": plan.cost(),
        **({"load": _load_json(before.state, outcome)} if action == "balance" else {}),
        "groups": [
            {"name": groups[row].name, "before": _figures(before, row), "after": _figures(outcome.after, row)}
            for row in rows
        ],
        "redundancy": redundancy_changes(before.state, outcome.after.state),
        **({} if ran is None else {"execution": ran}),
    }


def _figures(now: Regrouping, group: int) -> dict[str, Any]:
    health = now.diagnosis(group)
    return {
        "health": health.word,
        "why": list(reasons(now.state, health)),
        "score": score_of(now.state, now.state.group == group),
    }
