"""The answer of another iallocator to a request: its places, its promises, and the cluster afterwards."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from ganeti_htools.backends.iallocator import Message
from ganeti_htools.deciding.decision import Response
from ganeti_htools.deciding.promises import Promise, with_promises
from ganeti_htools.deciding.summary import MAX_NAMED, DecisionSummary, request_type
from ganeti_htools.model.cluster import Cluster, Instance, Node
from ganeti_htools.model.disk_defaults import with_disk_defaults
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.request import (
    Allocate,
    AllocateSecondary,
    MultiAllocate,
    Relocate,
    instances_of,
    new_instances,
)
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.model.units import needs_of
from ganeti_htools.model.units_in_use import reported_units

_SCORE = re.compile(r"score: ([^ ,]+), successes \d+, failures \d+ (?:\([^)]*\) )?for node\(s\) ([^ ,;]+)")

Places = Mapping[str, tuple[str, ...]]  # the nodes of each instance that has a place, primary first


def places(message: Message, answer: bytes) -> dict[str, tuple[str, ...]]:
    """Return the places in an answer. Raises DataError for what is no answer to the request."""
    try:
        document = orjson.loads(answer)
        found = _places(message, document["result"]) if document["success"] else {}
        nodes, named = {node.name for node in message.cluster.nodes}, set(instances_of(message.request))
        if not (isinstance(document["info"], str) and found.keys() <= named):
            raise ValueError
        if not all(place and nodes.issuperset(place) for place in found.values()):
            raise ValueError
    except (ValueError, LookupError, TypeError, AttributeError):
        raise DataError("expected an answer to the request") from None
    return found


def _places(message: Message, result: Any) -> dict[str, tuple[str, ...]]:
    request, rows = message.request, {row.name: row for row in message.cluster.instances}
    match request:
        case Allocate(placement, _):
            return {placement.instance.name: tuple(result)}
        case MultiAllocate():
            return {name: tuple(nodes) for name, nodes in result[0]}
        case AllocateSecondary(name):
            return {name: (rows[name].pnode, result)}
        case Relocate(name, _, leaving):
            now = rows[name]
            return {name: (*({now.pnode} - set(leaving)), *result)}
        case _:
            moved = [name for name, _, _ in result[0]]
            return {name: _after(rows[name], job) for name, job in zip(moved, result[2], strict=True)}


def _after(row: Instance, job: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the nodes of an instance after the opcodes of a job."""
    primary, secondary = row.pnode, row.snode
    for opcode in job:
        if opcode["OP_ID"] == "OP_INSTANCE_REPLACE_DISKS":
            secondary = opcode["remote_node"]
        elif opcode.get("target_node"):
            primary = opcode["target_node"]
        else:
            primary, secondary = str(secondary), primary
    return (primary,) if secondary is None else (primary, secondary)


def stated_score(info: str, nodes: Sequence[str]) -> float | None:
    """Return the score that the text of an answer states for these nodes; None if it states none."""
    return next((float(score) for score, names in _SCORE.findall(info) if names == "/".join(nodes)), None)


def _refusals(document: Mapping[str, Any]) -> str:
    """Describe why instances have no place."""
    result = document["result"]
    failed = result[1] if document["success"] and len(result) > 1 else []
    reasons = [f"{each[0]}: {each[1]}" for each in failed if isinstance(each, list)][:MAX_NAMED]
    return "; ".join(reasons) or str(document["info"]).removeprefix("Request failed: ")


def response(message: Message, ours: Response, answer: bytes) -> Response:
    """Return the response that another program's answer is, in place of ours. Raises DataError."""
    found, document = places(message, answer), orjson.loads(answer)
    names = instances_of(message.request)
    groups = {group.uuid: group.name for group in message.cluster.groups}
    group_of = {node.name: groups[node.group] for node in message.cluster.nodes}
    summary = DecisionSummary(
        request_type(message.request),
        list(names),
        [found[name] for name in names if name in found],
        list(dict.fromkeys(group_of[place[0]] for place in found.values())),
        stated_score(document["info"], found.get("".join(names[-1:]), ())),
        None if len(found) == len(names) else _refusals(document),
    )
    return replace(
        ours,
        answer=answer.decode().rstrip("\n"),
        warnings=(),
        summary=summary,
        ranking=(),
        promises=promises(message, found),
    )


def promises(message: Message, found: Places) -> tuple[Promise, ...]:
    rows = {row.name: row for row in message.cluster.instances}
    new = {row.name: row for row in new_instances(message.request)}
    groups = {group.uuid: group for group in message.cluster.groups}
    group_of = {node.name: groups[node.group] for node in message.cluster.nodes}
    made = []
    for name, nodes in found.items():
        row = replace(new.get(name) or rows[name], pnode=nodes[0], snode=nodes[1] if len(nodes) > 1 else None)
        if isinstance(message.request, AllocateSecondary):
            row = with_disk_defaults(group_of[row.pnode], replace(row, template=DiskTemplate.DRBD))
        promise = Promise(row, name not in rows)
        if name in new and name in rows:  # its disks are made anew
            promise = replace(promise, row=promise.fulfilled(rows[name]))
        made.append(promise)
    return tuple(made)


def cluster_after(message: Message, made: Collection[Promise]) -> Cluster:
    """Return the cluster once promises are fulfilled."""
    cluster, _ = with_promises(message.cluster, [each for each in made if each.new])
    moved = {each.name: each for each in made if not each.new}
    units, rows = reported_units(cluster), list[Instance]()
    mem, spindles, load = Counter[str](), Counter[str](), defaultdict[str, float](float)
    disks = defaultdict[str, Counter[DesiredUnit]](Counter)
    for promise in (each for each in made if each.new):
        load[promise.row.pnode] += promise.row.load.cpu
    for row in cluster.instances:
        after = moved[row.name].fulfilled(row) if row.name in moved else row
        rows.append(after)
        for each, sign in ((row, 1), (after, -1)) if after is not row and not row.forthcoming else ():
            mem[each.pnode] += sign * each.mem * each.uses_memory
            load[each.pnode] -= sign * each.load.cpu
            for name in filter(None, (each.pnode, each.snode)):
                disks[name].update({unit: sign * need for unit, need in units.needs(each).items()})
                spindles[name] += sign * (needs_of(each, units).spindles or 0)

    def node_after(node: Node) -> Node:
        free = disks[node.name]
        return replace(
            node,
            f_mem=node.f_mem + mem[node.name],
            f_dsk=node.f_dsk + free[units.local[0]],
            f_spindles=node.f_spindles + spindles[node.name] * node.excl_stor,
            cpu_load=node.cpu_load and node.cpu_load + load[node.name],
            storage=node.storage
            and tuple(unit._replace(free=unit.free + free[unit.desired]) for unit in node.storage),
        )

    return replace(cluster, nodes=tuple(map(node_after, cluster.nodes)), instances=tuple(rows))
