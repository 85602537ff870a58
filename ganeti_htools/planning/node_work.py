"""Changes of nodes and tags: opcodes, each with the shell command that does the same."""

from collections.abc import Sequence
from shlex import join, quote

from ganeti_htools.luxi import opcodes
from ganeti_htools.luxi.opcodes import Opcode

Work = tuple[Opcode, str]


def both(*work: Work) -> tuple[tuple[Opcode, ...], tuple[str, ...]]:
    """Return the opcodes, and the commands."""
    return tuple(opcode for opcode, _ in work), tuple(command for _, command in work)


def role(node: str, role: str, holds: bool, promote: bool = False) -> Work:
    """Set or clear the flag ``drained`` or ``offline`` of a node."""
    options = f"{'--auto-promote ' if promote else ''}--{role} {'yes' if holds else 'no'}"
    return opcodes.set_node(node, role, holds, promote), f"gnt-node modify {options} {quote(node)}"


def tag_work(node: str, *tags: str) -> Work:
    """Add tags to a node."""
    return opcodes.tag_node(node, tags), f"gnt-node add-tags {quote(node)} {join(tags)}"


def untag_work(node: str, tags: Sequence[str]) -> Work:
    """Remove tags from a node."""
    return opcodes.untag_node(node, tags), f"gnt-node remove-tags {quote(node)} {join(tags)}"


def tag_instance(instance: str, *tags: str) -> Work:
    """Add tags to an instance."""
    return opcodes.tag_instance(instance, tags), f"gnt-instance add-tags {quote(instance)} {join(tags)}"


def untag_instance(instance: str, *tags: str) -> Work:
    """Remove tags from an instance."""
    return opcodes.untag_instance(instance, tags), f"gnt-instance remove-tags {quote(instance)} {join(tags)}"
