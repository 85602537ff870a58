"""Reports of ``hsqueeze`` about a plan: text, shell commands and JSON."""

from collections.abc import Iterator, Mapping
from typing import Any

from ganeti_htools.cli.report.script import job_script
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.engine.squeezing import candidates
from ganeti_htools.engine.squeezing.power_plan import Action
from ganeti_htools.model.wording import counted, shorten_names, size
from ganeti_htools.planning.jobsets import PlannedMove
from ganeti_htools.planning.squeezing import power_report
from ganeti_htools.planning.squeezing.hsqueeze import SqueezePlan
from ganeti_htools.planning.squeezing.power_report import least_free, unchanged_nodes

_TITLES = {
    Action.NOTHING: "'No action'",
    Action.OFFLINE: "'Nodes to offline'",
    Action.ONLINE: "'Nodes to online'",
}


def about(plan: SqueezePlan, line: CommandLine) -> Iterator[str]:
    state, power = plan.state, plan.power
    if line.verbose > 1:
        for kind, nodes in _candidates(plan).items():
            yield f"{kind.title()} candidates: {','.join(nodes)}"
    if not line.no_headers:
        yield _TITLES[power.action]
    yield from state.names(power.nodes)
    if power.replaced:
        yield "'Nodes to offline then, which are not needed any more'"
        yield from state.names(power.replaced)


def summary(plan: SqueezePlan) -> list[str]:
    """Name the first nodes of each phase in a line."""
    return [
        f"{counted(len(phase.nodes), 'node')} to power {'up' if phase.action is Action.ONLINE else 'down'}:"
        f" {shorten_names(plan.state.names(phase.nodes))}"
        for phase in plan.power.phases
        if phase.nodes
    ]


def warnings(plan: SqueezePlan) -> Iterator[str]:
    """Warnings about a plan, as far as its heading does not say it all."""
    power = plan.power
    if power.action is Action.ONLINE and plan.options.factors[0]:
        many = len(plan.lacking_groups) > 1
        where = f"{'groups' if many else 'group'} {' and '.join(plan.lacking_groups)}"
        lack = "lack" if many else "lacks"
        if power.enough and not power.nodes:
            moves = "1 move frees" if len(power.steps) == 1 else f"{len(power.steps)} moves free"
            yield f"no node is powered up: {moves} the minimal resources"
        elif not power.enough and not power.nodes:
            yield f"not enough standby nodes: none can be powered up, and {where} {lack} minimal resources"
        elif not power.enough:
            yield f"not enough standby nodes: with all of them up, {where} still {lack} minimal resources"
    for group, why in plan.unchanged.items():
        yield f"group {group} stays as it is: {why}"
    for instance, why in plan.refused.items():
        yield f"instance {instance} stays where it is: {why}"
    if plan.costs_redundancy and (lost := plan.redundancy_changes["lost"]):
        yield f"nothing is kept free, so redundancy is lost: {', '.join(lost)} would not come back"
    if stopped := plan.stopped_instances:
        count = counted(len(stopped), "instance")
        yield f"stopped while they are copied: {count}, {', '.join(stopped)}"


def refusals(plan: SqueezePlan) -> list[str]:
    """Lines about why nothing is powered down, if no nodes are powered up or down."""
    if plan.power.action is not Action.NOTHING or not plan.power.enough:
        return []
    kept = power_report.refusals(plan.state, plan.power, plan.options.allowed)
    return ["no node can be spared:", *(f"  {text}" for text in kept)] if kept else []


def details(plan: SqueezePlan, verbose: int) -> Iterator[str]:
    """Lines about the capacity and the cost of a plan, and about nodes that stay."""
    if verbose > 1 and not plan.power.enough:
        yield "Onlining all nodes will not yield enough capacity"
    if verbose > 2:
        steps, cost = len(plan.power.steps), plan.cost()
        copied = f"{size(cost['disk_mib'])} of disks, {size(cost['memory_mib'])} of memory"
        yield f"{counted(steps, 'move')}: {copied}"
        for group, mib in least_free(plan.power).items():
            yield f"Group {group}: at least {size(mib)} free"
        for node, why in _unchanged(plan).items():
            yield f"Node {node} stays: {why}"


def as_json(plan: SqueezePlan, outcome: Mapping[str, Any] | None) -> dict[str, Any]:
    """Describe a plan, and the record of its run if there was one, as JSON."""
    state, power, sets = plan.state, plan.power, plan.sets()
    report: dict[str, Any] = {
        "action": power.action.value,
        "nodes": state.names(power.nodes),
        "enough": power.enough,
        "lacking_groups": plan.lacking_groups,
        "cost": plan.cost(),
        "stopped": plan.stopped_instances,
        "least_free_mib": least_free(power),
        "redundancy": plan.redundancy_changes,
        "refused": plan.refused,
        "kept": _unchanged(plan),
        "candidates": _candidates(plan),
        "jobsets": [list(map(_move, jobs)) for own in sets for jobs in own],
    }
    if len(power.phases) > 1:
        report["phases"] = [
            {"action": phase.action.value, "nodes": state.names(phase.nodes), "jobsets": len(own)}
            for phase, own in zip(power.phases, sets, strict=True)
        ]
    if outcome is not None:
        report["execution"] = outcome
    return report


def script(plan: SqueezePlan) -> str:
    """Return the shell commands of all jobs. Raises HtoolsError."""
    return job_script(plan.jobs_for_script()) or "echo Nothing to do"


def _candidates(plan: SqueezePlan) -> dict[str, list[str]]:
    state, allowed = plan.state, plan.options.allowed
    return {
        "offline": state.names(candidates.offline_candidates(state, allowed).tolist()),
        "online": state.names(candidates.online_candidates(state).tolist()),
    }


def _unchanged(plan: SqueezePlan) -> dict[str, str]:
    return unchanged_nodes(plan.state, plan.power, plan.options.allowed)


def _move(move: PlannedMove) -> dict[str, Any]:
    return {
        "instance": move.instance,
        "from": move.was,
        "to": move.now,
        "commands": move.commands,
        "score": move.step.score,
    }
