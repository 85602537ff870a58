"""An exact search for places of instances that keep distances from each other.

Instances with more places than others can take from them are left out. Of the others the one with the fewest
places left gets one of them, and those near it are lost to its sets. A branch ends early if the members of a
set cannot each have a location of their own (a matching).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ganeti_htools.model.columns import NOWHERE, Bools, Ints


class Distance(NamedTuple):
    """Nodes that are ``near`` each other (nodes by nodes), and the most that are near one.

    ``location`` numbers the nodes; nodes that are not near each other have different numbers.
    """

    near: Bools
    most: int
    location: Ints


def distance_of(near: Bools) -> Distance:
    """Return a distance, by the nodes that are near each other."""
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
    """Whether each row of places (by nodes) can have one of its nodes. None if the patience ends before."""
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
