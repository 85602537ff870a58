"""Names of instances, nodes and node groups in the settings of policies. Pure functions.

A name goes on to mean its object after a renaming, by the UUID that it had. A name without an object is left
out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.planning.view import is_called
from htoolsd.config.policies import PolicySettings

_KINDS = {"groups": "group", "exclude_instances": "instance", "prefer": "node", "never": "node"}  # by key

Uuids = Mapping[str, Mapping[str, str]]  # of the objects that names meant, by kind and name
S = TypeVar("S", bound=PolicySettings)


@dataclass(frozen=True, slots=True)
class NamedObjects:
    """The objects of a cluster: names and UUIDs by kind, and the tags of nodes."""

    uuids: Uuids
    node_tags: frozenset[str]

    def meant_by(self, kind: str, name: str, known: Uuids) -> tuple[str, ...]:
        """Return the present names of what a name, perhaps cut off at a dot, means; a tag of nodes itself.

        After a renaming, an object that has got the old name is meant as well.
        """
        objects = self.uuids[kind]
        found = [name] if name in objects or (kind == "node" and name in self.node_tags) else []
        if not found and kind != "group":
            found = [each for each in objects if is_called(each, name)]
        uuid = known.get(kind, {}).get(name)
        if uuid and uuid not in [objects.get(each) for each in found]:
            found += [each for each, own in objects.items() if own == uuid]
        return tuple(found)


def named_objects(cluster: Cluster) -> NamedObjects:
    """Return the objects of a cluster that settings may name."""
    uuids = {
        "group": {row.name: row.uuid for row in cluster.groups},
        "instance": {row.name: row.uuid for row in cluster.instances},
        "node": {row.name: row.uuid for row in cluster.nodes},
    }
    return NamedObjects(uuids, frozenset(tag for node in cluster.nodes for tag in node.tags))


def unknown_names(settings: PolicySettings, objects: NamedObjects, known: Uuids) -> dict[str, list[str]]:
    """Return the names in settings that mean nothing, by key."""
    found = {
        key: [name for name in getattr(settings, key, ()) if not objects.meant_by(kind, name, known)]
        for key, kind in _KINDS.items()
    }
    return {key: names for key, names in found.items() if names}


def with_present_names(settings: S, objects: NamedObjects, known: Uuids) -> S:
    """Return the settings with the present names of what they mean."""
    present = {
        key: tuple(dict.fromkeys(new for name in names for new in objects.meant_by(kind, name, known)))
        for key, kind in _KINDS.items()
        if (names := getattr(settings, key, ()))
    }
    return replace(settings, **present)  # type: ignore[arg-type]


def remembered(settings: Iterable[PolicySettings], objects: NamedObjects, known: Uuids) -> Uuids:
    """Return the UUIDs of all names in settings. A UUID stays until its object is gone."""
    found: dict[str, dict[str, str]] = {kind: {} for kind in objects.uuids}
    for each in settings:
        for key, kind in _KINDS.items():
            there = objects.uuids[kind]
            for name in getattr(each, key, ()):
                meant = [uuid for new in objects.meant_by(kind, name, known) if (uuid := there.get(new))]
                before = known.get(kind, {}).get(name)
                if meant:
                    found[kind][name] = before if before in meant else meant[0]
                elif before:
                    found[kind][name] = before
    return {kind: names for kind, names in found.items() if names}
