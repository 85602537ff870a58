"""Effects of tags on an instance's places: exclusion, migration, location (``htools(1)``, ``hbal(1)``)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints
from ganeti_htools.model.state import RequestedInstance, State


class TagSets(NamedTuple):
    """Sets of exclusion tags: the rows of the tags, set by set, and the place behind each set."""

    tags: Ints
    ends: Ints

    @classmethod
    def of(cls, sets: Sequence[Sequence[int] | Ints]) -> "TagSets":
        tags = np.array([tag for each in sets for tag in each], np.int64)
        return cls(tags, np.cumsum([len(each) for each in sets]))

    def members(self, number: int) -> Ints:
        return self.tags[self.ends[number - 1] if number else 0 : self.ends[number]]

    def counts(self, of_tags: Ints, above: int) -> Ints:
        """Count the tags of each set whose count is above a number; the first axis is that of tags."""
        sums = np.zeros((len(self.tags) + 1, *of_tags.shape[1:]), np.int64)
        np.cumsum(of_tags[self.tags] > above, axis=0, out=sums[1:])
        starts = np.concatenate([[0], self.ends[:-1]])
        counts: Ints = sums[self.ends] - sums[starts]
        return counts


def tag_conflicts(state: State, asked: RequestedInstance) -> Ints:
    """Count, for each node, the exclusion tags of the instance that another primary of the node also has."""
    counts = state.tag_counts[asked.tags]
    if asked.index != NOWHERE:
        counts = counts.copy()
        counts[:, state.pnode[asked.index]] -= 1
    return np.asarray(np.count_nonzero(counts > 0, axis=0))


def unmet_locations(state: State, asked: RequestedInstance) -> Ints:
    """Count, for each node, the desired locations of the instance that the node lacks."""
    met = np.count_nonzero(state.location_tags[:, asked.desired], axis=1)
    return np.asarray(len(asked.desired) + asked.unknown_desires - met)


def shared_locations(state: State, pnode: Any, snode: Any) -> Any:
    """Count the location tags that primary and secondary share; arrays broadcast."""
    return np.count_nonzero(state.location_tags[pnode] & state.location_tags[snode], axis=-1)


def location_score(state: State, asked: RequestedInstance) -> int:
    pnode, snode = state.pnode[asked.index], state.snode[asked.index]
    return int(shared_locations(state, pnode, snode)) if snode != NOWHERE else 0


def location_exclusion(state: State, scope: Bools) -> float:
    """Compute the location exclusion score: settled instances in excess of one per location and exclusion
    tag.

    Only online nodes in scope count. A primary counts at each location that its node is tagged with.
    """
    if not state.location_rows:
        return 0.0
    pairs = _crowds(state, scope, slice(None))
    return float(np.maximum(pairs - 1, 0).sum())


def _crowds(state: State, scope: Bools, tags: Any) -> Ints:
    """Count the settled instances with each exclusion tag at each location (locations by tags)."""
    counted = scope & ~state.columns.offline
    settled = (state.tag_counts - state.forthcoming_tag_counts)[tags][:, counted]
    crowds: Ints = state.location_tags[counted].T.astype(np.int64) @ settled.T
    return crowds


def location_exclusion_change(state: State, asked: RequestedInstance, targets: Ints, scope: Bools) -> Any:
    """Compute the change of :func:`location_exclusion` when the instance goes to each target."""
    if asked.forthcoming or not len(asked.tags) or not state.location_rows:
        return 0.0
    source = int(state.pnode[asked.index]) if asked.index != NOWHERE else NOWHERE
    return location_exclusion_changes(state, TagSets.of([asked.tags]), [0], [source], scope)[0, targets]


def location_exclusion_changes(
    state: State, tag_sets: TagSets, sets: Any, sources: Any, scope: Bools
) -> Floats:
    """Compute the change of :func:`location_exclusion` when instances go to nodes (instances by nodes).

    Each instance has the exclusion tags of a set (``sets``: positions in ``tag_sets``) and leaves a node
    (``sources``: rows, NOWHERE for a new instance).
    """
    crowds = _crowds(state, scope, slice(None)).T
    there, twice = (tag_sets.counts(crowds, number)[sets] for number in (0, 1))
    located = state.location_tags * (scope & ~state.columns.offline)[:, np.newaxis]
    # Where the instance is now, another one must have the tag.
    here = located[sources] & (np.asarray(sources) != NOWHERE)[:, np.newaxis]
    added = np.where(here, twice, there) @ located.T
    return np.asarray(added - (twice * here).sum(axis=1)[:, np.newaxis], np.float64)
