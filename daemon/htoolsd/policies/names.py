"""Names of instances, nodes and node groups in the settings of policies. Pure functions.

A name goes on to mean its object after a renaming, by the UUID that is remembered. A name without an object
is left out.
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
    """The objects of a cluster: names and UUIDs by kind, and the tags of nodes.

    ``remembered`` are the UUIDs of what names in settings meant before.
    """

    uuids: Uuids
    node_tags: frozenset[str]
    remembered: Uuids

    def meant_by(self, kind: str, name: str) -> tuple[str, ...]:
        """Return the present names of what a name, perhaps cut off at a dot, means; a tag of nodes itself.

        After a renaming, an object that has got the old name is meant as well.
        """
        objects = self.uuids[kind]
        meant = [name] if name in objects or (kind == "node" and name in self.node_tags) else []
        if not meant and kind != "group":
            meant = [longer for longer in objects if is_called(longer, name)]
        uuid = self.remembered.get(kind, {}).get(name)
        if uuid and uuid not in [objects.get(each) for each in meant]:
            meant += [renamed for renamed, own in objects.items() if own == uuid]
        return tuple(meant)


def named_objects(cluster: Cluster, remembered: Uuids) -> NamedObjects:
    """Return the objects of a cluster that settings may name."""
    uuids = {
        "group": {row.name: row.uuid for row in cluster.groups},
        "instance": {row.name: row.uuid for row in cluster.instances},
        "node": {row.name: row.uuid for row in cluster.nodes},
    }
    return NamedObjects(uuids, frozenset(tag for node in cluster.nodes for tag in node.tags), remembered)


def unknown_names(settings: PolicySettings, objects: NamedObjects) -> dict[str, list[str]]:
    """Return the names in settings that mean nothing, by key."""
    unknown = {
        key: [name for name in getattr(settings, key, ()) if not objects.meant_by(kind, name)]
        for key, kind in _KINDS.items()
    }
    return {key: names for key, names in unknown.items() if names}


def with_present_names(settings: S, objects: NamedObjects) -> S:
    """Return the settings with the present names of what they mean.

    A node group that does not exist stays, since a policy without names of groups acts in all.
    """

    def present(kind: str, name: str) -> tuple[str, ...]:
        return objects.meant_by(kind, name) or ((name,) if kind == "group" else ())

    changed = {
        key: tuple(dict.fromkeys(new for name in names for new in present(kind, name)))
        for key, kind in _KINDS.items()
        if (names := getattr(settings, key, ()))
    }
    return replace(settings, **changed)  # type: ignore[arg-type]


def groups_of(settings: PolicySettings, cluster: Cluster) -> list[str]:
    """Return the node groups in which a policy may act, by settings with present names."""
    return [row.name for row in cluster.groups if not settings.groups or row.name in settings.groups]


def uuids_of(settings: Iterable[PolicySettings], objects: NamedObjects) -> Uuids:
    """Return the UUIDs of all names in settings. A UUID stays until its object is gone."""
    uuids: dict[str, dict[str, str]] = {kind: {} for kind in objects.uuids}
    for each in settings:
        for key, kind in _KINDS.items():
            for name in getattr(each, key, ()):
                meant = [objects.uuids[kind].get(new) for new in objects.meant_by(kind, name)]
                before = objects.remembered.get(kind, {}).get(name)
                if uuid := before if before in meant else next(filter(None, meant), before):
                    uuids[kind][name] = uuid
    return {kind: names for kind, names in uuids.items() if names}
