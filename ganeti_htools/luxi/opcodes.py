"""Opcodes as JSON objects, with the fields that Ganeti's htools give them (``OpCodes.hs``).

Nodes and instances are given by their full names.
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


def migrate(instance: str, target: str | None = None, iallocator: str | None = None) -> Opcode:
    """Migrate, or fail over if stopped, to the secondary; on shared storage to ``target``.

    There an ``iallocator`` may choose the node instead.
    """
    return {
        "OP_ID": "OP_INSTANCE_MIGRATE",
        "instance_name": instance,
        **_target(target, iallocator),
        "allow_runtime_changes": False,
        "ignore_ipolicy": False,
        "cleanup": False,
        "allow_failover": True,
        "ignore_hvversions": True,
    }


def failover(instance: str, target: str | None = None, iallocator: str | None = None) -> Opcode:
    """Fail over an instance that cannot migrate; on shared storage to ``target``.

    There an ``iallocator`` may choose the node instead.
    """
    return {
        "OP_ID": "OP_INSTANCE_FAILOVER",
        "instance_name": instance,
        "shutdown_timeout": _SHUTDOWN_TIMEOUT,
        "ignore_consistency": False,
        **_target(target, iallocator),
        "ignore_ipolicy": False,
        "cleanup": False,
    }


def _target(node: str | None, iallocator: str | None) -> Opcode:
    given = {"target_node": node, "iallocator": iallocator}
    return {key: value for key, value in given.items() if value is not None}


def replace_secondary(instance: str, node: str) -> Opcode:
    """Copy the disks to a new secondary."""
    return {**_new_secondary(instance), "remote_node": node}


def replace_secondary_by(instance: str, iallocator: str) -> Opcode:
    """Copy the disks to a new secondary that an iallocator chooses."""
    return {**_new_secondary(instance), "iallocator": iallocator}


def _new_secondary(instance: str) -> Opcode:
    return {
        "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
        "instance_name": instance,
        "early_release": False,
        "ignore_ipolicy": False,
        "mode": "replace_new_secondary",
        "disks": [],
    }


def recreate_disks(instance: str, iallocator: str) -> Opcode:
    """Make all disks anew, empty, on nodes that an iallocator chooses."""
    return {
        "OP_ID": "OP_INSTANCE_RECREATE_DISKS",
        "instance_name": instance,
        "disks": [],
        "nodes": [],
        "iallocator": iallocator,
    }


def reinstall(instance: str) -> Opcode:
    """Install the instance's operating system anew."""
    return {"OP_ID": "OP_INSTANCE_REINSTALL", "instance_name": instance, "force_variant": False}


def delay(seconds: float) -> Opcode:
    """Wait on the master, under a lock of the master's node."""
    return {
        "OP_ID": "OP_TEST_DELAY",
        "duration": int(seconds) if seconds == int(seconds) else seconds,
        "on_master": True,
        "on_nodes": [],
        "repeat": 0,
        "interruptible": False,
        "no_locks": False,
    }


def move(instance: str, node: str) -> Opcode:
    """Stop an instance, copy its local disks to a new primary, and start it there if it was up."""
    return {
        "OP_ID": "OP_INSTANCE_MOVE",
        "instance_name": instance,
        "shutdown_timeout": _SHUTDOWN_TIMEOUT,
        "ignore_ipolicy": False,
        "target_node": node,
        "compress": "none",
        "ignore_consistency": False,
    }


def opcode_of(operation: Operation, instance: str, node: str, forthcoming: bool) -> Opcode:
    """Return the opcode of an operation; ``node`` is its new node, if the operation takes one."""
    if operation is Operation.REPLACE_SECONDARY:
        return replace_secondary(instance, node)
    if operation is Operation.MOVE:
        return move(instance, node)
    go = failover if forthcoming else migrate
    return go(instance, node) if operation.takes_node else go(instance)


def tag_node(node: str, tags: Sequence[str]) -> Opcode:
    return {"OP_ID": "OP_TAGS_SET", "kind": "node", "tags": list(tags), "name": node}


def untag_node(node: str, tags: Sequence[str]) -> Opcode:
    return {"OP_ID": "OP_TAGS_DEL", "kind": "node", "tags": list(tags), "name": node}


def tag_instance(instance: str, tags: Sequence[str]) -> Opcode:
    return {"OP_ID": "OP_TAGS_SET", "kind": "instance", "tags": list(tags), "name": instance}


def untag_instance(instance: str, tags: Sequence[str]) -> Opcode:
    return {"OP_ID": "OP_TAGS_DEL", "kind": "instance", "tags": list(tags), "name": instance}


def activate_disks(instance: str) -> Opcode:
    """Assemble the disks of an instance on its nodes, and wait until its mirrors are in sync."""
    return {
        "OP_ID": "OP_INSTANCE_ACTIVATE_DISKS",
        "instance_name": instance,
        "ignore_size": False,
        "wait_for_sync": True,
    }


def set_node(node: str, role: str, holds: bool, auto_promote: bool = False) -> Opcode:
    """Set or clear a node's flag ``drained`` or ``offline``.

    With ``auto_promote`` other nodes become master candidates if too few remain; Ganeti then locks all nodes.
    """
    return {
        "OP_ID": "OP_NODE_SET_PARAMS",
        "node_name": node,
        "force": False,
        role: holds,
        "auto_promote": auto_promote,
    }


def tag_cluster(tags: Sequence[str]) -> Opcode:
    return {"OP_ID": "OP_TAGS_SET", "kind": "cluster", "tags": list(tags), "name": None}


def untag_cluster(tags: Sequence[str]) -> Opcode:
    return {"OP_ID": "OP_TAGS_DEL", "kind": "cluster", "tags": list(tags), "name": None}


def power(nodes: Sequence[str], on: bool) -> Opcode:
    """Power offline nodes up or down by their out-of-band programs."""
    return {
        "OP_ID": "OP_OOB_COMMAND",
        "node_names": list(nodes),
        "command": "power-on" if on else "power-off",
        "timeout": _OOB_TIMEOUT,
        "ignore_status": False,
        "power_delay": _POWER_DELAY,
    }


STORAGE_FIELDS = ("node", "name", "size", "free")  # "used" would make nodes walk directories


def query_storage(kind: str, nodes: Sequence[str]) -> Opcode:
    """Ask nodes for their storage units of a type."""
    return {
        "OP_ID": "OP_NODE_QUERY_STORAGE",
        "output_fields": list(STORAGE_FIELDS),
        "storage_type": kind,
        "nodes": list(nodes),
    }


VOLUME_FIELDS = ("node", "vg", "name", "instance")


def query_volumes(nodes: Sequence[str]) -> Opcode:
    """Ask nodes for their logical volumes, with the instances that they belong to."""
    return {"OP_ID": "OP_NODE_QUERYVOLS", "output_fields": list(VOLUME_FIELDS), "nodes": list(nodes)}


def query_disks(instances: Sequence[str]) -> Opcode:
    """Ask for the configuration of instances, with the places of their disks, without locks."""
    return {
        "OP_ID": "OP_INSTANCE_QUERY_DATA",
        "instances": list(instances),
        "static": True,
        "use_locking": False,
    }


def sources(opcode: Opcode) -> list[Any]:
    """Return the programs in the reason trail of an opcode."""
    reasons = opcode.get("reason") or ()
    return [reason[0] for reason in reasons if isinstance(reason, list | tuple) and reason]


@dataclass(frozen=True, slots=True)
class Signature:
    """Origin of jobs, in their reason trail and comment.

    ``source`` is the program, ``reason`` why it was started, ``purpose`` the purpose of the jobs, ``run`` a
    unique id. Purpose, run and number make a unique comment, which identifies the job in the queue.
    ``plan`` describes the plan to the next master's daemon (:mod:`ganeti_htools.luxi.past_jobs`); if it is
    empty, the trail has no such entry.
    """

    source: str
    reason: str
    purpose: str
    run: str
    priority: int = 0
    plan: str = ""

    def comment(self, number: str) -> str:
        """Return the comment of a job. Number 2/1 is the first job of the second jobset."""
        return f"{self.purpose}, run {self.run}, job {number}"

    def sign(self, opcodes: Sequence[Opcode], number: str, time_ns: int, left: int = 0) -> list[Opcode]:
        """Return the opcodes of a job with reason trail, comment and priority, ready to submit.

        ``left`` is the number of the plan's jobs after the job's jobset.
        """
        trail = [[self.source, self.reason, time_ns]]
        if self.plan:
            trail.append(["htoolsd", f"{self.plan}, {left} jobs left", time_ns])
        common = {
            "priority": self.priority,
            "depends": None,
            "comment": self.comment(number),
            "reason": trail,
        }
        return [{**common, **opcode} for opcode in opcodes]
