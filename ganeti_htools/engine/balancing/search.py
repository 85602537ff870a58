"""The best of all moves of all instances to all nodes, found without looking at most of them.

A move replaces the figures of up to three nodes. For each component of the score that is a standard
deviation, what the nodes that are left contribute to its variance is known for each instance, what a
new node contributes for each kind of instance and each node. The root of a sum is not the sum of the
roots, but a chord of the root, from the least to the most that a variance can become, lies below it:
with chords, the score of a move is at least what the nodes that are left give plus what the new node
gives. The least of these bounds for an instance tells whether any of its moves can be the best. Those
that can are scored; what lies closest together is scored afresh, as Ganeti's htools do it.

A new node that has instances in common with the nodes that an instance has keeps memory free for them
already. It is rated as if it had none, which is never worse, and looked at when it would win.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.relocate import (
    FIGURES,
    Crew,
    Surroundings,
    arrive,
    crowding_change,
    leave,
    nodes_after,
    relocate,
)
from ganeti_htools.engine.rules import affinity
from ganeti_htools.engine.rules.components import (
    AGGREGATES,
    COMPONENTS,
    COUNT,
    LOST,
    SPREAD,
    WEIGHTS,
)
from ganeti_htools.engine.rules.move_kinds import MIRRORED, RANK, SHARED, MoveKind
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.score import changed, node_values, variants
from ganeti_htools.engine.rules.trial import NodeChange, Trial
from ganeti_htools.model.columns import FORTHCOMING, NOWHERE, Bools, Floats, Ints
from ganeti_htools.model.state import State

BLOCK = 1 << 15  # candidates looked at together
BATCH = BLOCK >> 3  # from so many on, promising ones are scored before more are looked for
SMALL = 1 << 18  # products that a library for matrices does not spread over threads, which costs more
# From so many nodes on, memory kept free costs more in total than it can gain by being even.
MONOTONE = 16


class Effect(NamedTuple):
    """What a change of nodes does: to sum and sum of squares of some spreads, and to all else."""

    spreads: dict[int, tuple[Any, Any]]
    rest: Any


def added(effects: Iterable[Effect], spreads: int, moves: int) -> tuple[Floats, Floats]:
    """The changes of all sums, and of sums of squares (spreads by moves)."""
    changes, squares = np.zeros((2, spreads, moves))
    for effect in effects:
        for group, (change, square) in effect.spreads.items():
            changes[group] += change
            squares[group] += square
    return changes, squares


class Totals(NamedTuple):
    """Count of online nodes, how far they are from the centre (spreads by nodes), sums of that and of its
    squares, the weighted sum of all that is no spread, and the values of all nodes.
    """

    number: float
    heights: Floats
    sums: Floats
    squares: Floats
    rest: float
    values: list[Any]


class Scale:
    """How nodes count in the score: components that are the same thing put together.

    ``weights`` are those of the spreads, ``centre`` a value near the mean of each, so that sums of
    squares keep their precision.
    """

    def __init__(self, state: State, scope: Bools) -> None:
        self.state, self.rows = state, np.flatnonzero(scope)
        values = self.values()
        groups: dict[int, list[int]] = {}
        for which, aggregate in enumerate(AGGREGATES):
            if aggregate is SPREAD:
                groups.setdefault(id(values[which]), []).append(which)
        self.leaders = [members[0] for members in groups.values()]
        self.weights = np.array([sum(WEIGHTS[which] for which in each) for each in groups.values()])
        self.sums = [which for which, aggregate in enumerate(AGGREGATES) if aggregate in (COUNT, LOST)]
        online = ~state.columns.offline[self.rows]
        self.centre = np.array([values[which][online].mean() for which in self.leaders])

    def values(self) -> list[Any]:
        """The values of the nodes in scope now."""
        return node_values(self.state.columns.take(self.rows))

    def totals(self) -> "Totals":
        """The statistics of the nodes in scope now."""
        values, offline = self.values(), self.state.columns.offline[self.rows]
        spreads: Floats = np.stack([values[which] for which in self.leaders])[:, ~offline]
        spreads -= self.centre[:, np.newaxis]
        rest = sum(
            WEIGHTS[which] * float(values[which][offline if AGGREGATES[which] is LOST else ~offline].sum())
            for which in self.sums
        )
        squares = np.einsum("ij,ij->i", spreads, spreads)
        return Totals(float(spreads.shape[1]), spreads, spreads.sum(axis=1), squares, rest, values)

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")  # nodes that report nothing
    def effect(self, touched: NodeChange) -> Effect:
        """What the change of some nodes does."""
        old, new = touched.old, touched.new
        offline = old.offline
        some, every = bool(offline.any()), bool(offline.all())
        spreads: dict[int, tuple[Any, Any]] = {}
        rest: Any = 0.0
        for group, leader in enumerate(self.leaders):
            if every or (pair := changed(leader, old, new)) is None:
                continue
            x, y = pair
            change = y - x
            square = change * (x + y - 2 * self.centre[group])
            if some:
                change, square = np.where(offline, 0.0, change), np.where(offline, 0.0, square)
            spreads[group] = change, square
        for which in self.sums:
            if (pair := changed(which, old, new)) is not None:
                change = WEIGHTS[which] * (pair[1] - pair[0])
                if AGGREGATES[which] is LOST:
                    rest = rest + np.where(offline, change, 0.0) if some else rest
                elif not every:
                    rest = rest + (np.where(offline, 0.0, change) if some else change)
        return Effect(spreads, rest)


class Arrivals:
    """What nodes would become with a new instance of each class, as primary or as secondary.

    Most spreads change by an amount of the instance times a unit of the node (``amounts``, ``units``);
    what does not is kept for each pair (``pairs``, classes by nodes). ``rest`` is what all but spreads add
    to the score of each pair, ``prices`` the same but infinite where an instance does not fit, without and
    with force. Nodes are the ``targets``.
    """

    def __init__(
        self,
        around: Surroundings,
        scale: Scale,
        crew: Crew,
        kind: MoveKind,
        targets: Ints,
        forces: Sequence[bool],
    ) -> None:
        self.around, self.scale, self.kind, self.targets = around, scale, kind, targets
        self.classes, first = alike(crew, kind)
        self.crew = crew.take(first[:, np.newaxis])
        shape = len(first), len(targets)
        self.rest, self.prices = np.empty(shape), {force: np.empty(shape) for force in forces}
        width = max(1, BLOCK // max(1, shape[1]))
        kept: dict[int, Floats] = {}
        everywhere = np.arange(shape[1])
        for start in range(0, shape[0], width):
            block = slice(start, start + width)
            for which, (change, _) in self._try(block, everywhere).items():
                kept.setdefault(which, np.zeros(shape))[block] = change
        self.amounts, self.units, self.pairs = _factorised(kept, self._irregular())

    def _irregular(self) -> set[int]:
        """The spreads whose changes are no product: they depend on what is on a node already."""
        # An instance that does not say how many spindles it needs takes all that are left.
        vague = {"f_spindles", FORTHCOMING["f_spindles"]} if self.crew.asked.spindles is None else set[str]()
        leaders = [COMPONENTS[which] for which in self.scale.leaders]
        return {
            which
            for which, component in enumerate(leaders)
            if not component.proportional or vague.intersection(component.figures)
        }

    def _try(self, block: slice, some: Ints) -> dict[int, tuple[Any, Any]]:
        crew = self.crew.take(block)
        result: dict[int, tuple[Any, Any]] = {}
        for force, prices in self.prices.items():
            came, codes = arrive(self.around, crew, self.kind, force, self.targets[some], apart=True)
            if not result:
                result, self.rest[block, some] = self.scale.effect(came)
            prices[block, some] = np.where(codes == FITS, self.rest[block, some], np.inf)
        return result

    def refresh(self, nodes: Ints) -> None:
        """Take note of moves that touched these nodes."""
        some = np.flatnonzero(np.isin(self.targets, nodes))
        if not len(some):
            return
        result = self._try(slice(None), some)
        for which, changes in self.pairs.items():
            changes[:, some] = result[which][0]

    def bounds(self, heights: Floats, number: float) -> tuple[Floats, Floats, Floats]:
        """The least and most that each variance can change, and the most that a sum can.

        ``heights``: how far the targets are from the mean, twice (spreads by nodes).
        """
        size = len(self.scale.leaders)
        low, high, largest = np.zeros(size), np.zeros(size), np.zeros(size)
        for which, amounts in self.amounts.items():
            height, units = heights[which], self.units[which]
            first, last = amounts.min() * units, amounts.max() * units
            lowest = np.clip(-height / 2, np.minimum(first, last), np.maximum(first, last))
            low[which] = (lowest * (lowest + height)).min() / number
            highest = np.maximum(first * (first + height), last * (last + height))
            high[which] = highest.max() / number
            largest[which] = np.abs(amounts).max() * np.abs(units).max()
        for which, changes in self.pairs.items():
            squares = changes * (changes + heights[which])
            low[which], high[which] = squares.min() / number, squares.max() / number
            largest[which] = np.abs(changes).max()
        return low, high, largest

    def linear(self, heights: Floats, slopes: Floats) -> Floats:
        """What spreads of each pair add to the lower bound, with these slopes; ``heights`` as for bounds."""
        result: Floats = np.zeros(self.rest.shape)
        if self.amounts:
            amounts = np.stack(list(self.amounts.values()), axis=1)
            steep = np.stack([slopes[which] * units for which, units in self.units.items()])
            once = np.stack([heights[which] for which in self.units]) * steep
            twice = np.stack(list(self.units.values())) * steep
            left, right = np.concatenate([amounts, amounts * amounts], axis=1), np.concatenate([once, twice])
            width = max(1, SMALL // max(1, right.size))
            for start in range(0, len(left), width):
                np.matmul(left[start : start + width], right, out=result[start : start + width])
        for which, changes in self.pairs.items():
            result += slopes[which] * changes * (changes + heights[which])
        return result

    def changes(self, classes: Ints, places: Ints) -> dict[int, Floats]:
        """How the sums change with instances of these classes on targets in these places."""
        return {
            which: amounts[classes] * self.units[which][places] for which, amounts in self.amounts.items()
        } | {which: changes[classes, places] for which, changes in self.pairs.items()}


def alike(crew: Crew, kind: MoveKind = MoveKind.REPLACE_PRIMARY) -> tuple[Ints, Ints]:
    """A class for each instance, of those that a new node cannot tell apart; the first of each class."""
    asked, load = crew.asked, crew.asked.row.load
    figures = [getattr(asked, name) for name in FIGURES if getattr(asked, name) is not None]
    traits: list[Any] = [*figures, load.cpu, load.mem, load.dsk, load.net, crew.tags, crew.desires]
    if not kind.to_primary:
        names = ("secondary_mem", "dsk", "spindles", "spindle_use")
        traits = [getattr(asked, name) for name in names if getattr(asked, name) is not None]
        traits.append(load.dsk)
    known: dict[tuple[Any, ...], int] = {}
    keys = zip(*(trait.tolist() for trait in traits), strict=True)
    classes = np.array([known.setdefault(key, len(known)) for key in keys], np.int64)
    first = np.full(len(known), len(classes))
    np.minimum.at(first, classes, np.arange(len(classes)))
    return classes, first


def _factorised(
    kept: dict[int, Floats], irregular: set[int]
) -> tuple[dict[int, Floats], dict[int, Floats], dict[int, Floats]]:
    amounts: dict[int, Floats] = {}
    units: dict[int, Floats] = {}
    pairs: dict[int, Floats] = {}
    for which, changes in kept.items():
        row, column = divmod(int(np.abs(changes).argmax()), changes.shape[1])
        largest = changes[row, column]
        if not largest and which not in irregular:
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            amount, unit = changes[:, column].copy(), changes[row] / largest
        product = np.multiply.outer(amount, unit)
        if which not in irregular and np.allclose(product, changes, rtol=1e-9, atol=1e-12 * abs(largest)):
            amounts[which], units[which] = amount, unit
        else:
            pairs[which] = changes
    return amounts, units, pairs


class Departure:
    """What the nodes that instances have would become when they moved in one way.

    ``changes`` and ``squares`` of each spread (spreads by members of the crew), ``rest`` of all else, and
    whether they may go (``free``).
    """

    def __init__(self, spreads: int, members: int) -> None:
        self.changes, self.squares = np.zeros((spreads, members)), np.zeros((spreads, members))
        self.rest, self.free = np.zeros(members), np.zeros(members, np.bool_)

    def put(self, members: Ints, effects: Sequence[Effect], free: Bools) -> None:
        """Write what is known of some members."""
        self.free[members], self.rest[members] = free, sum(effect.rest for effect in effects)
        changes, squares = added(effects, len(self.changes), len(members))
        self.changes[:, members], self.squares[:, members] = changes, squares

    def bounds(self, means: Floats, number: float) -> tuple[Floats, Floats, Floats]:
        """The least and most that each variance can change, and the most that a sum can."""
        changes, squares = self.changes, self.squares
        if not self.free.all():
            changes, squares = changes[:, self.free], squares[:, self.free]
        variances = (squares - 2 * means[:, np.newaxis] * changes) / number
        largest = np.maximum(changes.max(axis=1), -changes.min(axis=1))
        return variances.min(axis=1), variances.max(axis=1), largest


class Departures:
    """That for all kinds of moves a crew may make."""

    def __init__(
        self,
        around: Surroundings,
        scale: Scale,
        crew: Crew,
        kinds: Sequence[MoveKind],
        force: bool,
        may: "May",
    ) -> None:
        self.around, self.scale, self.crew, self.force, self.may = around, scale, crew, force, may
        size = len(crew.rows)
        self.kinds = {kind: Departure(len(scale.leaders), size) for kind in kinds}
        everyone = np.arange(size)
        for start in range(0, size, BLOCK):
            self.refresh(everyone[start : start + BLOCK])

    def refresh(self, members: Ints) -> None:
        """Compute them anew for members of the crew."""
        crew = self.crew.take(members)
        effects: dict[tuple[int, int], Effect] = {}
        for kind, (touched, codes) in leave(self.around, crew, self.kinds, self.force).items():
            for node in touched:
                key = id(node.old), id(node.new)
                if key not in effects:
                    effects[key] = self.scale.effect(node)
            free = self.may(crew, kind) & (codes == FITS)
            own = [effects[id(node.old), id(node.new)] for node in touched]
            self.kinds[kind].put(members, own, free)


May = Callable[[Crew, MoveKind], Bools]


@dataclass(frozen=True, slots=True)
class Found:
    """Moves of one kind: members of a crew, rows of new nodes (NOWHERE for failovers), scores."""

    crew: Crew
    kind: MoveKind
    members: Ints
    new: Ints
    scores: Floats

    def take(self, which: Any) -> "Found":
        """Some of them."""
        return Found(self.crew, self.kind, self.members[which], self.new[which], self.scores[which])


@dataclass(frozen=True, slots=True)
class Best:
    """The best move: what to settle, its kind and new node (a row), and the score it leads to."""

    trial: Trial
    kind: MoveKind
    node: int
    score: float


class Search:
    """Finds the best move, again and again as moves are made. ``may`` says which are allowed at all."""

    def __init__(
        self, around: Surroundings, crews: Sequence[Crew], scope: Bools, force: bool, may: May
    ) -> None:
        self.around, self.state, self.scope, self.force = around, around.state, scope, force
        self.scale = Scale(self.state, scope)
        offline = self.state.columns.offline
        self.targets = np.flatnonzero(scope & ~offline)
        self.place = np.full(len(scope), NOWHERE)  # of nodes among the targets
        self.place[self.targets] = np.arange(len(self.targets))
        self.position = np.full(len(scope), NOWHERE)  # of nodes among those that count
        self.position[self.scale.rows] = np.arange(len(self.scale.rows))
        forces = [force] if force or not (scope & offline).any() else [False, True]
        self.crews = list(crews)
        self.departures: list[Departures] = []
        self.arrivals: list[dict[MoveKind, Arrivals]] = []
        for crew in crews:
            kinds = MIRRORED if crew.asked.mirrored else SHARED
            self.departures.append(Departures(around, self.scale, crew, kinds, force, may))
            arrivals: dict[bool, Arrivals] = {}
            self.arrivals.append({})
            for kind in kinds:
                if kind.takes_node and len(self.targets):
                    role = kind.to_primary
                    if role not in arrivals:
                        arrivals[role] = Arrivals(around, self.scale, crew, kind, self.targets, forces)
                    self.arrivals[-1][kind] = arrivals[role]

    def note(self, *trials: Trial) -> None:
        """Take note of moves that have been settled."""
        nodes = np.array(sorted({int(node.rows[0]) for trial in trials for node in trial.changes}))
        self.around.refresh(nodes)
        concerned = np.zeros(len(self.scope) + 1, np.bool_)  # the last one stands for NOWHERE
        concerned[nodes] = True
        for crew, departures, arrivals in zip(self.crews, self.departures, self.arrivals, strict=True):
            p, s = self.state.pnode[crew.rows], self.state.snode[crew.rows]
            members = np.flatnonzero(concerned[p] | concerned[s])
            if len(members):
                departures.refresh(members)
            for arrival in {id(arrival): arrival for arrival in arrivals.values()}.values():
                arrival.refresh(nodes)

    def best(self, current: float, barred: Bools | None = None) -> Best | None:
        """The move that leaves the lowest score below the ``current`` one; of equal ones the first.

        That is in the order of instances, a failover before all else, new nodes in order, and for each of
        them kinds in the order of their table. Instances that are ``barred`` stay.
        """
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return _Round(self, current, barred).best()

    def within(self, current: float, loss: float, barred: Bools, most: int) -> list[Found]:
        """Moves that leave a score of at most ``loss`` above the lower of ``current`` and the best: all,
        or about as many as ``most``.
        """
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return _Round(self, current, barred, loss, most).all()


class _Round:
    """The search for one move."""

    def __init__(
        self,
        search: Search,
        current: float,
        barred: Bools | None = None,
        loss: float = 0.0,
        most: int | None = None,
    ) -> None:
        self.most = most
        self.search, self.state = search, search.state
        self.totals = search.scale.totals()
        self.number, self.heights, sums, squares, rest, _ = self.totals
        self.crowding = affinity.crowding(search.state, search.scope)
        self.rest, self.means, self.squares = rest + self.crowding, sums / self.number, squares / self.number
        self.above = 2 * (self.heights - self.means[:, np.newaxis])
        self.bound = current
        self.found: list[Found] = []
        # What a variance may be off by, and with it a score.
        self.doubts = 1e-13 * (self.squares + self.means * self.means + 0.01 * search.scale.centre**2)
        self.slack = float((search.scale.weights * np.sqrt(self.doubts)).sum()) + TINY * abs(current) + loss
        self.free = [
            {kind: self._free(crew, departure, barred) for kind, departure in departures.kinds.items()}
            for crew, departures in zip(search.crews, search.departures, strict=True)
        ]
        self.crowds = [self._crowds(crew) for crew in search.crews]

    @staticmethod
    def _free(crew: Crew, departure: Departure, barred: Bools | None) -> Bools:
        return departure.free if barred is None else departure.free & ~barred[crew.rows]

    def all(self) -> list[Found]:
        for number, departures in enumerate(self.search.departures):
            if MoveKind.FAILOVER in departures.kinds:
                self._fail_over(number)
        self._look_at(self._rows())
        return [found.take(found.scores <= self.bound + self.slack) for found in self.found]

    def best(self) -> Best | None:
        self.all()
        return self._afresh()

    def _crowds(self, crew: Crew) -> Floats | None:
        """How the location exclusion score changes when members go to nodes, None if not at all."""
        tagged = np.flatnonzero(crew.tags)
        if crew.asked.forthcoming or not len(tagged) or not self.state.location_rows:
            return None
        nodes = np.arange(len(self.search.scope))
        changes = np.zeros((len(crew.rows), len(nodes)))
        for member in tagged.tolist():
            asked = self.state.instance(int(crew.rows[member]))
            changes[member] = affinity.crowding_change(self.state, asked, nodes, self.search.scope)
        return changes

    def _keep(self, found: Found) -> None:
        """Take note of moves that may be the best."""
        least = np.fmin.reduce(found.scores, initial=np.inf)
        self.bound = min(self.bound, float(least))
        if least <= self.bound + self.slack:
            self.found.append(found.take(found.scores <= self.bound + self.slack))

    def _score(self, changes: Floats, squares: Floats, rest: Any) -> Floats:
        """Scores with some sums and sums of squares changed (spreads by moves), and all else."""
        scores: Floats = self.rest + rest + np.zeros(changes.shape[1])
        variances = np.maximum(self._variances(changes, squares), 0.0)
        for weight, deviation in zip(self.search.scale.weights.tolist(), np.sqrt(variances), strict=True):
            scores += weight * deviation
        return scores

    def _variances(self, changes: Floats, squares: Floats) -> Floats:
        means = changes / self.number + self.means[:, np.newaxis]
        return squares / self.number + self.squares[:, np.newaxis] - means * means

    def _score_doubts(self, changes: Floats, squares: Floats) -> Floats:
        """What such scores may be off by."""
        doubts = self.doubts[:, np.newaxis]
        variances = np.maximum(np.maximum(self._variances(changes, squares), 0.0) + doubts, TINIEST)
        weights = (self.search.scale.weights * self.doubts)[:, np.newaxis]
        total: Floats = (weights / np.sqrt(variances)).sum(axis=0)
        return total

    def _fail_over(self, number: int) -> None:
        crew, departure = self.search.crews[number], self.search.departures[number].kinds[MoveKind.FAILOVER]
        members = np.flatnonzero(self.free[number][MoveKind.FAILOVER])
        rest = departure.rest[members]
        crowds = self.crowds[number]
        if crowds is not None:
            rest = rest + crowds[members, self.state.snode[crew.rows[members]]]
        scores = self._score(departure.changes[:, members], departure.squares[:, members], rest)
        self._keep(Found(crew, MoveKind.FAILOVER, members, np.full(len(members), NOWHERE), scores))

    def _chords(self, departure: Departure, arrival: Arrivals) -> tuple[Floats, float]:
        """Slopes of a linear lower bound, in changes of the sums of squares about the mean, and its start."""
        weights = self.search.scale.weights
        low, high, largest = departure.bounds(self.means, self.number)
        low_new, high_new, largest_new = arrival.bounds(self.above, self.number)
        cross = ((largest + largest_new) / self.number) ** 2
        variances = np.maximum(self.squares - self.means * self.means, 0.0)
        low, high = np.maximum(low + low_new - cross, -variances), high + high_new
        width = high - low
        rise = np.sqrt(np.maximum(variances + high, 0.0)) - np.sqrt(variances + low)
        slopes = weights * np.where(width > 0, rise / np.where(width > 0, width, 1.0), 0.0)
        starts = weights * np.sqrt(variances + low) - slopes * (low + cross)
        return slopes / self.number, float(starts.sum()) + self.rest

    def _forced(self, crew: Crew, kind: MoveKind) -> Bools:
        """Which members come to a new node although soft limits say no."""
        state = self.state
        if self.search.force or len(self.search.targets) == len(self.search.scale.rows):
            return np.full(len(crew.rows), self.search.force)
        if kind is MoveKind.REPLACE_AND_FAILOVER:
            return np.zeros(len(crew.rows), np.bool_)
        left = state.snode if kind is MoveKind.REPLACE_SECONDARY else state.pnode
        offline: Bools = state.columns.offline[left[crew.rows]]
        return offline

    def _rows(self) -> list["_Rows"]:
        """The lower bounds of all members of all crews in all kinds of moves."""
        rows = []
        for number, crew in enumerate(self.search.crews):
            for kind, arrival in self.search.arrivals[number].items():
                departure = self.search.departures[number].kinds[kind]
                free = self.free[number][kind]
                if not free.any():
                    continue
                slopes, start = self._chords(departure, arrival)
                base = np.einsum("i,ij->j", slopes, departure.squares)
                base -= np.einsum("i,ij->j", 2 * slopes * self.means, departure.changes)
                base += start + departure.rest
                crowds = self.crowds[number]
                if crowds is not None and kind is MoveKind.FAILOVER_AND_REPLACE:
                    base += crowds[np.arange(len(base)), self.state.snode[crew.rows]]
                elif crowds is not None and kind.to_primary:
                    base += crowds[:, self.search.targets].min(axis=1)
                forced = self._forced(crew, kind)
                least = np.full(len(base), np.inf)
                line = arrival.linear(self.above, slopes)
                lines = {}
                for force in sorted(set(forced.tolist())):
                    lines[force] = line + arrival.prices[force]
                    best = lines[force].min(axis=1, initial=np.inf)
                    least = np.where(forced == force, best[arrival.classes], least)
                least = np.where(free, base + least, np.inf)
                rows.append(_Rows(number, kind, free, departure, arrival, lines, forced, base, least))
        return rows

    def _look_at(self, rows: list["_Rows"]) -> None:
        """Score the moves that may be the best: first the most promising, more if none is that good."""
        least = min((float(each.least.min(initial=np.inf)) for each in rows), default=np.inf)
        if self.number < MONOTONE:
            for each in rows:
                self._score_rows(each, np.flatnonzero(each.free), np.inf)
            return
        known, hope = list(self.found), self.bound + self.slack - least
        for share in SHARES if hope >= 0 else ():
            self.found = list(known)
            limit = least + share * hope
            for each in rows:
                self._score_rows(each, np.flatnonzero(each.least <= limit), limit)
            if self.bound + self.slack <= limit:
                return

    def _score_rows(self, rows: "_Rows", members: Ints, limit: float) -> None:
        """Score the moves of some members of a crew that may be as good as ``limit``."""
        for chosen, places in self._promising(rows, members, limit):
            if self.most is not None and sum(len(found.members) for found in self.found) >= self.most:
                return
            self._score_moves(rows, chosen, places)

    def _promising(self, rows: "_Rows", members: Ints, limit: float) -> Iterator[tuple[Ints, Ints]]:
        """Members with places of new nodes among the targets, as many as are scored together."""
        monotone, classes = self.number >= MONOTONE, rows.arrival.classes
        width = max(1, BLOCK // max(1, len(self.search.targets)))
        found: list[tuple[Ints, Ints]] = []
        for force, lines in rows.lines.items():
            some = members[rows.forced[members] == force]
            for start in range(0, len(some), width):
                block = some[start : start + width]
                bounds = lines[classes[block]] + rows.base[block, np.newaxis]
                low = bounds <= min(limit, self.bound + self.slack) if monotone else np.isfinite(bounds)
                which, places = np.nonzero(low)
                found.append((block[which], places))
                if sum(len(each) for each, _ in found) >= BATCH:
                    yield _joined(found)
                    found = []
        if found:
            yield _joined(found)

    def _score_moves(self, rows: "_Rows", chosen: Ints, places: Ints) -> None:
        search, state, kind = self.search, self.state, rows.kind
        crew, arrival, departure = search.crews[rows.number], rows.arrival, rows.departure
        monotone = self.number >= MONOTONE
        new = search.targets[places]
        p, s = state.pnode[crew.rows[chosen]], state.snode[crew.rows[chosen]]
        good = (new != p) & (new != s)
        if state.migrates is not None:
            for source, target in kind.migrations(p, s, new):
                good &= state.migrates[source, target]
        chosen, places, new, p, s = chosen[good], places[good], new[good], p[good], s[good]
        if not len(chosen):
            return
        changes, squares = departure.changes[:, chosen], departure.squares[:, chosen]
        for group, change in arrival.changes(arrival.classes[chosen], places).items():
            changes[group] += change
            squares[group] += change * (change + 2 * self.heights[group][places])
        rest = departure.rest[chosen] + arrival.rest[arrival.classes[chosen], places]
        crowds = self.crowds[rows.number]
        if crowds is not None and kind is not MoveKind.REPLACE_SECONDARY:
            rest = rest + crowds[chosen, s if kind is MoveKind.FAILOVER_AND_REPLACE else new]
        if state.location_rows and kind is not MoveKind.FAILOVER_TO and not crew.asked.forthcoming:
            other = p if kind in (MoveKind.REPLACE_SECONDARY, MoveKind.REPLACE_AND_FAILOVER) else s
            counts = ~state.columns.offline[p] if kind is MoveKind.REPLACE_SECONDARY else True
            rest = rest + affinity.shared_locations(state, other, new) * counts
        scores = self._score(changes, squares, rest)
        if kind is not MoveKind.FAILOVER_TO:
            kept = kind.nodes(p, s, new)
            known = np.flatnonzero(state.peers[kept] > 0)
            if monotone:
                least = np.fmin.reduce(np.delete(scores, known), initial=np.inf)
                known = known[scores[known] <= min(self.bound, least) + self.slack]
            if len(known):
                scores[known], _ = self._exact(crew, kind, chosen[known], new[known])
        self._keep(Found(crew, kind, chosen, new, scores))

    def _exact(self, crew: Crew, kind: MoveKind, members: Ints, new: Ints) -> tuple[Floats, Floats]:
        """Scores with everything taken into account, infinite for moves that must not be; and what they
        may be off by.
        """
        taken, known = crew.take(members), None if kind is MoveKind.FAILOVER else new
        touched, codes = relocate(self.search.around, taken, kind, self.search.force, known)
        effects = [self.search.scale.effect(node) for node in touched]
        changes, squares = added(effects, len(self.means), len(members))
        rest = crowding_change(self.search.around, taken, kind, known, self.search.scope)
        rest = sum((effect.rest for effect in effects), rest)
        scores = np.where(codes == FITS, self._score(changes, squares, rest), np.inf)
        return scores, TINY * np.abs(scores) + self._score_doubts(changes, squares)

    def _near(self) -> list[Found]:
        """Those found that cannot be told from the best but by computing their scores afresh."""
        near = [found.take(found.scores <= self.bound + self.slack) for found in self.found]
        near = [found for found in near if len(found.members)]
        if sum(len(found.members) for found in near) < 2:
            return near
        exact = [self._exact(found.crew, found.kind, found.members, found.new) for found in near]
        bound = min(float((scores + doubts).min()) for scores, doubts in exact)
        near = [
            found.take(scores - doubts <= bound) for found, (scores, doubts) in zip(near, exact, strict=True)
        ]
        # So many ties are between moves that are the same for all that matters: the first will do.
        most = max(1, TIES // len(self.search.scale.rows))
        ranks = sorted(
            (int(found.crew.rows[member]), node, RANK[found.kind], which, position)
            for which, found in enumerate(near)
            for position, (member, node) in enumerate(
                zip(found.members.tolist(), found.new.tolist(), strict=True)
            )
        )[:most]
        kept = [[rank[4] for rank in ranks if rank[3] == which] for which in range(len(near))]
        return [found.take(positions) for found, positions in zip(near, kept, strict=True) if positions]

    def _afresh(self) -> Best | None:
        """Of all that come close to the best, the one that is when computed from nothing."""
        search = self.search
        values, offline = self.totals.values, self.state.columns.offline[search.scale.rows]
        lowest: tuple[float, int, int, int] = (np.inf, 0, 0, 0)
        best: Best | None = None
        for near in self._near():
            width = max(1, 8 * BLOCK // len(offline))
            for start in range(0, len(near.members), width):
                some = near.take(slice(start, start + width))
                crew = some.crew.take(some.members)
                new = None if some.kind is MoveKind.FAILOVER else some.new
                touched, codes = relocate(search.around, crew, some.kind, search.force, new)
                changes = []
                for node in touched:
                    old = node_values(node.old)
                    rows = search.position[node.rows]
                    changes.append((rows, old, node_values(node.new, (node.old, old))))
                crowding = self.crowding + crowding_change(search.around, crew, some.kind, new, search.scope)
                scores = variants(values, changes, offline, np.broadcast_to(crowding, codes.shape))
                scores = np.where(codes == FITS, scores, np.inf)
                least = np.fmin.reduce(scores)
                order = RANK[some.kind]
                ranks = [
                    ((float(least), int(crew.rows[i]), int(some.new[i]), order), i)
                    for i in np.flatnonzero(scores == least).tolist()
                ]
                if ranks and np.isfinite(least) and min(ranks)[0] < lowest:
                    lowest, i = min(ranks)
                    p, s = nodes_after(self.state, crew, some.kind, new)
                    asked = self.state.instance(int(crew.rows[i]))
                    trial = Trial(asked, codes, p, s, tuple(touched)).only(i)
                    best = Best(trial, some.kind, int(some.new[i]), lowest[0])
        return best


TIES = 1 << 14  # so many figures are looked at to settle ties
TINY = 1e-13  # what a sum may be off by, relatively
TINIEST = float(np.finfo(float).tiny)
# Parts of what a move could gain at best.
SHARES = (1 / 16, 1 / 4, 1.0)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A crew and a kind of moves: who may go (``free``), what members add to the bound (``base``), and the
    bound itself.

    ``lines`` is what new nodes add (classes by targets, infinite where an instance does not fit), without
    and with force; ``forced`` tells for whom soft limits do not count.
    """

    number: int
    kind: MoveKind
    free: Bools
    departure: Departure
    arrival: Arrivals
    lines: dict[bool, Floats]
    forced: Bools
    base: Floats
    least: Floats


def _joined(found: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    chosen, places = zip(*found, strict=True)
    return np.concatenate(chosen), np.concatenate(places)
