"""Opcodes that change tags (``lib/cmdlib/tags.py``)."""

from dataclasses import replace
from typing import Any

from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.model.tags import LONGEST, is_valid
from ganeti_htools.simulator.objects import instance_of, is_group, node_of
from ganeti_htools.simulator.opcodes import prereq_error
from ganeti_htools.simulator.world import World


def add(world: World, opcode: Opcode) -> tuple[World, Any]:
    """Add tags to an object."""
    for tag in opcode["tags"]:
        if len(tag) > LONGEST:
            raise prereq_error(f"Tag too long (maximum {LONGEST} characters)", "wrong_input")
        if not is_valid(tag):
            raise prereq_error("Tag contains invalid characters", "wrong_input")
    tags = {*_tags_of(world, opcode), *opcode["tags"]}
    return _with_tags(world, opcode, tuple(sorted(tags))), None


def remove(world: World, opcode: Opcode) -> tuple[World, Any]:
    """Remove tags from an object, which must have them."""
    tags, removed = _tags_of(world, opcode), opcode["tags"]
    missing = sorted({*removed} - {*tags})
    if missing:
        raise prereq_error(f"Tag(s) {', '.join(map(repr, missing))} not found", "unknown_entity")
    return _with_tags(world, opcode, tuple(tag for tag in tags if tag not in removed)), None


def _tags_of(world: World, opcode: Opcode) -> tuple[str, ...]:
    return tags_of_object(world, opcode["kind"], opcode.get("name") or "")


def tags_of_object(world: World, kind: str, name: str) -> tuple[str, ...]:
    """Return the tags of an object. Raises OpcodeError."""
    found: list[tuple[str, ...]]
    match kind:
        case "cluster":
            return world.cluster.tags
        case "nodegroup":
            found = [group.tags for group in world.cluster.groups if is_group(group, name)]
        case "node":
            found = [node.tags for node in world.cluster.nodes if node.name == name]
        case "instance":
            found = [instance.tags for instance in world.cluster.instances if instance.name == name]
        case _:
            found = []
    if not found:
        title = "Group" if kind == "nodegroup" else kind.title()
        raise prereq_error(f"{title} name {name} not found", "unknown_entity")
    return found[0]


def _with_tags(world: World, opcode: Opcode, tags: tuple[str, ...]) -> World:
    cluster, name = world.cluster, opcode.get("name") or ""
    match opcode["kind"]:
        case "cluster":
            return replace(world, cluster=replace(cluster, tags=tags))
        case "nodegroup":
            groups = (replace(row, tags=tags) if is_group(row, name) else row for row in cluster.groups)
            return replace(world, cluster=replace(cluster, groups=tuple(groups)))
        case "node":
            return world.with_nodes((replace(node_of(world, name), tags=tags),))
        case _:
            return world.with_instance(replace(instance_of(world, {"instance_name": name}), tags=tags))
