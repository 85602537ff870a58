"""Putting equal instances on nodes, one after the other, each to the best place then.

This is what :mod:`.allocate` does for one instance, done until no place is left. Between two placements
only the chosen nodes change, so only what would become of these is computed anew; the scores of all
candidates follow in a few array operations. Additions are made in the order in which Ganeti's htools
make them: the same candidates tie then, and of these the last is chosen.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine import choice, moves, places
from ganeti_htools.engine.places import FAIL, FITS, Codes
from ganeti_htools.engine.score import COMPONENTS, COUNT, KINDS, SPREAD, WEIGHTS, node_values
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.state import CHANGING, NOWHERE, Asked, Columns, Floats, Ints, State
from ganeti_htools.model.types import Fail

NAMES = [name for name, _, _, _, _ in COMPONENTS]
LOCATION = NAMES.index("location_score")
# What an instance without tags leaves as it is, except that its nodes may share locations.
STEADY = (NAMES.index("pri_tags_score"), LOCATION, NAMES.index("location_exclusion_score"))

# How many values are looked at in one go when candidates that lie close together are scored afresh.
BATCH = 1 << 20


class Nodes(NamedTuple):
    """Rows of the nodes of an instance."""

    primary: int
    secondary: int = NOWHERE


@dataclass(frozen=True, slots=True)
class Filled:
    """How many instances found a place, and how many candidates each reason rules out for one more."""

    placed: int
    failures: dict[Fail, int]


def fill(
    state: State,
    row: Instance,
    nodes: Ints,
    first: int = 0,
    limit: int | None = None,
    progress: Callable[[int], object] = lambda placed: None,
) -> Filled:
    """Place instances like ``row``, in place, on ``nodes``, until none fits or ``limit`` is reached.

    They have no tags and the usual load, and get numbers from ``first`` on appended to their name.
    Mirrored ones go on pairs within a group. ``nodes`` are rows in order, all online; scores are those of
    all nodes. Redundancy is looked at node by node only. ``progress`` is told of each placement.
    """
    asked = state.ask(row)
    placed: list[Nodes] = []
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        search = _Pairs(state, asked, nodes) if asked.mirrored else _Singles(state, asked, nodes)
        while limit is None or len(placed) < limit:
            best = search.best()
            if best is None:
                break
            search.settle(best)
            placed.append(best)
            progress(len(placed))
        failures = search.failures()
    rows = [replace(row, name=f"{row.name}-{first + number}") for number in range(len(placed))]
    moves.enlist(state, asked, rows, placed)
    return Filled(len(placed), failures)


class _Search:
    """What nodes contribute to the score now, and what they would with a primary more.

    Components whose values are one object are kept once: ``row_of`` has the row of each. ``now`` has a
    column for each online node; ``then`` has one for each candidate, ``change`` is the difference, and
    ``squares`` the change of the value's square times the number of nodes.
    """

    def __init__(self, state: State, asked: Asked, nodes: Ints) -> None:
        self.state, self.asked, self.nodes = state, asked, nodes
        everyone = np.ones(len(state.group), np.bool_)
        self.steady = list(choice.base(state, everyone, moves.crowding(state, everyone)).sums)
        online = np.flatnonzero(~state.columns.offline)
        self.size = float(len(online))
        self.position = np.searchsorted(online, nodes)

        values = node_values(state.columns)
        rows: dict[int, int] = {}
        self.row_of = [rows.setdefault(id(value), len(rows)) for value in values]
        self.which = [self.row_of.index(row) for row in range(len(rows))]
        self.now = self._table(values, len(state.group))[:, online]
        self.weights = np.array([WEIGHTS[which] for which in self.which])
        shape = len(rows), len(nodes)
        self.then, self.change, self.squares = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self.primary = _Table(state.columns, (len(nodes),))
        self.codes: Codes = np.zeros(len(nodes), np.int8)
        self.policy = moves.policy_codes(state, asked, nodes)
        self.look(np.arange(len(nodes)))

    def _table(self, values: list[Any], number: int) -> Floats:
        return np.array([np.broadcast_to(values[which], (number,)) for which in self.which], np.float64)

    def look(self, at: Ints) -> tuple[Columns, list[Any]]:
        """Compute anew what some candidates contribute; their columns and values as they are now."""
        old = self.state.columns.take(self.nodes[at])
        values = node_values(old)
        new, codes = places.add_primary(old, self.asked, 0, 0)
        self.codes[at] = np.where(self.policy[at] != FITS, self.policy[at], codes)
        self.primary.put(at, new)
        x, y = self._table(values, len(at)), self._table(node_values(new, (old, values)), len(at))
        self.now[:, self.position[at]] = x
        self.then[:, at], self.change[:, at] = y, y - x
        self.squares[:, at] = self.size * (y * y - x * x)
        return old, values

    def statistics(self) -> tuple[Floats, Floats]:
        """Sums and variances of each row of ``now``, added up from left to right."""
        return _statistics(self.now, self.size)

    def settle(self, nodes: Nodes) -> None:
        """Carry out a placement but for the list of instances."""
        at = int(np.searchsorted(self.nodes, nodes.primary))
        self.primary.settle(self.state.columns, nodes.primary, at)
        self.look(np.array([at]))

    def counts(self, codes: Codes) -> dict[Fail, int]:
        """How often each reason occurs."""
        numbers = np.bincount(codes.ravel(), minlength=len(FAIL) + 1)
        return {fail: int(numbers[code]) for code, fail in FAIL.items()}


def _statistics(values: Floats, size: float) -> tuple[Any, Any]:
    sums = np.add.accumulate(values, axis=-1)[..., -1]
    centred = values - (sums / size)[..., np.newaxis]
    centred *= centred
    return sums, np.add.accumulate(centred, axis=-1)[..., -1] / size


def _replaced(sums: Any, variances: Any, size: float, change: Any, squares: Any) -> tuple[Any, Any]:
    """Sums and variances after a value changed; a variance that is no number becomes 0."""
    scaled = squares - 2 * sums * change
    scaled -= change * change
    scaled /= size * size
    scaled = scaled + variances
    return sums + change, np.fmax(scaled, 0.0)


class _Table:
    """The changing figures of nodes, one array for each that is an object of its own."""

    def __init__(
        self, columns: Columns, shape: tuple[int, ...], wide: dict[str, tuple[int, ...]] | None = None
    ) -> None:
        names = {id(getattr(columns, name)): name for name in reversed(CHANGING)}
        self.arrays: dict[str, Any] = {
            name: np.empty((wide or {}).get(name, shape), getattr(columns, name).dtype)
            for name in names.values()
        }

    def put(self, at: Ints, new: Columns) -> None:
        """Keep the figures of some nodes."""
        for name, array in self.arrays.items():
            array[..., at] = getattr(new, name)

    def settle(self, columns: Columns, row: int, at: int, also: int = 0) -> None:
        """Write the figures of a node into the columns; ``also`` is its row where there are several."""
        for name, array in self.arrays.items():
            getattr(columns, name)[row] = array[at] if array.ndim == 1 else array[also, at]


class _Singles(_Search):
    """Instances with one node: Ganeti's htools compute the score of every candidate from nothing."""

    def best(self) -> Nodes | None:
        """Where the next instance goes, if anywhere."""
        fits = np.flatnonzero(self.codes == FITS)
        if not len(fits):
            return None
        sums, variances = self.statistics()
        column = sums[:, np.newaxis], variances[:, np.newaxis]
        scores = self._scores(*_replaced(*column, self.size, self.change[:, fits], self.squares[:, fits]))
        near = fits[choice.near_best(scores)]
        if len(near) > 1:
            fresh = self._afresh(near)
            # Ganeti's htools take the first if no score is a number.
            near = near[[0]] if np.isnan(fresh).all() else near[fresh == np.fmin.reduce(fresh)]
        return Nodes(int(self.nodes[near[-1]]))

    def _afresh(self, candidates: Ints) -> Floats:
        scores = np.empty(len(candidates))
        number = max(1, BATCH // self.now.size)
        for start in range(0, len(candidates), number):
            some = candidates[start : start + number]
            values = np.repeat(self.now[:, np.newaxis], len(some), axis=1)
            values[:, np.arange(len(some)), self.position[some]] = self.then[:, some]
            scores[start : start + number] = self._scores(*_statistics(values, self.size))
        return scores

    def _scores(self, sums: Any, variances: Any) -> Any:
        roots = np.sqrt(variances)
        total: Any = 0.0
        for which, (kind, weight) in enumerate(zip(KINDS, WEIGHTS, strict=True)):
            row = self.row_of[which]
            if kind is SPREAD:
                total = total + weight * roots[row]
            elif kind is COUNT and which not in STEADY:
                total = total + weight * sums[row]
            else:
                total = total + weight * self.steady[which]
        return total

    def failures(self) -> dict[Fail, int]:
        """How many candidates each reason rules out."""
        return self.counts(self.codes)


class _Pairs(_Search):
    """Mirrored instances: pairs within each group, scored by two changes one after the other."""

    def __init__(self, state: State, asked: Asked, nodes: Ints) -> None:
        self.blocks: list[_Block] = []
        super().__init__(state, asked, nodes)
        groups = state.group[nodes]
        self.blocks = [_Block(self, np.flatnonzero(groups == group)) for group in np.unique(groups)]

    def best(self) -> Nodes | None:
        """Where the next instance goes, if anywhere."""
        sums, variances = self.statistics()
        column = sums[:, np.newaxis], variances[:, np.newaxis]
        sums, variances = _replaced(*column, self.size, self.change, self.squares)
        found = [block.best(sums[:, block.at], variances[:, block.at]) for block in self.blocks]
        solutions = [solution for solution in found if solution is not None]
        if not solutions:
            return None
        lowest = min(score for score, _ in solutions)
        return max(nodes for score, nodes in solutions if not score > lowest)

    def settle(self, nodes: Nodes) -> None:
        """Carry out a placement but for the list of instances."""
        at = np.searchsorted(self.nodes, nodes)
        block = next(block for block in self.blocks if at[0] in block.at)
        p, s = np.searchsorted(block.at, at).tolist()
        columns = self.state.columns
        self.primary.settle(columns, nodes.primary, int(at[0]))
        block.secondary.settle(columns, nodes.secondary, s, p)
        if block.shared is not None:
            columns.location[nodes.primary] += block.shared[p, s]
            self.steady[LOCATION] += block.shared[p, s]
        self.state.peers[nodes] += self.asked.secondary_mem
        block.look(np.sort([p, s]))

    def failures(self) -> dict[Fail, int]:
        """How many pairs each reason rules out."""
        codes = [block.codes()[block.apart] for block in self.blocks]
        return self.counts(np.concatenate(codes) if codes else np.zeros(0, np.int8))


class _Block:
    """The pairs of a group: primaries in rows, secondaries in columns.

    What a secondary changes is kept as for primaries, but for each pair: what it keeps free already
    depends on the primary. ``spreads`` and ``counts`` are the rows of the search that are concerned.
    """

    def __init__(self, search: _Pairs, at: Ints) -> None:
        self.search, self.at, self.nodes = search, at, search.nodes[at]
        state, number = search.state, len(at)
        self.square = number, number
        self.apart = ~np.eye(number, dtype=np.bool_)
        self.shared = None
        if state.location_rows:
            self.shared = moves.shared_locations(state, self.nodes[:, np.newaxis], self.nodes)
        self.secondary = _Table(state.columns, (number,), dict.fromkeys(("r_mem", "fail_n1"), self.square))
        self.secondary_codes = np.zeros(self.square, np.int8)
        self.spreads = self._concerned(SPREAD)
        self.counts = self._concerned(COUNT)
        self.change, self.squares = (np.zeros((len(self.spreads), *self.square)) for _ in range(2))
        self.counted = np.zeros((len(self.counts), *self.square))
        self.look(np.arange(number))

    def _concerned(self, kind: str) -> list[int]:
        columns = {"f_dsk", "f_spindles", "load_dsk", "secondaries", "inst_spindles", "r_mem", "fail_n1"}
        rows = [
            self.search.row_of[which]
            for which, (_, _, each, _, names) in enumerate(COMPONENTS)
            if each is kind and columns & {name.removesuffix("_forth") for name in names}
        ]
        return list(dict.fromkeys(rows))

    def look(self, at: Ints) -> None:
        """Compute anew what some nodes contribute, in both roles."""
        search = self.search
        old, values = search.look(self.at[at])
        peers = search.state.peers[np.ix_(self.nodes, self.nodes[at])]
        new, codes = places.add_secondary(old, search.asked, peers)
        self.secondary_codes[:, at] = codes
        self.secondary.put(at, new)
        later = node_values(new, (old, values))
        for position, row in enumerate(self.spreads):
            x, y = values[search.which[row]], later[search.which[row]]
            self.change[position][:, at] = y - x
            self.squares[position][:, at] = search.size * (y * y - x * x)
        for position, row in enumerate(self.counts):
            self.counted[position][:, at] = later[search.which[row]] - values[search.which[row]]

    def codes(self) -> Codes:
        """For each pair, why it does not do."""
        primary = self.search.codes[self.at, np.newaxis]
        return np.where(primary != FITS, primary, self.secondary_codes)

    def best(self, sums: Floats, variances: Floats) -> tuple[float, Nodes] | None:
        """The best pair and its score, given the statistics with each primary."""
        fits = self.apart & (self.codes() == FITS)
        if not fits.any():
            return None
        scores = np.where(fits, self._scores(sums, variances), np.inf)
        lowest = scores.min()
        if np.isnan(lowest):  # Ganeti's htools take the last primary, and its first secondary
            p = int(np.flatnonzero(fits.any(axis=1))[-1])
            s = int(np.argmax(fits[p]))
        else:
            p, s = divmod(int(np.flatnonzero(fits & (scores == lowest))[-1]), len(self.at))
        return float(lowest), Nodes(int(self.nodes[p]), int(self.nodes[s]))

    def _scores(self, sums: Floats, variances: Floats) -> Any:
        search = self.search
        concerned = sums[self.spreads, :, np.newaxis], variances[self.spreads, :, np.newaxis]
        _, both = _replaced(*concerned, search.size, self.change, self.squares)
        weights = search.weights
        one = np.sqrt(variances) * weights[:, np.newaxis]
        two = np.sqrt(both, out=both)
        two *= weights[self.spreads, np.newaxis, np.newaxis]
        total: Any = 0.0
        for which, (kind, weight) in enumerate(zip(KINDS, WEIGHTS, strict=True)):
            row = search.row_of[which]
            if kind is SPREAD:
                term = two[self.spreads.index(row)] if row in self.spreads else one[row, :, np.newaxis]
            elif kind is COUNT and row in self.counts:
                term = weight * (sums[row, :, np.newaxis] + self.counted[self.counts.index(row)])
            elif which == LOCATION and self.shared is not None:
                term = weight * (search.steady[which] + self.shared)
            else:
                term = weight * search.steady[which]
            total = total + term
        return total
