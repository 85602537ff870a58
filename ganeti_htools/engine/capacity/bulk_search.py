"""Outcomes of nodes with one more equal instance, computed once for equal nodes.

This part of bulk allocation serves unmirrored and mirrored instances. :mod:`.node_rules` computes the outcome
of a node, :mod:`.score` its effect on the score; this module remembers both. A property test compares each
placement with ``allocation.allocate``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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


class NodeKey(NamedTuple):
    """Everything that decides the outcome of a node.

    ``like`` is the first candidate with the same policy and the same constant figures; ``figures`` are the
    figures that placements change.
    """

    like: int
    figures: tuple[Any, ...]


class AsPrimary(NamedTuple):
    """Rows of a table with a column for each node to which the instance may come as primary.

    ``codes`` are the reasons against the node (one row). The others have a row for each row of
    ``BulkSearch.now``: the node's contribution with the instance, its change, and the change of its square.
    """

    codes: Any
    then: Floats
    change: Floats
    squares: Floats


class AfterArrival(NamedTuple):
    """A node after an instance has come: the column of its table, and its figures."""

    column: Any
    figures: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NodeOutcome:
    """The outcome of a node with certain figures if an instance comes.

    ``now`` are the node's contributions to the components. ``secondary`` has an outcome for each
    :class:`.PairFigures` of a pair in which the node may be secondary.
    """

    now: Floats
    primary: AfterArrival
    secondary: dict[Any, AfterArrival] = field(default_factory=dict)


# Outcomes of nodes by their figures.
Known = dict[NodeKey, NodeOutcome]


class BulkSearch:
    """The contributions of nodes to the score, now and with one more primary.

    * ``now`` has a column for each online node and a row for each distinct component; ``row_of`` has the row
      of each component.
    * ``looked`` marks the nodes that count for a row, None if all do; ``sizes`` are their numbers.
    * ``steady`` are the sums of all components at the start.
    * ``known`` are outcomes of another search for equal instances on these nodes.
    """

    def __init__(
        self, state: State, asked: RequestedInstance, nodes: Ints, known: "Known | None" = None
    ) -> None:
        self.state, self.asked, self.nodes = state, asked, nodes
        self.known: Known = {} if known is None else known
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
        columns, changing = state.columns, set(state.columns.changing())
        names = [name for name in columns._fields if name not in columns.aliases]
        self.changing = [name for name in names if name in changing]
        self.figures = [getattr(columns, name) for name in self.changing]
        self.aliases = [
            (getattr(columns, name), self.changing.index(first)) for name, first in columns.aliases.items()
        ]
        others = [getattr(columns, name)[nodes] for name in names if name not in changing]
        first: dict[tuple[Any, ...], int] = {}
        alike = zip(*(each.tolist() for each in (self.policy, *others)), strict=True)
        self.like = [first.setdefault(each, at) for at, each in enumerate(alike)]
        self.outcomes: dict[int, NodeOutcome] = {}

    @property
    def codes(self) -> Floats:
        """The reason against a primary, for each candidate."""
        codes: Floats = self.primary.codes[0]
        return codes

    def look(self, candidates: Sequence[int]) -> list[NodeOutcome]:
        """Update the outcomes of some candidates."""
        keys = [self.key(at) for at in candidates]
        if any(key not in self.known for key in keys):
            self._find_out([key for key in {*keys, *self._next()} if key not in self.known])
        found = [self.known[key] for key in keys]
        for at, outcome in zip(candidates, found, strict=True):
            self.outcomes[at] = outcome
            self.now[:, self.position[at]] = outcome.now
            self.table[:, at] = outcome.primary.column
        return found

    def key(self, at: int) -> NodeKey:
        """The key of a candidate."""
        row = int(self.nodes[at])
        return NodeKey(self.like[at], tuple([column.item(row) for column in self.figures]))

    def _next(self) -> Iterator[NodeKey]:
        """The keys of nodes with one more instance: many outcomes take hardly longer than one."""
        for outcome, at in self.different().items():
            yield NodeKey(self.like[at], outcome.primary.figures)

    def different(self) -> dict[NodeOutcome, int]:
        """The different outcomes, each with a candidate that has it."""
        return {outcome: at for at, outcome in self.outcomes.items()}

    def _nodes(self, keys: Sequence[NodeKey]) -> Columns:
        """The figures of nodes with these keys."""
        rows = self.nodes[[key.like for key in keys]]
        figures = zip(self.figures, zip(*(key.figures for key in keys), strict=True), strict=True)
        own = [np.array(each, column.dtype) for column, each in figures]
        return self.state.columns.take(rows).with_figures(dict(zip(self.changing, own, strict=True)))

    def arrivals(self, table: Floats, new: Columns) -> Iterator[AfterArrival]:
        """The columns of a table, each with the new figures of its node."""
        figures = zip(*(getattr(new, name).tolist() for name in self.changing), strict=True)
        return map(AfterArrival, table.T, figures)

    def _find_out(self, keys: Sequence[NodeKey]) -> None:
        old, policy = self._nodes(keys), self.policy[[key.like for key in keys]]
        new, codes = node_rules.add_primary(old, self.asked, 0, 0)
        codes = np.where(policy != FITS, policy, codes)
        x, y = (self.values(self.which, columns) for columns in (old, new))
        table = np.concatenate(AsPrimary(codes[np.newaxis], y, y - x, y * y - x * x))
        self.known.update(zip(keys, map(NodeOutcome, x.T, self.arrivals(table, new)), strict=True))

    def values(self, which: Sequence[int], columns: Columns) -> Floats:
        """The contributions of nodes to some components, a row for each."""
        table = np.empty((len(which), len(columns.offline)))
        for each, component in zip(table, which, strict=True):
            each[:] = self.score_table.components[component].of(columns)
        return table

    def settle(self, nodes: InstanceNodes) -> None:
        """Carry out a placement but for the list of instances."""
        at = int(np.searchsorted(self.nodes, nodes.primary))
        self.write(nodes.primary, self.outcomes[at].primary.figures)
        self.look([at])

    def write(self, row: int, figures: tuple[Any, ...]) -> None:
        """Write the figures of a node (row)."""
        for column, figure in zip(self.figures, figures, strict=True):
            column[row] = figure
        for column, first in self.aliases:
            column[row] = figures[first]

    def tally(self, codes: Floats) -> dict[Fail, int]:
        """Count each reason."""
        numbers = np.bincount(codes.astype(np.int64), minlength=len(FAIL) + 1)
        return {fail: int(numbers[code]) for code, fail in FAIL.items()}


def parts(table: Floats, sizes: Sequence[int]) -> list[Floats]:
    """A table cut into blocks of so many rows."""
    return np.split(table, np.cumsum(sizes)[:-1])
