"""Opcodes of jobs beside the shell commands that do the same: moves, changes of nodes and tags."""

from collections.abc import Sequence
from shlex import join, quote

from ganeti_htools.luxi import opcodes
from ganeti_htools.luxi.opcodes import Opcode, opcode_of
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.moves import NamedMove, Operation

OpcodeAndCommand = tuple[Opcode, str]


def opcodes_and_commands(*work: OpcodeAndCommand) -> tuple[tuple[Opcode, ...], tuple[str, ...]]:
    return tuple(opcode for opcode, _ in work), tuple(command for _, command in work)


def opcodes_of(move: NamedMove, forthcoming: bool) -> tuple[Opcode, ...]:
    """Return the opcodes of a move, as Ganeti's htools submit them (``Cluster.Utils.iMoveToJob``).

    A ``forthcoming`` instance is failed over, any other instance is migrated.
    """
    return tuple(
        opcode_of(operation, move.instance, node or "", forthcoming) for operation, node in move.parts
    )


def command_of(operation: Operation, row: Instance, name: str, new: str) -> str:
    """Return the command for an operation of a move, with the instance's name and the new node, if any."""
    name, new = quote(name), quote(new)
    if operation is Operation.REPLACE_SECONDARY:
        return f"gnt-instance replace-disks -n {new} {name}"
    if operation is Operation.MOVE:
        return f"gnt-instance move -f -n {new} {name}"
    verb = "migrate" if row.status.running else "failover"
    target = f" -n {new}" if operation.takes_node else ""
    return f"gnt-instance {verb} -f{target} {name}"


def drain_work(node: str, promote: bool) -> OpcodeAndCommand:
    """Drain a node. Others become master candidates with ``promote``, or in a script if Ganeti asks for more.

    Ganeti locks all nodes for that.
    """
    op, command = role(node, "drained", True, promote)
    return op, command if promote else f"{command} || {role(node, 'drained', True, promote=True)[1]}"


def asks_for_candidates(error: str) -> bool:
    """Whether a job failed because other nodes have to become master candidates first."""
    return "Not enough master candidates" in error


def role(node: str, role: str, holds: bool, promote: bool = False) -> OpcodeAndCommand:
    """Set or clear the flag ``drained`` or ``offline`` of a node."""
    options = f"{'--auto-promote ' if promote else ''}--{role} {'yes' if holds else 'no'}"
    return opcodes.set_node(node, role, holds, promote), f"gnt-node modify {options} {quote(node)}"


def tag_work(node: str, *tags: str) -> OpcodeAndCommand:
    return opcodes.tag_node(node, tags), f"gnt-node add-tags {quote(node)} {join(tags)}"


def untag_work(node: str, tags: Sequence[str]) -> OpcodeAndCommand:
    return opcodes.untag_node(node, tags), f"gnt-node remove-tags {quote(node)} {join(tags)}"


def tag_instance(instance: str, *tags: str) -> OpcodeAndCommand:
    return opcodes.tag_instance(instance, tags), f"gnt-instance add-tags {quote(instance)} {join(tags)}"


def untag_instance(instance: str, *tags: str) -> OpcodeAndCommand:
    return opcodes.untag_instance(instance, tags), f"gnt-instance remove-tags {quote(instance)} {join(tags)}"
