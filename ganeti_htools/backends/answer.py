"""Answers to iallocator requests, and the opcodes in them, as Ganeti expects them."""

from typing import Any

import orjson

from ganeti_htools.engine.allocation.evacuate import Evacuation, Step
from ganeti_htools.engine.decide import Decision
from ganeti_htools.engine.rules.moves import Kind
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.request import AllocateSecondary, MultiAllocate, Relocate, Request
from ganeti_htools.model.state import State

SHUTDOWN_TIMEOUT = 120  # seconds, Ganeti's default


def success(request: Request, decision: Decision, note: str = "") -> str:
    """The answer that carries out a decision; ``note`` is what else there is to say."""
    info, result = (
        _evacuated(request, decision)
        if isinstance(decision.result, Evacuation)
        else _placed(request, decision)
    )
    return _answer(True, f"Request successful: {info}{note}", result)


def failure(reason: str, note: str = "") -> str:
    """The answer to a request that cannot be satisfied."""
    return _answer(False, f"Request failed: {reason}{note}", [])


def _answer(success: bool, info: str, result: Any) -> str:
    return orjson.dumps({"success": success, "info": info, "result": result}).decode()


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
        [rows[each.instance].name, state.cluster.groups[each.group].name, state.names(each.nodes)]
        for each in evacuation.moved
    ]
    failed = [[rows[index].name, reason] for index, reason in evacuation.failed]
    jobs = [[opcode(state, rows[each.instance], step) for step in each.steps] for each in evacuation.moved]
    info = f"{len(failed)} instances failed to move and {len(moved)} were moved successfully"
    return info, [moved, failed, jobs]


def opcode(state: State, instance: Instance, step: Step) -> dict[str, Any]:
    """The opcode for a step of a move, with exactly the fields that Ganeti's own tools send."""
    if step.kind is Kind.REPLACE_SECONDARY:
        return {
            "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
            "instance_name": instance.name,
            "early_release": False,
            "ignore_ipolicy": False,
            "mode": "replace_new_secondary",
            "disks": [],
            "remote_node": state.names([step.node])[0],
        }
    target = {"target_node": state.names([step.node])[0]} if step.kind is Kind.FAILOVER_TO else {}
    if instance.forthcoming:
        return {
            "OP_ID": "OP_INSTANCE_FAILOVER",
            "instance_name": instance.name,
            "shutdown_timeout": SHUTDOWN_TIMEOUT,
            "ignore_consistency": False,
            **target,
            "ignore_ipolicy": False,
            "cleanup": False,
        }
    return {
        "OP_ID": "OP_INSTANCE_MIGRATE",
        "instance_name": instance.name,
        **target,
        "allow_runtime_changes": False,
        "ignore_ipolicy": False,
        "cleanup": False,
        "allow_failover": True,
        "ignore_hvversions": True,
    }
