"""Rules about the nodes of instances, as arrays: derived from tags (:mod:`.placement_tags`)."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.node_usage import HostedInstances
from ganeti_htools.model.placement_tags import (
    Choice,
    Distance,
    PlacementTags,
    against,
    has_rules,
    placement_tags,
)

T = TypeVar("T", bound=Any)


@dataclass(frozen=True, slots=True)
class InstanceRules:
    """The rules of some instances (rows), as rows of the arrays of :class:`PlacementRules`.

    ``choice`` selects the allowed nodes, ``distances`` and ``sets`` (instances by rules) the distances to
    keep and the sets to stay with, NOWHERE where an instance has fewer of them.
    """

    choice: Ints
    distances: Ints
    sets: Ints

    @property
    def any(self) -> Bools:
        numbered = ((of != NOWHERE).any(axis=-1) for of in (self.distances, self.sets))
        found: Bools = np.logical_or.reduce([self.choice > 0, *numbered])
        return found

    def take(self, rows: Ints) -> "InstanceRules":
        return InstanceRules(self.choice[rows], self.distances[rows], self.sets[rows])

    def without(self, rows: Sequence[int]) -> "InstanceRules":
        """Return the rules if some instances had none."""
        found = InstanceRules(self.choice.copy(), self.distances.copy(), self.sets.copy())
        found.choice[rows], found.distances[rows], found.sets[rows] = 0, NOWHERE, NOWHERE
        return found

    def followed_by(self, other: "InstanceRules") -> "InstanceRules":
        """Return these instances and then others."""
        return InstanceRules(
            np.concatenate([self.choice, other.choice]),
            _joined(self.distances, other.distances),
            _joined(self.sets, other.sets),
        )


@dataclass(slots=True)
class PlacementRules:
    """The rules of all instances of a state about their nodes.

    * ``choices`` number different sets of allowed nodes, ``eligible`` (choices by nodes) are these nodes.
      Number 0 allows all nodes.
    * ``distances`` number the sets whose members keep a distance. ``crowds`` (distances by nodes) count the
      primaries of members at the locations of each node.
    * ``near`` (classes by nodes by nodes): nodes that share a location of a class; ``near_of`` is the class
      of each distance.
    * ``sets`` number the sets that stay together; ``primaries`` and ``secondaries`` (sets by nodes) count
      their members.

    Tags with the same members have one number. A tag with one member rules nothing, and has none.
    ``stuck`` marks mirrored instances that could not fail over for their rules when the cluster was read.
    The last row of ``crowds``, ``primaries`` and ``secondaries`` is that of NOWHERE. They change in place.
    """

    instances: InstanceRules
    choices: dict[Choice, int]
    eligible: Bools
    distances: dict[Distance, int]
    crowds: Ints
    near: Bools
    near_of: Ints
    sets: dict[str, int]
    primaries: Ints
    secondaries: Ints
    stuck: Bools

    def copy(self) -> "PlacementRules":
        """Return a copy; changes of the copy do not affect these."""
        return replace(
            self,
            crowds=self.crowds.copy(),
            primaries=self.primaries.copy(),
            secondaries=self.secondaries.copy(),
        )

    def part(self, nodes: Ints, instances: Ints) -> "PlacementRules":
        """Return the rules of some nodes and instances (rows). Members on other nodes stay counted."""
        return replace(
            self,
            instances=self.instances.take(instances),
            eligible=self.eligible[:, nodes],
            crowds=self.crowds[:, nodes],
            near=self.near[:, nodes][:, :, nodes],
            primaries=self.primaries[:, nodes],
            secondaries=self.secondaries[:, nodes],
            stuck=self.stuck[instances],
        )

    def of(self, rows: Sequence[Instance]) -> InstanceRules:
        """Return the rules of instances of the cluster, or of requested ones."""
        return self._numbered([placement_tags(row.tags) for row in rows])

    def followed_by(self, rows: Sequence[Instance]) -> "PlacementRules":
        """Return the rules with further instances, which are on no node yet."""
        stuck = np.concatenate([self.stuck, np.zeros(len(rows), np.bool_)])
        return replace(self, instances=self.instances.followed_by(self.of(rows)), stuck=stuck)

    def count(self, rules: InstanceRules, pnode: int, snode: int, sign: int) -> None:
        """Count one instance that comes to nodes (1) or leaves them (-1), in place."""
        distances, sets = rules.distances[rules.distances != NOWHERE], rules.sets[rules.sets != NOWHERE]
        if pnode != NOWHERE:
            self.crowds[distances] += sign * self.near[self.near_of[distances], pnode]
            self.primaries[sets, pnode] += sign
        if snode != NOWHERE:
            self.secondaries[sets, snode] += sign

    def keeps_from(self, rules: InstanceRules, pnode: int, snode: int) -> bool:
        """Whether other instances keep one with these nodes from failing over."""
        distances, sets = rules.distances[rules.distances != NOWHERE], rules.sets[rules.sets != NOWHERE]
        crowded = self.crowds[distances, snode] > self.near[self.near_of[distances], pnode, snode]
        elsewhere = self.primaries[sets].sum(axis=1) - self.primaries[sets, pnode]
        return bool(crowded.any() or (self.primaries[sets, snode] < elsewhere).any())

    def _numbered(self, parsed: Sequence[PlacementTags]) -> InstanceRules:
        return InstanceRules(
            np.array([self.choices[each.choice] for each in parsed], np.int64),
            _padded([_numbers(self.distances, each.apart) for each in parsed]),
            _padded([_numbers(self.sets, each.together) for each in parsed]),
        )


def placement_rules(
    cluster: Cluster, requested: Sequence[Instance], placed: HostedInstances
) -> PlacementRules | None:
    """Derive the rules of the instances of a cluster, and of requested ones; None if there are none."""
    ruled = np.flatnonzero(placed.values["ruled"]).tolist()
    if not ruled and not any(has_rules(row.tags) for row in requested):
        return None
    nothing = PlacementTags()
    parsed = {row: placement_tags(cluster.instances[row].tags) for row in ruled}
    wanted = [*parsed.values(), *(placement_tags(row.tags) for row in requested)]
    if all(each == nothing for each in wanted):
        return None
    choices = {nothing.choice: 0}
    eligible = [[True] * len(cluster.nodes)]
    for choice in (each.choice for each in wanted):
        if choice not in choices:
            nodes = [not any(against(choice, node)) for node in cluster.nodes]
            choices[choice] = 0 if all(nodes) else len(eligible)
            eligible += [] if all(nodes) else [nodes]
    distances = _numbered_tags([each.apart for each in wanted], lambda each: each[0])
    sets = _numbered_tags([each.together for each in wanted])
    classes = sorted({location for location, _ in distances}) or [""]
    location_of = {which: classes.index(location) for (location, _), which in distances.items()}
    size = len(cluster.nodes)
    found = PlacementRules(
        InstanceRules(np.zeros(0, np.int64), np.zeros((0, 0), np.int64), np.zeros((0, 0), np.int64)),
        choices,
        np.array(eligible, np.bool_),
        distances,
        np.zeros((len(location_of) + 1, size), np.int64),
        np.array([_near(cluster, location) for location in classes], np.bool_).reshape(-1, size, size),
        np.array([location_of[which] for which in range(len(location_of))] or [0], np.int64),
        sets,
        np.zeros((len({*sets.values()}) + 1, size), np.int64),
        np.zeros((len({*sets.values()}) + 1, size), np.int64),
        np.zeros(len(cluster.instances), np.bool_),
    )
    rows = found._numbered([parsed.get(row, nothing) for row in range(len(cluster.instances))])
    for row in ruled:
        found.count(rows.take(np.array([row])), int(placed.pnode[row]), int(placed.snode[row]), 1)
    _count_moving(found, cluster)
    for row in ruled:
        p, s = int(placed.pnode[row]), int(placed.snode[row])
        found.stuck[row] = s != NOWHERE and found.keeps_from(rows.take(np.array([row])), p, s)
    return replace(found, instances=rows)


def _count_moving(rules: PlacementRules, cluster: Cluster) -> None:
    """Count instances that will move, in place: at both places for distances, at the new one for sets."""
    nodes = {node.name: row for row, node in enumerate(cluster.nodes)}
    old = {row.name: row for row in cluster.instances}
    for row in (each for each in cluster.moving if each.name in old):
        of = rules.of([row])
        for at, counted, sign in (
            (row, of, 1),
            (old[row.name], replace(of, distances=of.distances[:, :0]), -1),
        ):
            rules.count(counted, nodes[at.pnode], NOWHERE if at.snode is None else nodes[at.snode], sign)


def _numbered_tags(
    tags_of: Sequence[Iterable[T]], kind: Callable[[T], Hashable] = lambda _: None
) -> dict[T, int]:
    """Number the tags of two or more instances. Tags of a kind with the same members get the same number."""
    members = defaultdict[T, list[int]](list)
    for member, found in enumerate(tags_of):
        for tag in found:
            members[tag].append(member)
    numbers: dict[Hashable, int] = {}
    return {
        tag: numbers.setdefault((kind(tag), *members[tag]), len(numbers))
        for tag in sorted(members)
        if len(members[tag]) > 1
    }


def _numbers(numbers: Mapping[T, int], tags_of: Iterable[T]) -> list[int]:
    return sorted({numbers[tag] for tag in tags_of if tag in numbers})


def _padded(rows: Sequence[Sequence[int]]) -> Ints:
    """Return rows of different lengths as an array, NOWHERE behind their ends."""
    found = np.full((len(rows), max(map(len, rows), default=0)), NOWHERE)
    for row, values in enumerate(rows):
        found[row, : len(values)] = values
    return found


def _joined(one: Ints, other: Ints) -> Ints:
    """Return the rows of two arrays as one, NOWHERE behind the ends of the shorter rows."""
    most = max(one.shape[1], other.shape[1])
    return np.concatenate(
        [np.pad(each, ((0, 0), (0, most - each.shape[1])), constant_values=NOWHERE) for each in (one, other)]
    )


def _near(cluster: Cluster, location: str) -> Bools:
    """Mark the pairs of nodes that share a location of a class.

    Nodes without a location of the class are at one location together: nobody knows that they are apart.
    """
    if not location:
        return np.eye(len(cluster.nodes), dtype=np.bool_)
    known = location in {
        tag.removeprefix(tags.LOCATION) for tag in cluster.tags if tag.startswith(tags.LOCATION)
    }
    own = [[tag for tag in node.tags if known and tag.startswith(f"{location}:")] for node in cluster.nodes]
    row = {tag: number for number, tag in enumerate(sorted({tag for each in own for tag in each}))}
    located = np.zeros((len(own), len(row) + 1), np.bool_)
    for node, found in enumerate(own):
        located[node, [row[tag] for tag in found] or [len(row)]] = True
    return located @ located.T
