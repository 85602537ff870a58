"""Reports of ``hmaintain``: plans and nodes in maintenance, as text and as JSON."""

from collections.abc import Iterator, Mapping
from typing import Any

from ganeti_htools.cli.report import moves
from ganeti_htools.cli.report.maintenance_marks import by_local_time, maintenance_line, roll_line
from ganeti_htools.model.errors import first_names
from ganeti_htools.model.types import MirrorType
from ganeti_htools.model.wording import counted
from ganeti_htools.planning.maintenance.hmaintain import MaintenancePlan
from ganeti_htools.planning.maintenance.roll import Roll
from ganeti_htools.planning.redundancy_changes import redundancy_changes

_LEFT_OUT = {  # why an action leaves out nodes
    "offline": "is not set offline: it is already, or hmaintain has not drained it, or it has instances",
    "end": "is not in maintenance",
}


def about(plan: MaintenancePlan) -> Iterator[str]:
    yield from moves.lines(plan.moves)
    if plan.moves:
        yield moves.total(plan.cost(), len(plan.moves))
    elif not any(plan.jobs()):
        yield "Nothing to do"


def remarks(plan: MaintenancePlan) -> Iterator[str]:
    """Name what stays, and what is different meanwhile."""
    for node in plan.skipped_nodes if plan.options.action in _LEFT_OUT else ():
        yield f"node {node} {_LEFT_OUT[plan.options.action]}"
    for instance in plan.without_home:
        yield f"instance {instance} stays where it is: its home was removed from the cluster"
    for instance, why in plan.staying.items():
        yield f"instance {instance} stays where it is: {why}{_advice(plan, instance)}"
    if names := plan.without_mirror:
        yield f"without a mirror meanwhile: {first_names(names)}; --empty moves their secondaries"
    for node in plan.not_drained:
        yield f"node {node} is not drained: Ganeti itself can place instances there"


def _advice(plan: MaintenancePlan, name: str) -> str:
    """Return what can be done about an instance that stays on a node whose maintenance begins."""
    if plan.options.action != "start":
        return ""
    row = next(row for row in plan.state.cluster.instances if row.name == name)
    stop = f"gnt-instance shutdown {name}"
    if row.template.mirror is not MirrorType.NONE:
        return f"; {stop}"
    return f"; gnt-instance move -n NODE {name} copies it while it is stopped, or {stop}"


def as_json(plan: MaintenancePlan, outcome: Mapping[str, Any] | None) -> dict[str, Any]:
    """Describe a plan, and the record of its run if there was one."""
    report: dict[str, Any] = {
        "action": plan.options.action,
        "nodes": [node.name for node in plan.nodes],
        "drained": plan.state.names(plan.drained),
        "moves": list(map(moves.to_json, plan.moves)),
        "cost": plan.cost(),
        "staying": plan.staying,
        "without_mirror": plan.without_mirror,
        "redundancy": redundancy_changes(plan.state, plan.emptying.state),
    }
    return report if outcome is None else {**report, "execution": outcome}


def about_roll(roll: Roll) -> Iterator[str]:
    """Describe what is left of a roll: the batches in their order, and who is left out."""
    if roll.name:
        yield f"The roll of {by_local_time(roll.name)} goes on; --anew begins anew"
    if roll.done:
        yield f"Done: {', '.join(roll.done)}"
    for number, batch in enumerate(roll.batches, 1):
        what = _STAGES.get(batch.stage) or counted(batch.moves, "move")
        yield f"  {number:3}. {', '.join(batch.nodes)}: {what}"
    for name, why in (roll.refused | roll.aside).items():
        yield f"Left out: {name}: {why}"
    if not roll.batches:
        yield "Nothing to do"


def roll_json(roll: Roll) -> dict[str, Any]:
    return {
        "action": "roll",
        "begun": roll.name,
        "done": roll.done,
        "batches": [batch._asdict() for batch in roll.batches],
        "left_out": roll.refused | roll.aside,
    }


def status_text(status: Mapping[str, Any]) -> Iterator[str]:
    for node in status["nodes"]:
        yield f"In maintenance: {maintenance_line(node)}"
        if node["runs"]:
            yield f"  at work there, or cut off: {', '.join(node['runs'])}"
        for title, key in _PARTS.items():
            if node[key]:
                yield f"  {title}: {first_names(node[key])}"
    yield from (f"A {roll_line(roll)}" for roll in status["rolls"])
    if not status["nodes"]:
        yield "No node is in maintenance"
    if status["away"]:
        yield f"Not at home: {first_names(status['away'])}; hmaintain end NODE tries again"
    if status["fragile"]:
        yield f"Without {first_names(status['fragile'])} not all instances would come back now"
    else:
        yield "Any node may fail now"


_STAGES = {"begun": "maintenance has begun", "done": "maintenance ends"}
_PARTS = {"primaries": "primaries", "secondaries": "secondaries", "would return": "returning"}
