"""Nodes with one more of many equal instances.

This part of bulk allocation serves unmirrored and mirrored instances. A property test compares each placement
with ``allocation.allocate``.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.rules import affinity, choice, instance_policy, node_rules, placements, settling
from ganeti_htools.engine.rules.node_rules import FAIL, FITS
from ganeti_htools.engine.rules.score import counted_nodes, node_values
from ganeti_htools.model.columns import NOWHERE, Columns, Floats, Ints
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail

# At most so many outcomes are remembered.
MOST = 4096


class InstanceNodes(NamedTuple):
    """Rows of the nodes of an instance."""

    primary: int
    secondary: int = NOWHERE


class AsPrimary(NamedTuple):
    """Rows of a table with a column for each node to which the instance may come as primary.

    ``codes`` are the reasons against the node (one row). The others have a row for each row of
    ``BulkSearch.now``: the node's contribution with the instance, its change, and the change of its square.
    """

    codes: Any
    then: Floats
    change: Floats
    squares: Floats


class BulkSearch:
    """The contributions of nodes to the score, now and with one more primary.

    * ``now`` has a column for each online node and a row for each distinct component; ``row_of`` has the row
      of each component.
    * ``looked`` marks the nodes that count for a row, None if all do; ``sizes`` are their numbers.
    * ``steady`` are the sums of all components at the start.
    * ``known`` are outcomes of nodes by their figures (``keys``), ``steps`` figures after a placement: on a
      cluster of equal nodes both come again and again.
    """

    def __init__(self, state: State, asked: RequestedInstance, nodes: Ints) -> None:
        self.state, self.asked, self.nodes = state, asked, nodes
        everyone = np.ones(len(state.group), np.bool_)
        base, looked = choice.base(state, everyone), counted_nodes(state.columns)
        self.score_table, self.weights, self.steady = base.table, base.weights, base.sums
        online = np.flatnonzero(~state.columns.offline)
        self.position = np.searchsorted(online, nodes)

        rows: dict[int, int] = {}
        repeats = node_values(state.columns).repeats
        self.row_of = [rows.setdefault(first, len(rows)) for first in repeats.values]
        self.which = [self.row_of.index(row) for row in range(len(rows))]
        self.sizes = np.array([base.counts[which] or 1.0 for which in self.which])
        self.looked = None if looked is None else looked[self.which][:, online]
        self.now = self.values(self.which, state.columns)[:, online]
        sizes = (1, len(rows), len(rows), len(rows))
        self.table = np.zeros((sum(sizes), len(nodes)))
        self.primary = AsPrimary(*parts(self.table, sizes))
        self.policy = instance_policy.codes(state, asked, nodes)
        self.known: dict[tuple[Any, ...], tuple[Floats, Floats]] = {}
        self.keys: list[tuple[Any, ...]] = [()] * len(nodes)
        self.steps: dict[tuple[Any, ...], list[Columns]] = {}
        self.look(np.arange(len(nodes)))

    @property
    def codes(self) -> Floats:
        """The reason against a primary, for each candidate."""
        codes: Floats = self.primary.codes[0]
        return codes

    def look(self, candidates: Ints) -> None:
        """Update the outcomes of some candidates; those of equal nodes are computed once."""
        columns, rows, codes = self.state.columns, self.nodes[candidates].tolist(), self.policy[candidates]
        keys = [
            (code, *[figure.item(row) for figure in columns])
            for code, row in zip(codes.tolist(), rows, strict=True)
        ]
        if len(self.known) > MOST:
            self.known.clear()
        new = {key: row for key, row in zip(keys, rows, strict=True) if key not in self.known}
        if new:
            self._find_out(list(new), columns.take(list(new.values())))
        for at, key in zip(candidates.tolist(), keys, strict=True):
            self.keys[at] = key
            self.now[:, self.position[at]], self.table[:, at] = self.known[key]

    def _find_out(self, keys: Sequence[tuple[Any, ...]], old: Columns) -> None:
        """Compute the outcomes of nodes; their keys begin with the code of the policy."""
        new, codes = node_rules.add_primary(old, self.asked, 0, 0)
        policy = np.array([key[0] for key in keys])
        codes = np.where(policy != FITS, policy, codes)
        x, y = (self.values(self.which, columns) for columns in (old, new))
        table = np.concatenate((codes[np.newaxis], y, y - x, y * y - x * x))
        self.known.update(zip(keys, zip(x.T, table.T, strict=True), strict=True))

    def values(self, which: Sequence[int], columns: Columns) -> Floats:
        """The contributions of nodes to some components, a row for each."""
        table = np.empty((len(which), len(columns.offline)))
        for each, component in zip(table, which, strict=True):
            each[:] = self.score_table.components[component].of(columns)
        return table

    def settle(self, nodes: InstanceNodes) -> None:
        """Carry out a placement but for the list of instances."""
        (p, s), state, asked, amounts = nodes, self.state, self.asked, []
        at = np.searchsorted(self.nodes, nodes[: 1 + asked.mirrored])
        if asked.mirrored:
            kept = (state.peers[p, s], *placements.class_peers(state, p, s))
            amounts = [int(each) for each in (*kept, affinity.shared_locations(state, p, s))]
        step = (*(self.keys[each] for each in at.tolist()), *amounts)
        if step not in self.steps:
            if len(self.steps) > MOST:
                self.steps.clear()
            self.steps[step] = self._arrivals(nodes, amounts)
        for row, new in zip(nodes, self.steps[step], strict=False):
            state.columns = state.columns.apart(new.aliases)
            state.columns.put(row, new)
        if asked.mirrored:
            settling.reserve(state, asked, p, s)
        self.look(at)

    def _arrivals(self, nodes: InstanceNodes, amounts: Sequence[int]) -> list[Columns]:
        """The figures of the nodes of a placement afterwards.

        ``amounts`` are memory and custom classes that the secondary keeps free for the primary already, and
        the number of locations that both share; empty without a secondary.
        """
        p, s = (self.state.columns.take([row]) for row in nodes)
        new = [node_rules.add_primary(p, self.asked, 0, amounts[-1] if amounts else 0)[0]]
        if amounts:
            memory, *classes, _ = amounts
            new.append(node_rules.add_secondary(s, self.asked, memory, peers=classes)[0])
        return new

    def tally(self, codes: Floats) -> dict[Fail, int]:
        """Count each reason."""
        numbers = np.bincount(codes.astype(np.int64), minlength=len(FAIL) + 1)
        return {fail: int(numbers[code]) for code, fail in FAIL.items()}


def parts(table: Floats, sizes: Sequence[int]) -> list[Floats]:
    """A table cut into blocks of so many rows."""
    return np.split(table, np.cumsum(sizes)[:-1])
