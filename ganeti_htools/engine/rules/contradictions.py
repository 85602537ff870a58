"""Rules of tags that no placement satisfies (``hcheck --rules``).

A placement gives each instance with rules a primary, and a mirrored one a secondary of the same group, on
nodes that take instances. Free resources do not count, but instances that stay together must fit on empty
nodes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import numpy as np

from ganeti_htools.engine.rules import node_rules
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.placement_tags import TOGETHER, against, placement_tags, tag_of
from ganeti_htools.model.state import RequestedInstance, State


class Distance(NamedTuple):
    """Nodes that are ``near`` each other (nodes by nodes), and the most that are near one.

    ``location`` numbers the nodes; nodes that are not near each other have different numbers.
    """

    near: Bools
    most: int
    location: Ints


def distance_of(near: Bools) -> Distance:
    disjoint = (near @ near == near).all()  # else nodes are at several locations
    location = near.argmax(axis=1) if disjoint else np.arange(len(near))
    return Distance(near, int(near.sum(axis=1).max(initial=0)), location)


class Separation(NamedTuple):
    """Members (rows of places) that keep a distance from each other."""

    distance: Distance
    members: Ints


def all_find_places(
    places: Bools, separations: Sequence[Separation], patience: Iterator[object]
) -> bool | None:
    """Whether each row of places (by nodes) can have one of its nodes. None if the patience ends before.

    The search is exact. Instances with more places than others can take from them are left out. Of the
    others the one with the fewest places left gets one of them, and those near it are lost to its sets. A
    branch ends early if the members of a set cannot each have a location of their own (a matching).
    """
    if not places.any(axis=1).all():
        return False
    free = _crowded(places, separations)
    sets = [Separation(distance, members[free[members]]) for distance, members in separations]
    sets = [each for each in sets if len(each.members) > 1]
    waiting = [(places, free, NOWHERE, NOWHERE)]
    while waiting:
        if next(patience, None) is None:
            return None
        left, free, row, node = waiting.pop()
        touched = [each for each in sets if row == NOWHERE or row in each.members]
        if row != NOWHERE:
            left, free = left.copy(), free.copy()
            for distance, members in touched:
                left[members] &= ~distance.near[node]
            left[row] = np.arange(len(left[row])) == node
            free[row] = False
        if not all(_may_separate(left, each) for each in touched):
            continue
        if not free.any():
            return True
        chosen = int(np.where(free, left.sum(axis=1), len(left[0]) + 1).argmin())
        waiting += ((left, free, chosen, node) for node in np.flatnonzero(left[chosen])[::-1].tolist())
    return False


def _crowded(places: Bools, separations: Sequence[Separation]) -> Bools:
    """Mark the rows that others could leave without a place; all others find one whatever these get."""
    number, found = places.sum(axis=1), np.ones(len(places), np.bool_)
    while True:
        taken = np.zeros(len(places), np.int64)
        for distance, members in separations:
            taken[members] += distance.most * (int(found[members].sum()) - 1)
        crowded = found & (number <= taken)
        if (crowded == found).all():
            return found
        found = crowded


def _may_separate(places: Bools, separation: Separation) -> bool:
    """Whether the members can each have a location of their own."""
    own = (separation.distance.location[places[member]] for member in separation.members.tolist())
    choices = [list(dict.fromkeys(each.tolist())) for each in own]
    taken, held = dict[int, int](), dict[int, int]()
    return all(_augment(member, choices, taken, held) for member in range(len(choices)))


def _augment(
    member: int, choices: Sequence[Sequence[int]], taken: dict[int, int], held: dict[int, int]
) -> bool:
    """Give one more member a location, in place; others may exchange theirs. False if that is impossible.

    ``taken`` has the member of each location, ``held`` the location of each member.
    """
    asking, asked_by = [member], dict[int, int]()
    for each in asking:
        for location in choices[each]:
            if location in asked_by:
                continue
            asked_by[location] = each
            if location in taken:
                asking.append(taken[location])
                continue
            found: int | None = location
            while found is not None:
                owner = asked_by[found]
                taken[found], held[owner], found = owner, found, held.get(owner)
            return True
    return False


PATIENCE = 20_000  # places that are tried for instances that share sets

T = TypeVar("T", int, str)


class Contradiction(NamedTuple):
    """Rules, as tags, that some instances (rows) cannot keep all at once, on whichever nodes.

    No rule and no instance can be left out. ``nodes`` (rows) are the primaries that the rules leave to at
    least one of the instances. ``by_size``: only room is missing.
    """

    rules: tuple[str, ...]
    instances: tuple[int, ...]
    nodes: tuple[int, ...]
    by_size: bool


class RuleCheck(NamedTuple):
    """Contradictions, each of other instances.

    ``undecided``: instances (rows) that share sets, with too many places to try. ``oversized``: instances
    (rows) that were left out, since no empty node takes them whatever their rules.
    """

    contradictions: tuple[Contradiction, ...]
    undecided: tuple[tuple[int, ...], ...]
    oversized: tuple[int, ...]


def check_rules(empty: State, instances: Sequence[Instance]) -> RuleCheck:
    """Find contradictions in the rules of instances. ``empty`` was derived for them, without instances."""
    problem = _problem(empty, instances)
    oversized = [row for row in problem.rules if not problem.primaries([row], frozenset()).any()]
    single = [[row] for row in problem.rules if row not in oversized]
    alone = [problem.contradiction(rows) for rows in single if problem.possible(rows) is False]
    several, undecided = list[Contradiction](), list[tuple[int, ...]]()
    rest = problem.rules.keys() - oversized - {row for each in alone for row in each.instances}
    for rows in _connected(rest, problem.shared):
        while (possible := problem.possible(rows)) is False:
            several.append(problem.contradiction(rows))
            rows = [row for row in rows if row not in several[-1].instances]
        if possible is None:
            undecided.append(tuple(rows))
    return RuleCheck((*alone, *several), tuple(undecided), tuple(oversized))


@dataclass(slots=True)
class _Problem:
    """The rules, as tags, of instances (by row) that have any.

    ``allowed`` has the nodes for each rule about single nodes, ``distances`` those of rules about several
    instances. All other rules are sets that stay together.
    """

    empty: State
    asked: dict[int, RequestedInstance]
    rules: dict[int, frozenset[str]]
    allowed: dict[str, Bools]
    distances: dict[str, Distance]
    sized: bool = True
    roomy: dict[tuple[bool, tuple[int, ...]], Bools] = field(default_factory=dict)

    def rules_of(self, rows: Iterable[int]) -> list[str]:
        """Return the rules of instances, sorted."""
        return sorted(frozenset[str]().union(*(self.rules[row] for row in rows)))

    def shared(self, row: int) -> frozenset[str]:
        """Return the rules of an instance that other instances have a part in."""
        return self.rules[row] - self.allowed.keys()

    def contradiction(self, rows: Sequence[int]) -> Contradiction:
        """Find a contradiction in the rules of instances, which do contradict each other."""
        patience = iter(range(PATIENCE))

        def contradict(some: Iterable[int], rules: Iterable[str]) -> bool:
            return self.possible(some, rules, patience) is False

        rules = _needed(self.rules_of(rows), lambda some: contradict(rows, some))
        concerned = [row for row in rows if self.rules[row] & rules]
        few = _needed(concerned, lambda some: contradict(some, rules))
        left = self._places(few, rules)[1].any(axis=0)
        unsized = replace(self, sized=False).possible(few, rules)
        return Contradiction(
            tuple(sorted(rules)), tuple(sorted(few)), tuple(np.flatnonzero(left).tolist()), unsized is True
        )

    def possible(
        self, rows: Iterable[int], rules: Iterable[str] | None = None, patience: Iterator[int] | None = None
    ) -> bool | None:
        """Whether instances can keep these rules, or all of theirs; None if the patience ends before."""
        chosen, separations = frozenset(self.rules_of(rows) if rules is None else rules), []
        concerned = [row for row in rows if self.rules[row] & chosen]
        blocks, places = self._places(concerned, chosen)
        for rule in sorted(chosen & self.distances.keys()):
            members = [at for at, block in enumerate(blocks) for row in block if rule in self.rules[row]]
            if len(set(members)) < len(members):
                return False
            separations.append(Separation(self.distances[rule], np.array(members, np.int64)))
        return all_find_places(places, separations, patience or iter(range(PATIENCE)))

    def _places(self, rows: Iterable[int], rules: frozenset[str]) -> tuple[list[list[int]], Bools]:
        """Return the instances that stay together, and the primaries (by nodes) of each such block."""
        blocks = list(_connected(rows, self._sets(rules)))
        found = np.array([self.primaries(block, rules) for block in blocks], np.bool_)
        return blocks, found.reshape(len(blocks), len(self.empty.group))

    def primaries(self, block: Sequence[int], rules: frozenset[str]) -> Bools:
        """Mark the possible primaries of instances that stay together: with secondaries in their groups."""
        found = self._nodes(block, rules, True)
        mirrored = [row for row in block if self.asked[row].mirrored]
        for members in _connected(mirrored, self._sets(rules)):
            secondaries = self._nodes(members, rules, False)
            found &= np.bincount(self.empty.group, secondaries)[self.empty.group] > secondaries
        return found

    def _sets(self, rules: frozenset[str]) -> Callable[[int], frozenset[str]]:
        """Return a function that finds which of these rules keep an instance together with others."""
        sets = rules - self.allowed.keys() - self.distances.keys()
        return lambda row: self.rules[row] & sets

    def _nodes(self, rows: Sequence[int], rules: frozenset[str], primary: bool) -> Bools:
        """Mark the nodes that may be the primary, or the secondary, of all of some instances."""
        found = ~self.empty.columns.offline
        for rule in self.rules_of(rows):
            if rule in rules and rule in self.allowed:
                found &= self.allowed[rule]
        return found & self._room(tuple(rows), primary) if self.sized else found

    def _room(self, rows: tuple[int, ...], primary: bool) -> Bools:
        """Mark the nodes that are large enough for some instances, all as primaries or all as secondaries."""
        if (primary, rows) in self.roomy:
            return self.roomy[primary, rows]
        columns, found = self.empty.columns, self.empty.everywhere
        memory, kept = 0, [0] * len(self.empty.class_peers)
        for asked in (self.asked[row] for row in rows):
            if primary:
                columns, codes = node_rules.add_primary(columns, asked, 0, 0)
            else:
                columns, codes = node_rules.add_secondary(columns, asked, memory, peers=kept)
                memory += asked.secondary_mem
                kept = [old + more for old, more in zip(kept, asked.secondary_classes, strict=True)]
            found &= codes == FITS
        return self.roomy.setdefault((primary, rows), found)


def _problem(empty: State, instances: Sequence[Instance]) -> _Problem:
    known, rules = empty.rules, dict[int, frozenset[str]]()
    if known is None:
        return _Problem(empty, {}, {}, {}, {})
    allowed = defaultdict[str, Bools](lambda: empty.everywhere)
    single = {choice: set[str]() for choice in known.choices}
    for choice, found in single.items():
        for row, node in enumerate(empty.cluster.nodes):
            for rule in against(choice, node):
                found.add(rule)
                allowed[rule][row] = False
    for row, instance in enumerate(instances):
        parsed = placement_tags(instance.tags)
        own = single[parsed.choice] | set(map(tag_of, parsed.apart & known.distances.keys()))
        if own := own | {f"{TOGETHER}{name}" for name in parsed.together & known.sets.keys()}:
            rules[row] = frozenset(own)
    distances = list(map(distance_of, known.near))
    return _Problem(
        empty,
        {row: empty.requested_instance(instances[row]) for row in rules},
        rules,
        dict(allowed),
        {tag_of(each): distances[known.near_of[which]] for each, which in known.distances.items()},
    )


def _connected(rows: Iterable[int], keys: Callable[[int], Iterable[str]]) -> Iterator[list[int]]:
    """Yield the rows that have a key in common, also by way of others."""
    members, seen = defaultdict[str, list[int]](list), set[int]()
    ordered = sorted(rows)
    for row in ordered:
        for key in keys(row):
            members[key].append(row)
    for row in ordered:
        waiting, found = [row], set[int]()
        while waiting:
            each = waiting.pop()
            if each not in seen:
                seen.add(each)
                found.add(each)
                waiting += (other for key in keys(each) for other in members.pop(key, ()))
        if found:
            yield sorted(found)


def _needed(elements: Iterable[T], enough: Callable[[frozenset[T]], bool]) -> frozenset[T]:
    """Leave out one element after the other, as long as the rest are enough."""
    kept = frozenset(elements)
    for each in sorted(kept, reverse=True):
        kept = kept - {each} if enough(kept - {each}) else kept
    return kept
