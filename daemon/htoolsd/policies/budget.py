"""How much of a plan there is room for. Pure functions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ganeti_htools.engine.balancing.traffic import copied
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.moves import MoveKind
from htoolsd.policies.memory import Room


def affordable(cluster: Cluster, steps: Sequence[Mapping[str, Any]], room: Room) -> Iterator[int]:
    """How many MiB each of the first steps (as they are told of a proposal) copies, as far as there is room
    and no instance moves twice.
    """
    rows = {instance.name: instance for instance in cluster.instances}
    moved, copies = set[str](), 0
    for step in steps:
        name = step["instance"]
        more = sum(copied(MoveKind(step["move"]), rows[name]))
        if name in moved or len(moved) == room.moves or copies + more > room.mib:
            return
        moved.add(name)
        copies += more
        yield more
