"""Nodes with one more of many equal instances.

This part of bulk allocation serves unmirrored and mirrored instances. A property test compares each placement
with ``allocation.allocate``.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.rules import choice, instance_policy, node_rules
from ganeti_htools.engine.rules.node_rules import FAIL, FITS
from ganeti_htools.engine.rules.score import counted_nodes, node_values
from ganeti_htools.model.columns import NOWHERE, Columns, Floats, Ints
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail


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
    * ``after`` are the figures of the candidates with the instance.
    """

    def __init__(self, state: State, asked: RequestedInstance, nodes: Ints) -> None:
        self.state, self.asked, self.nodes = state, asked, nodes
        base, looked = choice.base(state, state.everywhere), counted_nodes(state.columns)
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
        self.policy = instance_policy.policy_codes(state, asked, nodes)
        self.after = state.columns.take(nodes)
        self.look(np.arange(len(nodes)))

    @property
    def codes(self) -> Floats:
        """The reason against a primary, for each candidate."""
        codes: Floats = self.primary.codes[0]
        return codes

    def look(self, candidates: Ints) -> None:
        """Update the outcomes of some candidates."""
        old = self.state.columns.take(self.nodes[candidates])
        x = self.now[:, self.position[candidates]] = self.values(self.which, old)
        new, self.table[:, candidates] = self.outcomes(candidates, old, x)
        self.after = self.after.apart(new.aliases)
        self.after.put(candidates, new, slice(None))

    def outcomes(self, candidates: Ints, old: Columns, x: Floats) -> tuple[Columns, Floats]:
        """The figures with the instance, and the table, of candidates with figures and contributions."""
        new, codes = node_rules.add_primary(old, self.asked, 0, 0)
        policy, y = self.policy[candidates], self.values(self.which, new)
        codes = np.where(policy != FITS, policy, codes)
        return new, np.concatenate((codes[np.newaxis], y, y - x, y * y - x * x))

    def write(self, candidate: int) -> None:
        """Write the figures of a candidate with the instance into the state."""
        self.state.columns = self.state.columns.apart(self.after.aliases)
        self.state.columns.put(self.nodes[candidate], self.after, candidate)

    def values(self, which: Sequence[int], columns: Columns) -> Floats:
        """The contributions of nodes to some components, a row for each."""
        table = np.empty((len(which), len(columns.offline)))
        for each, component in zip(table, which, strict=True):
            each[:] = self.score_table.components[component].of(columns)
        return table

    def tally(self, codes: Floats) -> dict[Fail, int]:
        numbers = np.bincount(codes.astype(np.int64), minlength=len(FAIL) + 1)
        return {fail: int(numbers[code]) for code, fail in FAIL.items()}


def parts(table: Floats, sizes: Sequence[int]) -> list[Floats]:
    """A table cut into blocks of so many rows."""
    return np.split(table, np.cumsum(sizes)[:-1])
