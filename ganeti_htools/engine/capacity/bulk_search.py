"""What becomes of each node if an instance like those placed before comes: found out once for equal nodes.

The part of bulk allocation that is the same for instances with one node and for mirrored ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.rules import affinity, choice, instance_policy, node_rules
from ganeti_htools.engine.rules.components import (
    COMPONENTS,
    INDEX,
    WEIGHTS,
)
from ganeti_htools.engine.rules.node_rules import FAIL, FITS
from ganeti_htools.engine.rules.score import node_values
from ganeti_htools.model.columns import CHANGING, FIGURES, NOWHERE, Columns, Floats, Ints
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.types import Fail

LOCATION = INDEX["location_score"]
# What an instance without tags leaves as it is, except that its nodes may share locations.
STEADY = [which for which, each in enumerate(COMPONENTS) if set(each.figures) <= {"conflicts", "location"}]


# What policies say of a node, and all its figures.
Key = tuple[Any, ...]


class Nodes(NamedTuple):
    """Rows of the nodes of an instance."""

    primary: int
    secondary: int = NOWHERE


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """What becomes of a node with certain figures if an instance comes.

    ``now`` is what the node contributes to the components; ``first`` is why a primary must not come, then
    what the node would contribute with it, and the change of that and of its square times the number
    of nodes; ``primary`` are its figures then. ``second`` and ``secondary`` are the same with a secondary,
    by how much memory the node keeps free for the same primary already.
    """

    now: Floats
    first: Floats
    primary: tuple[Any, ...]
    second: dict[int, list[float]] = field(default_factory=dict)
    secondary: dict[int, tuple[Any, ...]] = field(default_factory=dict)


class BulkSearch:
    """What nodes contribute to the score now, and what they would with a primary more.

    Components whose values are one object are kept once: ``row_of`` has the row of each. ``now`` has a
    column for each online node, ``first`` one for each candidate, as :class:`NodeOutcome` says.
    """

    def __init__(self, state: State, asked: Asked, nodes: Ints) -> None:
        self.state, self.asked, self.nodes = state, asked, nodes
        everyone = np.ones(len(state.group), np.bool_)
        self.steady = list(choice.base(state, everyone, affinity.crowding(state, everyone)).sums)
        online = np.flatnonzero(~state.columns.offline)
        self.size = float(len(online))
        self.position = np.searchsorted(online, nodes)

        rows: dict[int, int] = {}
        self.row_of = [rows.setdefault(id(value), len(rows)) for value in node_values(state.columns)]
        self.which = [self.row_of.index(row) for row in range(len(rows))]
        self.now = self.values(self.which, state.columns)[:, online]
        self.weights = np.array([WEIGHTS[which] for which in self.which])
        self.first = np.zeros((1 + 3 * len(rows), len(nodes)))
        self.policy = instance_policy.codes(state, asked, nodes)
        # Columns that are one object are kept once: the first of their names, those that change last.
        alike: dict[int, str] = {}
        for name, column in zip(FIGURES, state.columns, strict=True):
            alike.setdefault(id(column), name)
        self.columns = [getattr(state.columns, name) for name in alike.values()]
        self.changing = [name for name in alike.values() if name in CHANGING]
        self.known: dict[Key, NodeOutcome] = {}
        self.outcomes: dict[int, NodeOutcome] = {}

    @property
    def codes(self) -> Floats:
        """For each candidate, why a primary must not come."""
        codes: Floats = self.first[0]
        return codes

    @property
    def later(self) -> tuple[Floats, Floats, Floats]:
        """What candidates would contribute, the change, and that of the square times the number of nodes."""
        then, change, squares = self.first[1:].reshape(3, -1, len(self.nodes))
        return then, change, squares

    def look(self, candidates: Sequence[int]) -> list[NodeOutcome]:
        """Take note of what becomes of some candidates."""
        keys = [self.key(at) for at in candidates]
        if any(key not in self.known for key in keys):
            self._find_out([key for key in {*keys, *self._next()} if key not in self.known])
        found = [self.known[key] for key in keys]
        for at, outcome in zip(candidates, found, strict=True):
            self.outcomes[at] = outcome
            self.now[:, self.position[at]] = outcome.now
            self.first[:, at] = outcome.first
        return found

    def key(self, at: int) -> Key:
        """All figures of a node, and what policies say."""
        row = int(self.nodes[at])
        return (self.policy.item(at), *[column.item(row) for column in self.columns])

    def _next(self) -> Iterator[Key]:
        """What nodes will be with one instance more: finding out about many takes hardly longer."""
        for at, outcome in self.outcomes.items():
            steady = self.key(at)[: -len(self.changing)]
            yield steady + outcome.primary
            for kept in set(outcome.secondary).intersection(
                self.state.peers[self.nodes, self.nodes[at]].tolist()
            ):
                yield steady + outcome.secondary[kept]

    def _nodes(self, keys: Sequence[Key]) -> Columns:
        """The figures of nodes with these keys."""
        _, *figures = zip(*keys, strict=True)
        columns = {
            id(known): np.array(own, known.dtype) for known, own in zip(self.columns, figures, strict=True)
        }
        return self.state.columns.map(lambda column: columns[id(column)])

    def _find_out(self, keys: Sequence[Key]) -> None:
        old, policy = self._nodes(keys), np.array([key[0] for key in keys], np.int8)
        new, codes = node_rules.add_primary(old, self.asked, 0, 0)
        codes = np.where(policy != FITS, policy, codes)
        x, y = (self.values(self.which, columns) for columns in (old, new))
        first = np.concatenate([codes[np.newaxis], y, *changes_of(x, y, self.size)])
        figures = zip(*(getattr(new, name).tolist() for name in self.changing), strict=True)
        self.known.update(zip(keys, map(NodeOutcome, x.T, first.T, figures), strict=True))

    @staticmethod
    def values(which: Sequence[int], columns: Columns) -> Floats:
        """What nodes contribute to some components, a row for each."""
        table = np.empty((len(which), len(columns.offline)))
        for each, component in zip(table, which, strict=True):
            each[:] = COMPONENTS[component].of(columns)
        return table

    def statistics(self) -> tuple[Floats, Floats]:
        """Sums and variances of each row of ``now``, added up from left to right."""
        return spread_statistics(self.now, self.size)

    def settle(self, nodes: Nodes) -> None:
        """Carry out a placement but for the list of instances."""
        at = int(np.searchsorted(self.nodes, nodes.primary))
        self.write(nodes.primary, self.outcomes[at].primary)
        self.look([at])

    def write(self, row: int, figures: Sequence[Any]) -> None:
        """Change the figures of a node."""
        for name, figure in zip(self.changing, figures, strict=True):
            getattr(self.state.columns, name)[row] = figure

    def tally(self, codes: Floats) -> dict[Fail, int]:
        """How often each reason occurs."""
        numbers = np.bincount(codes.astype(np.int64), minlength=len(FAIL) + 1)
        return {fail: int(numbers[code]) for code, fail in FAIL.items()}


def changes_of(x: Floats, y: Floats, size: float) -> tuple[Floats, Floats]:
    """The change from x to y, and that of the squares times the number of nodes."""
    return y - x, size * (y * y - x * x)


def spread_statistics(values: Floats, size: float) -> tuple[Any, Any]:
    """Sums and variances along the last axis, added up from left to right. Twin of ``score.statistics``."""
    sums = np.add.accumulate(values, axis=-1)[..., -1]
    centred = values - (sums / size)[..., np.newaxis]
    centred *= centred
    return sums, np.add.accumulate(centred, axis=-1)[..., -1] / size


def replaced(sums: Any, variances: Any, size: float, change: Any, squares: Any) -> tuple[Any, Any]:
    """Sums and variances, which may be a little below 0, after a value changed.

    Twin of ``score.replaced_spread``, with the arithmetic on the changes done before. A property test of
    bulk allocation compares what is placed with ``allocation.allocate``, one by one.
    """
    scaled = squares - 2 * sums * change
    scaled -= change * change
    scaled /= size * size
    scaled += variances
    return sums + change, scaled
