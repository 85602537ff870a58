"""The opcodes that are submitted, with the fields that Ganeti's htools give them (``OpCodes.hs``).

They are the JSON objects of the protocol. Objects are named by their full names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ganeti_htools.model.moves import Operation

Opcode = Mapping[str, Any]

PRIORITIES = {"low": 10, "normal": 0, "high": -10}

_SHUTDOWN_TIMEOUT = 120  # seconds, these three as Ganeti has them by default
_OOB_TIMEOUT = 60
_POWER_DELAY = 2.0


def migrate(instance: str, target: str | None = None) -> Opcode:
    """Migrate, or fail over what does not run, to the secondary; on shared storage to ``target``."""
    return {
        "OP_ID": "OP_INSTANCE_MIGRATE",
        "instance_name": instance,
        **_target(target),
        "allow_runtime_changes": False,
        "ignore_ipolicy": False,
        "cleanup": False,
        "allow_failover": True,
        "ignore_hvversions": True,
    }


def failover(instance: str, target: str | None = None) -> Opcode:
    """Fail over a forthcoming instance (it cannot migrate); on shared storage to ``target``."""
    return {
        "OP_ID": "OP_INSTANCE_FAILOVER",
        "instance_name": instance,
        "shutdown_timeout": _SHUTDOWN_TIMEOUT,
        "ignore_consistency": False,
        **_target(target),
        "ignore_ipolicy": False,
        "cleanup": False,
    }


def _target(node: str | None) -> Opcode:
    return {} if node is None else {"target_node": node}


def replace_secondary(instance: str, node: str) -> Opcode:
    """Copy the disks to a new secondary."""
    return {
        "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
        "instance_name": instance,
        "early_release": False,
        "ignore_ipolicy": False,
        "mode": "replace_new_secondary",
        "disks": [],
        "remote_node": node,
    }


def move(instance: str, node: str) -> Opcode:
    """Stop an instance, copy its local disks to a new primary, and start it there if it is to run."""
    return {
        "OP_ID": "OP_INSTANCE_MOVE",
        "instance_name": instance,
        "shutdown_timeout": _SHUTDOWN_TIMEOUT,
        "ignore_ipolicy": False,
        "target_node": node,
        "compress": "none",
        "ignore_consistency": False,
    }


def moving(operation: Operation, instance: str, node: str, forthcoming: bool) -> Opcode:
    """The opcode of an operation of a move; ``node`` is the new one, if it takes one."""
    if operation is Operation.REPLACE_SECONDARY:
        return replace_secondary(instance, node)
    if operation is Operation.MOVE:
        return move(instance, node)
    go = failover if forthcoming else migrate
    return go(instance, node) if operation.takes_node else go(instance)


def tag_node(node: str, tags: Sequence[str]) -> Opcode:
    """Give a node tags."""
    return {"OP_ID": "OP_TAGS_SET", "kind": "node", "tags": list(tags), "name": node}


def untag_node(node: str, tags: Sequence[str]) -> Opcode:
    """Take tags from a node."""
    return {"OP_ID": "OP_TAGS_DEL", "kind": "node", "tags": list(tags), "name": node}


def set_node(node: str, role: str, holds: bool, auto_promote: bool = False) -> Opcode:
    """Mark a node ``drained`` or ``offline``, or not any more.

    With ``auto_promote`` others become master candidates if there are too few then, for which Ganeti locks
    all nodes.
    """
    return {
        "OP_ID": "OP_NODE_SET_PARAMS",
        "node_name": node,
        "force": False,
        role: holds,
        "auto_promote": auto_promote,
    }


def power(nodes: Sequence[str], on: bool) -> Opcode:
    """Power nodes up or down by their out-of-band programs; offline ones, Ganeti wants."""
    return {
        "OP_ID": "OP_OOB_COMMAND",
        "node_names": list(nodes),
        "command": "power-on" if on else "power-off",
        "timeout": _OOB_TIMEOUT,
        "ignore_status": False,
        "power_delay": _POWER_DELAY,
    }


STORAGE_FIELDS = ("node", "name", "size", "free")  # for "used" nodes would walk through directories


def query_storage(kind: str, nodes: Sequence[str]) -> Opcode:
    """Ask nodes for their storage units of a type."""
    return {
        "OP_ID": "OP_NODE_QUERY_STORAGE",
        "output_fields": list(STORAGE_FIELDS),
        "storage_type": kind,
        "nodes": list(nodes),
    }


def query_disks(instances: Sequence[str]) -> Opcode:
    """Ask for the configuration of instances, where their disks are among it, without locks."""
    return {
        "OP_ID": "OP_INSTANCE_QUERY_DATA",
        "instances": list(instances),
        "static": True,
        "use_locking": False,
    }


def sources(opcode: Opcode) -> list[Any]:
    """The programs that its reason trail names."""
    reasons = opcode.get("reason") or ()
    return [reason[0] for reason in reasons if isinstance(reason, list | tuple) and reason]


@dataclass(frozen=True, slots=True)
class Signature:
    """What jobs say about their origin.

    ``source`` is the program, ``reason`` why it was run, ``purpose`` what the jobs are for; ``run``
    tells one run from all others. With ``purpose``, ``run`` and its number every job has a comment
    that no other job has, by which it is recognised in the queue.
    """

    source: str
    reason: str
    purpose: str
    run: str
    priority: int = 0

    def comment(self, number: str) -> str:
        """The comment of a job, whose number is like 2/1: the first job of the second jobset."""
        return f"{self.purpose}, run {self.run}, job {number}"

    def sign(self, opcodes: Sequence[Opcode], number: str, time_ns: int) -> list[Opcode]:
        """The opcodes of a job, ready to be submitted."""
        common = {
            "priority": self.priority,
            "depends": None,
            "comment": self.comment(number),
            "reason": [[self.source, self.reason, time_ns]],
        }
        return [{**common, **opcode} for opcode in opcodes]
