"""Pairs for a mirrored instance with which every node can be lost.

They are those that :mod:`.allocation.pairs` finds: tried in the same order, with the same patience. Where the
state is redundant as it is, it makes no difference which loss rules a pair out. So a loss that does is tried
with all others at once, and first with the next instance.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ganeti_htools.engine.allocation.solution import PATIENCE, last_lowest
from ganeti_htools.engine.capacity.bulk_pairs import PairSearch
from ganeti_htools.engine.capacity.bulk_search import Nodes
from ganeti_htools.engine.capacity.verdicts import Pairs
from ganeti_htools.engine.redundancy.global_n1 import Redundancy
from ganeti_htools.engine.rules import placements
from ganeti_htools.model.columns import Bools, Floats, Ints, sorted_unique
from ganeti_htools.model.state import RequestedInstance, State

# So many of the nodes of a group that could not be lost before are looked at first.
LIKELY = 6


def stands(
    state: State,
    asked: RequestedInstance,
    nodes: Nodes,
    redundancy: Redundancy,
    suspects: list[int],
    few: bool = True,
) -> bool:
    """Whether every node can be lost with an instance on these nodes; sums must not rule it out.

    ``suspects`` and ``few`` are as for :class:`.Check`.
    """
    verdict = redundancy.bears(asked, *nodes, suspects, few)
    if verdict is None:
        primary, secondary = (np.array([node]) for node in nodes)
        if asked.mirrored:
            trial = placements.allocate_pairs(state, asked, primary, secondary, state.peers[nodes])
        else:
            trial = placements.allocate_one(state, asked, primary, np.ones(len(state.group), np.bool_))
        verdict = redundancy.confirms(trial, suspects)
    return verdict


def best_pair(
    search: PairSearch, scores: list[Floats], redundancy: Redundancy, suspects: list[int]
) -> Nodes | None:
    """The best redundant pair, None if there is none; ``scores`` are those of the search, all numbers.

    ``suspects`` are nodes that could not be lost before.
    """
    groups = [
        _Ranked(search.state, search.asked, block.nodes, left, redundancy, suspects)
        for block, left in zip(search.blocks, scores, strict=True)
    ]
    while True:
        ahead = [(*best, group) for group in groups if (best := group.best()) is not None]
        if not ahead:
            return None
        _, nodes, group = max(ahead, key=lambda each: (-each[0], each[1]))
        if group.stands(nodes):
            return nodes


def has_pair(
    state: State, asked: RequestedInstance, pairs: Pairs, redundancy: Redundancy, suspects: list[int]
) -> bool | None:
    """Whether any of the pairs on which an instance fits is redundant, None if patience may not find it."""
    found: bool | None = False
    [pairs] = _admitted([asked], [pairs], redundancy)
    for group in sorted_unique(state.group[pairs.primaries]).tolist():
        p, s = (each[state.group[pairs.primaries] == group] for each in pairs)
        few = len(p) <= PATIENCE
        if not few and not redundancy.redundant():
            return None
        left = _left(state, [asked], np.zeros(len(p), np.int64), Pairs(p, s), redundancy, suspects)
        while len(p := p[left]):
            s = s[left]
            if stands(state, asked, Nodes(int(p[0]), int(s[0])), redundancy, suspects, few):
                if few:
                    return True
                found = None
                break
            left = ~redundancy.refused([asked], np.zeros(len(p), np.int64), suspects[0], p, s)
            left[0] = False
    return found


def without_pair(
    state: State,
    sizes: Sequence[RequestedInstance],
    pairs: Sequence[Pairs],
    redundancy: Redundancy,
    suspects: list[int],
) -> Bools:
    """Which of some sizes have no redundant pair of those on which each fits, as far as suspects tell."""
    admitted = _admitted(sizes, pairs, redundancy)
    which = np.repeat(np.arange(len(sizes)), [len(each.primaries) for each in admitted])
    p, s = (np.concatenate(each) for each in zip(*admitted, strict=True))
    left = _left(state, sizes, which, Pairs(p, s), redundancy, suspects)
    return np.asarray(np.bincount(which[left], minlength=len(sizes)) == 0)


def _admitted(
    sizes: Sequence[RequestedInstance], pairs: Sequence[Pairs], redundancy: Redundancy
) -> list[Pairs]:
    """The pairs of each size that sums do not rule out; disk and CPUs make no difference to them."""
    everyone, known = np.arange(len(redundancy.free)), dict[Any, Bools]()
    for asked in sizes:
        if (asked.record_mem, asked.spindles) not in known:
            known[asked.record_mem, asked.spindles] = redundancy.admits(asked, everyone, everyone)
    good = [known[asked.record_mem, asked.spindles][each] for asked, each in zip(sizes, pairs, strict=True)]
    return [Pairs(p[which], s[which]) for (p, s), which in zip(pairs, good, strict=True)]


def _left(
    state: State,
    sizes: Sequence[RequestedInstance],
    which: Ints,
    pairs: Pairs,
    redundancy: Redundancy,
    suspects: list[int],
) -> Bools:
    """Which pairs, each for an instance of ``which`` size, the likeliest suspects do not rule out."""
    left, groups = np.ones(len(which), np.bool_), state.group[pairs.primaries]
    for group in sorted_unique(groups).tolist():
        likely = [node for node in suspects if state.group[node] == group][:LIKELY]
        for suspect in likely:
            rows = np.flatnonzero(left & (groups == group))
            if len(rows):
                p, s = (each[rows] for each in pairs)
                left[rows] = ~redundancy.refused(sizes, which[rows], suspect, p, s)
    return left


class _Ranked:
    """The pairs of a group that are left to be tried, by their scores (primaries by secondaries)."""

    def __init__(
        self,
        state: State,
        asked: RequestedInstance,
        nodes: Ints,
        scores: Floats,
        redundancy: Redundancy,
        suspects: list[int],
    ) -> None:
        self.state, self.asked, self.nodes, self.redundancy = state, asked, nodes, redundancy
        admitted: Bools = redundancy.admits(asked, nodes, nodes)
        self.left = np.where(admitted, scores, np.inf)
        self.few = int(np.count_nonzero(np.isfinite(scores))) <= PATIENCE
        self.free = self.few or redundancy.redundant()
        self.suspects = suspects if self.free else []
        self.tries, self.refused = 0, np.zeros_like(admitted)

    def best(self) -> tuple[float, Nodes] | None:
        """The best of them, with its score."""
        p, s = divmod(last_lowest(self.left.ravel()), len(self.nodes))
        if not np.isfinite(self.left[p, s]):
            return None
        return float(self.left[p, s]), Nodes(int(self.nodes[p]), int(self.nodes[s]))

    def stands(self, nodes: Nodes) -> bool:
        """Whether a pair is redundant; if it is not, it is left no more."""
        p, s = np.searchsorted(self.nodes, nodes)
        if not self.refused[p, s]:
            if stands(self.state, self.asked, nodes, self.redundancy, self.suspects, self.few):
                return True
            self._refuse()
        self.tries += 1
        self.left[(p, s) if self.tries < PATIENCE else p] = np.inf
        if self.tries == PATIENCE and self.redundancy.hopeless(self.suspects):
            self.left[:] = np.inf
        return False

    def _refuse(self) -> None:
        """Find out with which others the node cannot be lost that just could not."""
        if self.free:
            rows, columns = np.nonzero(np.isfinite(self.left) & ~self.refused)
            primaries, secondaries = self.nodes[rows], self.nodes[columns]
            found = self.redundancy.refused(
                [self.asked], np.zeros(len(rows), np.int64), self.suspects[0], primaries, secondaries
            )
            self.refused[rows[found], columns[found]] = True
