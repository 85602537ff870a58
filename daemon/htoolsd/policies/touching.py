"""Which jobs touch a node group. Pure functions."""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

# What may end up in any group unless this parameter tells where.
_ANYWHERE = {
    "OP_INSTANCE_CREATE": "pnode",
    "OP_INSTANCE_CHANGE_GROUP": "target_groups",
    "OP_GROUP_EVACUATE": "target_groups",
}
_SAID = ("reason", "comment")  # by whoever submitted it


def touching(opcodes: Sequence[Mapping[str, Any]], here: Set[str], known: Set[str]) -> bool:
    """Whether a job touches a node group: one of its opcodes names something of it (``here`` has the group's
    name and those of its nodes and instances), or nothing that is ``known`` in the cluster, or leaves it to
    Ganeti in which group something ends up. Those that only ask do not.
    """
    return any(_touches(each, here, known) for each in opcodes if "_QUERY" not in str(each.get("OP_ID")))


def _touches(opcode: Mapping[str, Any], here: Set[str], known: Set[str]) -> bool:
    names = {text for key, value in opcode.items() if key not in _SAID for text in _texts(value)}
    target = _ANYWHERE.get(str(opcode.get("OP_ID")))
    anywhere = target is not None and not opcode.get(target)
    return anywhere or bool(names & here) or not names & known


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from _texts(each)
        case list() | tuple():
            for each in value:
                yield from _texts(each)
