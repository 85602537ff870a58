"""Answers to iallocator requests, and the opcodes in them, as Ganeti expects them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from ganeti_htools.engine.allocation.evacuate import Evacuation
from ganeti_htools.engine.allocation.solution import Metric
from ganeti_htools.engine.decide import Decision
from ganeti_htools.luxi.opcodes import Opcode, opcode_of
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.moves import MovePart
from ganeti_htools.model.request import AllocateSecondary, MultiAllocate, Relocate, Request
from ganeti_htools.model.state import State


def success(request: Request, decision: Decision, note: str = "", **more: Any) -> str:
    """Return the answer that carries out a decision; ``note`` extends its text, ``more`` adds fields."""
    info, result = (
        _evacuated(request, decision)
        if isinstance(decision.result, Evacuation)
        else _placed(request, decision)
    )
    return _answer(True, f"Request successful: {info}{note}", result, more)


def failure(reason: str, note: str = "", **more: Any) -> str:
    """Return the answer to a request that cannot be satisfied."""
    return _answer(False, f"Request failed: {reason}{note}", [], more)


def with_note(answer: str, note: str) -> str:
    document = orjson.loads(answer)
    return orjson.dumps(document | {"info": document["info"] + note}).decode()


def _answer(success: bool, info: str, result: Any, more: Mapping[str, Any]) -> str:
    return orjson.dumps({"success": success, "info": info, "result": result, **more}).decode()


def ranking(request: Request, decision: Decision) -> list[dict[str, Any]]:
    """Rank the groups that could take each new instance, the chosen group first, as JSON.

    A score that is not finite is null. (Ganeti's design "synchronising htools to Ganeti 2.3", allocation
    changes.)
    """
    if isinstance(decision.result, Evacuation) or isinstance(request, AllocateSecondary):
        return []
    state = decision.state
    return [
        {
            "instance": placed.instance,
            "groups": [
                {
                    "group": state.cluster.groups[outcome.group].name,
                    "alloc_policy": state.cluster.groups[outcome.group].alloc_policy.value,
                    **_metric(outcome.solution.metric),
                    "nodes": state.names(outcome.solution.nodes),
                }
                for outcome in placed.ranked
                if outcome.solution
            ],
        }
        for placed in decision.result
    ]


def _metric(metric: float | Metric) -> dict[str, Any]:
    if isinstance(metric, tuple):
        lost, disk = metric
        return {"lost": list(lost), "disk_left": disk}
    return {"score": float(metric) if math.isfinite(metric) else None}


def _placed(request: Request, decision: Decision) -> tuple[str, Any]:
    assert not isinstance(decision.result, Evacuation)
    names = [(each.instance, decision.state.names(each.nodes), each.info) for each in decision.result]
    if isinstance(request, MultiAllocate):
        good = [[instance, nodes] for instance, nodes, _ in names if nodes]
        bad = [[instance, info] for instance, nodes, info in names if not nodes]
        info = f"{len(bad)} instances failed to allocate and {len(good)} were allocated successfully"
        return info, [good, bad]
    _, nodes, info = names[0]
    return info, nodes[0] if isinstance(request, AllocateSecondary) else nodes


def _evacuated(request: Request, decision: Decision) -> tuple[str, Any]:
    evacuation, state = decision.result, decision.state
    assert isinstance(evacuation, Evacuation)
    rows = state.cluster.instances
    if isinstance(request, Relocate):
        return "success", state.names(evacuation.moved[0].nodes[-1:])
    moved = [
        [rows[each.instance].name, state.group_name(each.nodes[0]), state.names(each.nodes)]
        for each in evacuation.moved
    ]
    failed = [[rows[index].name, reason] for index, reason in evacuation.failed]
    jobs = [_job(state, rows[each.instance], each.parts) for each in evacuation.moved]
    info = f"{len(failed)} instances failed to move and {len(moved)} were moved successfully"
    if evacuation.left:
        groups = {each.instance: state.group_name(each.nodes[0]) for each in evacuation.moved}
        left = [f"{rows[index].name} to {groups[index]} ({why})" for index, why in evacuation.left]
        info += f"; {len(left)} left their group: {', '.join(left)}"
    return info, [moved, failed, jobs]


def _job(state: State, row: Instance, parts: Sequence[MovePart]) -> list[Opcode]:
    names = [node.name for node in state.cluster.nodes]
    return [opcode_of(part.operation, row.name, names[part.node], row.forthcoming) for part in parts]
