"""Instances that run where or when they should not, for example after a migration that was cut off."""

from collections.abc import Iterable, Iterator, Sequence
from shlex import join
from typing import Any, NamedTuple

from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.errors import first_names
from ganeti_htools.model.types import MirrorType, Status

FAULTY = (Status.WRONG_NODE, Status.ERROR_UP)

# By kind: the text for one instance, and for several.
_TEXTS = {
    "wrongnode": ("runs on another node than its primary", "run on other nodes than their primaries"),
    "unmovable": (
        "runs on another node than its primary and cannot be migrated",
        "run on other nodes than their primaries and cannot be migrated",
    ),
    "up": ("runs although it should be down", "run although they should be down"),
}


class InstanceFault(NamedTuple):
    """A fault: its ``kind``, a sentence, the next ``command``, and the names of the instances."""

    kind: str
    text: str
    command: str
    names: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


def instance_faults(instances: Iterable[Instance], iallocator: str) -> Iterator[InstanceFault]:
    """Yield the faults of instances; the cluster's default ``iallocator`` is empty without one.

    After a migration that was cut off, ``gnt-instance migrate --cleanup`` makes the node on which an instance
    runs its primary (``gnt-instance(8)``). Ganeti needs a node or an iallocator for shared storage.
    """
    found: dict[str, dict[str, list[str]]] = {kind: {} for kind in _TEXTS}
    for row in instances:
        mirror, name = row.template.mirror, row.name
        if row.status is Status.ERROR_UP:
            found["up"][name] = ["gnt-instance", "shutdown", name]
        elif row.status is Status.WRONG_NODE and mirror is MirrorType.NONE:
            found["unmovable"][name] = ["gnt-cluster", "verify"]  # names the node
        elif row.status is Status.WRONG_NODE:
            chosen = ["-I", iallocator or "hail"] if mirror is MirrorType.EXTERNAL else []
            found["wrongnode"][name] = ["gnt-instance", "migrate", "--cleanup", *chosen, name]
    for kind, commands in found.items():
        if names := list(commands):
            text = f"{first_names(names)} {_TEXTS[kind][len(names) > 1]}"
            yield InstanceFault("up" if kind == "up" else "wrongnode", text, join(commands[names[0]]), names)
