"""Lower bounds of the score of all placements that a plan within a budget of copying can reach.

*What is bounded.* Each instance has one place, a primary and perhaps a secondary, and each place a least cost
(:class:`PlaceCosts`). :mod:`.linear_score` is at most the score. The bound holds for all mixtures of places
whose costs together are within the budget, so it holds for the places themselves.

*Proof.* Let v be the values of a deviation with weight w on its n nodes. For each vector y with sum 0 and
length at most w / sqrt(n), w times the deviation is at least y . v (Cauchy-Schwarz), and what is left of the
weight, w - |y| sqrt(n), counts with the least deviation. The memory that a node keeps free is at least each
average of what it keeps for its peers and for single instances; the latter costs weights of deviations. A
placement within the budget B satisfies price * (cost - B) <= 0. With such vectors, averages and a price
(:class:`Dual`) all is a sum over instances, and each takes its best place: that is the bound.

Any choice of them is valid. It is improved by accelerated ascent: an instance takes all places in proportion
to exp(-value / width), with less and less width, and the values of this mixture are the direction. What the
ascent finds needs no proof.

*Whole numbers.* A convex function does not know that an instance is whole. Two facts tell.

*Whole units* (:func:`least_deviation`). Where instances add multiples of a unit to the values of all online
nodes, the values are fixed parts and whole units with a known sum. Their least deviation is exact: starting
from the nearest numbers, add or take units where they cost least, which is optimal for a sum of convex
functions. Instances on offline nodes take their units from the sum. That lowers the least deviation by at
most these units / sqrt(n), n the number of online nodes: one node could have them too.

*Memory of single instances* (:class:`Shares`). Let d be a combination of two deviations' values that no
primary lowers, a(i, s) >= 0 what instance i as a secondary on node s adds to it, A(s) the sum of these, and
B(s) the same sum, each times the instance's memory. The memory r(s) that node s keeps free is at least that
of each, so r(s) A(s) >= B(s). With the largest memory R of an instance and any level b(s) > 0 follows
r(s) b(s) >= B(s) - R max(0, A(s) - b(s)). For A(s) <= b(s), because r(s) b(s) >= r(s) A(s). Otherwise, if
r(s) >= R, because R b(s) >= B(s) - R (A(s) - b(s)); else because r(s) b(s) = r(s) A(s) - r(s) (A(s) - b(s)).
The level is chosen so that A(s) - b(s) is at most the distance of d(s) from the mean. So a sum of these r(s)
with factors f(s) loses at most |f R / b| sqrt(n) times the deviation of d, which is at most the sum of both.

*Exclusion tags.* Each instance of a tag beyond the first one at a location is a conflict, so there is a
least number of conflicts.

*Rounding.* A bound is lowered by all rounding errors there may be: the number of operations in a row, times
the sum of the absolute values of all terms, times 2 ** -50.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.balance import candidates
from ganeti_htools.engine.balancing.linear_score import (
    PRIMARY,
    RESERVED,
    SECONDARY,
    LinearScore,
    Spread,
    linear_score,
)
from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.engine.rules.components import (
    COMPONENTS,
    COUNT,
    LOCATION_EXCLUSION,
    LOST,
    WEIGHTS,
    Component,
)
from ganeti_htools.model import tags
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints, sorted_unique
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import MirrorType

# Work in pairs of nodes and instances: for all budgets, and of a round beside its pairs.
WORK, ROUND = 1 << 28, 1 << 15
BLOCK = 1 << 15  # of them at a time
LIMITS = 16  # different sets of nodes that may be primaries of instances; more are not looked at
WIDTHS = (0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
ROUNDS = 80  # at most, for each width
STEP = 5.0
EXACT = 2.0**-50  # relative rounding error of an operation, and more
BARRED = 1e9  # the value of places that cannot be reached


# Sums over nodes that are never below 0.
_AT_LEAST_0 = {"n1_cnt", "pri_tags_score", "location_score"}


def check(components: Iterable[Component]) -> None:
    """Check that each sum over nodes is proportional or known. Raises ValueError with the names of others."""
    unknown = [
        each.name
        for each in components
        if each.aggregate in (COUNT, LOST) and not each.proportional
        if each.name not in _AT_LEAST_0 | {RESERVED}
    ]
    if unknown:
        raise ValueError(f"bounds of scores do not know the least value of {', '.join(unknown)}")


check(COMPONENTS)


class PlaceCosts(NamedTuple):
    """The least costs of places: a part for each role (roles by instances by nodes), at home less ``detour``.

    A new node gets a copy of the disks, a new primary the memory of a running instance. If only the primary
    is new, its disks come from the secondary, which must be primary meanwhile or be replaced itself: a detour
    for memory or disks. ``reach`` (like the parts) marks the nodes that an instance may use.
    """

    parts: Floats
    detour: Floats
    reach: Bools


class Shares(NamedTuple):
    """The memory of single instances: ``parts[i, s]`` of it counts on node s if instance i is a secondary.

    That costs ``excess`` (by node) of the weights of the spreads ``one`` and (times ``factor``) ``other``.
    """

    parts: Floats
    excess: Floats
    one: int
    other: int
    factor: float


class Dual(NamedTuple):
    """A choice that leads to a bound: ``slopes`` (spreads by nodes), ``price``, and averages of what nodes
    keep for peers.

    ``kept`` has a row for each peer and one for the :class:`Shares`; its sums are the scores of a MiB.
    """

    slopes: Floats
    kept: Floats
    price: float


class Image(NamedTuple):
    """Values of spreads and of what is kept, costs and their variance, for a mixture of places."""

    values: Floats
    kept: Floats
    cost: float
    variance: float


def score_bounds(
    state: State,
    scope: Bools,
    options: BalancingOptions,
    movable: Bools | None,
    budgets: Sequence[float],
) -> list[float] | None:
    """Compute for each budget of copying a score below which no plan within the budget leads.

    Budgets are MiB of disks and memory, with the factors of instances; infinite for no limit. None if the
    score is no number, no instance can move, or the cluster is too large.
    """
    score = linear_score(state, scope, movers(state, scope, options, movable), options.unmirrored)
    if score is None:
        return None
    nodes = score.nodes[~state.columns.offline[score.nodes]]
    score = score._replace(rest=score.rest + least_crowds(state, nodes))
    return bounds_of(score, costs_of(state, score, options), budgets)


def movers(state: State, scope: Bools, options: BalancingOptions, movable: Bools | None) -> Bools:
    """Find the instances that a plan may move; in evacuation those of offline nodes, and sets."""
    found = candidates(state, scope, movable)
    if options.evacuation:
        offline = state.columns.offline
        lost = offline[state.pnode] | ((state.snode != NOWHERE) & offline[state.snode])
        found &= lost | placement_rules.in_sets(state)
    return found


def bounds_of(score: LinearScore, costs: PlaceCosts, budgets: Sequence[float]) -> list[float] | None:
    """Compute the same for a convex score and costs of places."""
    guides = sorted({*budgets, np.inf}, reverse=True)
    places = len(score.rows) * len(score.nodes)
    work = WORK // (2 * len(WIDTHS) * len(guides)) - places * len(score.nodes)
    rounds = min(ROUNDS, work // (ROUND + 8 * places))
    if rounds < 1:
        return None
    lines = list[tuple[float, float]]()  # a choice is a bound for every budget, which falls with it
    for shares in (no_shares(score), best_shares(score)):
        relaxation = Relaxation(score, costs, shares)
        last = relaxation.start()
        for budget in guides:
            found = list(relaxation.ascend(last, budget, rounds))
            last = found[-1]
            found.append(relaxation.whole(last))
            lines += [(relaxation.value(dual), dual.price) for dual in found]
    return [
        max(value - (price and price * budget * (1 + EXACT)) for value, price in lines) for budget in budgets
    ]


def costs_of(state: State, score: LinearScore, options: BalancingOptions) -> PlaceCosts:
    """Compute the least costs of places, and which nodes are left to instances.

    These are online, and options, rules and migration tags allow them.
    """
    rows = [state.cluster.instances[row] for row in score.rows.tolist()]
    factors = np.array([tags.price_factor(row.tags) for row in rows], np.float64)
    disk = factors * np.array([row.dsk for row in rows], np.float64)
    memory = factors * np.array([row.mem if row.status.running else 0 for row in rows], np.float64)
    mirrored = score.snode != NOWHERE
    # An instance without mirror is copied itself.
    copied = np.array([row.template.mirror is MirrorType.NONE for row in rows])
    memory = np.where(copied, disk, memory)
    disk = np.where(mirrored, disk, 0.0)[:, np.newaxis]
    online = ~state.columns.offline[score.nodes]
    primary, secondary = (
        np.arange(len(online)) == home[:, np.newaxis] for home in (score.pnode, score.snode)
    )
    new = disk * ~(primary | secondary)
    detour = np.where(mirrored, np.minimum(disk[:, 0], memory), 0.0)
    parts = new + np.where(primary, 0.0, memory[:, np.newaxis]), new + detour[:, np.newaxis] * secondary
    reached = online & (~mirrored[:, np.newaxis] | options.disk_moves)
    if state.rules is not None:
        reached &= state.rules.eligible[state.rules.instances.choice[score.rows]][:, score.nodes]
    reached |= primary | secondary
    serving = reached if options.instance_moves else primary
    if state.allowed_migrations is not None:
        migrations = _closure(state.allowed_migrations[np.ix_(score.nodes, score.nodes)])
        serving = serving & (migrations[score.pnode] | copied[:, np.newaxis])
    return PlaceCosts(np.array(parts), detour, np.array([serving, reached]))


def _closure(direct: Bools) -> Bools:
    """Find all that several steps lead to, or none."""
    found: Bools = direct | np.eye(len(direct), dtype=np.bool_)
    while True:
        steps = found.astype(np.float32)
        further = steps @ steps > 0
        if (further == found).all():
            return found
        found = further


class Relaxation:
    """The score of mixtures of places, and its lower bounds."""

    def __init__(self, score: LinearScore, costs: PlaceCosts, shares: Shares) -> None:
        self.score, self.shares, spreads = score, shares, score.spreads
        self.mirrored = np.flatnonzero(score.snode != NOWHERE)
        self.alone = np.flatnonzero(score.snode == NOWHERE)
        memory = score.memory[self.mirrored]
        self.equals = [self.mirrored[memory == each] for each in sorted_unique(memory)]
        self.weights = np.array([spread.weight for spread in spreads])
        self.counted = np.array([spread.counted for spread in spreads])
        self.numbers = self.counted.sum(axis=1).astype(np.float64)
        self.values = np.array([spread.values for spread in spreads])
        # Instances by spreads by roles by nodes.
        self.effects = np.ascontiguousarray(
            np.array([spread.effects for spread in spreads]).transpose(2, 0, 1, 3)
        )
        self.rest, self.least = score.rest_effects.copy(), np.zeros(len(spreads))
        for which, spread in enumerate(spreads):
            self.least[which] = least_deviation(score, spread, costs.reach[PRIMARY])
            if self.least[which]:
                lost = np.abs(spread.effects).max(axis=2, keepdims=True) * ~spread.counted
                self.rest -= spread.weight / np.sqrt(self.numbers[which]) * lost
        self.parts, self.detour = costs.parts, costs.detour
        self.barred = np.where(costs.reach, 0.0, BARRED)
        # Lengths of steps by the curvature of the value when instances spread over all nodes.
        size, self.single = len(score.nodes), score.memory[:, np.newaxis] * shares.parts
        squares = np.einsum("icrn,icrn->c", self.effects, self.effects)
        self.steep = STEP * size * _inverse(squares)[:, np.newaxis]
        self.steep_kept = np.full((size + 1, 1), STEP * size * _inverse(score.memory @ score.memory))
        self.steep_kept[size] = STEP * size * _inverse((self.single * self.single).sum())

    def start(self) -> Dual:
        """Return a first choice: no slopes, no price, and all nodes keep as much as for single instances."""
        size, single = len(self.score.nodes), self.shares.excess > 0
        kept = np.zeros((size + 1, size))
        kept[:size] = np.where(single, 0.0, self.score.per_mib / size)
        kept[size] = np.where(single, self.score.per_mib, 0.0)
        return self.valid(np.zeros_like(self.values), kept, 0.0)

    def ascend(self, dual: Dual, budget: float, rounds: int) -> Iterator[Dual]:
        """Yield better and better choices for a budget, beginning with ``dual``, one for each width."""
        yield dual
        for width in WIDTHS:
            ahead, before, speed = dual, dual, 1.0
            for _ in range(rounds):
                image = self.image(ahead, width)
                after = self.valid(
                    ahead.slopes + width * self.steep * image.values,
                    ahead.kept + width * self.steep_kept * image.kept,
                    _price(ahead.price, budget, image, width),
                )
                faster = (1 + np.sqrt(1 + 4 * speed * speed)) / 2
                swing = (speed - 1) / faster
                ahead = self.valid(
                    after.slopes + swing * (after.slopes - before.slopes),
                    after.kept + swing * (after.kept - before.kept),
                    after.price,
                )
                before, speed = after, faster
            dual = before
            yield dual

    def valid(self, slopes: Floats, kept: Floats, price: float) -> Dual:
        """Make the nearest choice that is valid."""
        kept = _averages(kept, self.score.per_mib)
        lengths, scale = self.left(kept)
        if scale < 1:
            kept[-1] *= scale
            lengths, _ = self.left(kept)
        means = np.where(self.counted, slopes, 0.0).sum(axis=1) / self.numbers
        slopes = np.where(self.counted, slopes - means[:, np.newaxis], 0.0)
        norms = np.sqrt((slopes * slopes).sum(axis=1))
        most = np.maximum(lengths, 0.0) / np.sqrt(self.numbers) * (1 - 1e-12)
        slopes *= np.minimum(1.0, most / np.maximum(norms, 1e-300))[:, np.newaxis]
        return Dual(slopes, kept, price)

    def whole(self, dual: Dual) -> Dual:
        """Leave the weights of spreads in whole units to their least deviations."""
        return dual._replace(slopes=np.where(self.least[:, np.newaxis] > 0, 0.0, dual.slopes))

    def left(self, kept: Floats) -> tuple[Floats, float]:
        """Compute the weights that are left by the shares, and the part of the shares that can be paid."""
        shares, weights = self.shares, self.weights.copy()
        lost = float(np.sqrt(self.numbers[shares.one]) * np.linalg.norm(kept[-1] * shares.excess))
        spent = {shares.one: lost}
        if shares.other != NOWHERE:
            spent[shares.other] = lost * shares.factor
        scale = min([1.0, *(weights[which] / cost for which, cost in spent.items() if cost > 0)])
        for which, cost in spent.items():
            weights[which] -= cost
        return weights, scale

    def of_roles(self, dual: Dual) -> Floats:
        """Compute what instances add to the value on nodes (roles by instances by nodes), without peers."""
        found = np.einsum("icrn,cn->rin", self.effects, dual.slopes)
        found += self.rest + dual.price * self.parts + self.barred
        found[SECONDARY] += self.single * dual.kept[-1]
        return np.asarray(found)

    def value(self, dual: Dual) -> float:
        """Compute the bound that a choice leads to, before the price of the budget is taken off."""
        score, size, of_roles = self.score, len(self.score.nodes), self.of_roles(dual)
        weights, _ = self.left(dual.kept)
        norms = np.sqrt((dual.slopes * dual.slopes).sum(axis=1)) * np.sqrt(self.numbers)
        total = score.rest + float((dual.slopes * self.values).sum() + (dual.kept[:-1] * score.kept).sum())
        total += float((np.maximum(weights - norms, 0.0) * self.least).sum())
        total += float(of_roles[PRIMARY, self.alone].min(axis=1).sum())
        step = max(1, BLOCK // size**2)
        for start in range(0, len(self.mirrored), step):
            some = self.mirrored[start : start + step]
            values = score.memory[some, np.newaxis, np.newaxis] * dual.kept[:-1]
            values += of_roles[PRIMARY, some][:, :, np.newaxis] + score.together
            values += of_roles[SECONDARY, some][:, np.newaxis]
            values[:, np.arange(size), np.arange(size)] = BARRED
            values[np.arange(len(some)), score.pnode[some], score.snode[some]] -= (
                dual.price * self.detour[some]
            )
            total += float(values.min(axis=(1, 2)).sum())
        return total - self.margin(dual)

    def image(self, dual: Dual, width: float) -> Image:
        """Compute the image of the mixture that a choice leads to; rounding only disturbs the direction."""
        score, size, of_roles = self.score, len(self.score.nodes), self.of_roles(dual)
        lowest = of_roles.min(axis=2, keepdims=True)
        mixture = np.exp((lowest - of_roles) / width)
        kept, stay = np.zeros((size + 1, size)), np.zeros(len(score.rows))
        kept[:size] = score.kept
        for rows in self.equals:
            memory, home = score.memory[rows[0]], (score.pnode[rows], score.snode[rows])
            peers = memory * dual.kept[:-1] + score.together
            apart = np.exp(-peers / width)
            np.fill_diagonal(apart, 0.0)
            primary, secondary = mixture[:, rows]
            # At home there is no detour, which makes it the best place or a better one.
            better = lowest.sum(axis=(0, 2))[rows] + dual.price * self.detour[rows] - peers[home]
            better -= of_roles[PRIMARY, rows, home[0]] + of_roles[SECONDARY, rows, home[1]]
            better = np.where(dual.price * self.detour[rows] > 0, better / width, -np.inf)
            scale = np.exp(-np.maximum(better, 0.0))
            at_home = np.exp(np.minimum(better, 0.0))
            there = scale[:, np.newaxis] * primary * (secondary @ apart.T)
            total = at_home + there.sum(axis=1)
            at_home, scale = (figure / np.maximum(total, 1e-300) for figure in (at_home, scale))
            kept[:size] += memory * apart * ((scale[:, np.newaxis] * primary).T @ secondary)
            np.add.at(kept, home, memory * at_home)
            mixture[SECONDARY, rows] = scale[:, np.newaxis] * secondary * (primary @ apart)
            mixture[PRIMARY, rows] = there / np.maximum(total, 1e-300)[:, np.newaxis]
            mixture[PRIMARY, rows, home[0]] += at_home
            mixture[SECONDARY, rows, home[1]] += at_home
            stay[rows] = at_home
        mixture[PRIMARY, self.alone] /= mixture[PRIMARY, self.alone].sum(axis=1)[:, np.newaxis]
        mixture[SECONDARY, self.alone] = 0.0
        kept[size] = (self.single * mixture[SECONDARY]).sum(axis=0)
        costs = (mixture * self.parts).sum(axis=(0, 2)) - stay * self.detour
        squares = (mixture * self.parts * self.parts).sum(axis=(0, 2))
        variance = np.maximum(squares - costs * costs, 0.0).sum()
        values = self.values + np.einsum("icrn,rin->cn", self.effects, mixture)
        return Image(values, kept, float(costs.sum()), float(variance))

    def margin(self, dual: Dual) -> float:
        """Bound the rounding errors of a value."""
        score = self.score
        slopes = np.abs(dual.slopes).sum(axis=1)
        effects = np.abs(self.effects).max(axis=(2, 3)).sum(axis=0)
        centres = np.array([abs(spread.centre) for spread in score.spreads])
        size = float(slopes @ (centres + np.abs(self.values).max(axis=1) + 2 * effects))
        size += abs(score.rest) + 2 * float(np.abs(self.rest).max(axis=(0, 2)).sum())
        size += float(score.per_mib.max() * (np.abs(score.kept).max() + score.memory.sum()))
        size += float(self.weights @ self.least) + len(score.rows) * float(score.together.max())
        size += dual.price * float(self.parts.max(axis=(0, 2)).sum())
        return (len(score.rows) + len(score.nodes) + len(score.spreads) + 16) * size * EXACT


def _price(price: float, budget: float, image: Image, width: float) -> float:
    """Change the price of costs by what a mixture costs above the budget; at most by the factor 2."""
    if not np.isfinite(budget):
        return 0.0
    change = 0.3 * width * (image.cost - budget) / (image.variance + 1e-9 * width)
    least = 1e-9 + (0.0 if price else 1 / max(budget, 1.0))
    return max(price / 2, min(2 * price + least, price + change))


def _inverse(figures: Any) -> Any:
    return np.where(figures > 0, 1 / np.where(figures > 0, figures, 1.0), 1.0)


def _averages(kept: Floats, sums: Floats) -> Floats:
    """Find the nearest columns without negative entries and with given sums."""
    falling = -np.sort(-kept, axis=0)
    levels = (np.cumsum(falling, axis=0) - sums) / np.arange(1, len(kept) + 1)[:, np.newaxis]
    last = (falling > levels).sum(axis=0) - 1
    found: Floats = np.maximum(kept - levels[last, np.arange(kept.shape[1])], 0.0)
    return found * np.where(sums > 0, (1 - 1e-12) * sums / np.maximum(found.sum(axis=0), 1e-300), 0.0)


def least_crowds(state: State, nodes: Ints) -> float:
    """Compute the least score of exclusion tags at locations: more instances with a tag than locations.

    Instances of online nodes stay on these ``nodes`` (rows), which all have some number of locations or more.
    """
    located = state.location_tags[nodes]
    settled = (state.tag_counts - state.forthcoming_tag_counts)[:, nodes]
    counts = settled.sum(axis=1) * located.sum(axis=1).min()
    return WEIGHTS[LOCATION_EXCLUSION] * float(np.maximum(counts - located.any(axis=0).sum(), 0).sum())


def least_deviation(score: LinearScore, spread: Spread, serving: Bools) -> float:
    """Compute the least deviation of a spread whose values are whole units beside fixed parts; otherwise 0.

    It holds for all instances on online nodes. An instance elsewhere lowers it by at most what it would add
    to an online node, divided by the root of their number. ``serving`` (instances by nodes) marks the nodes
    that may be primaries: some nodes get at least the units of primaries that cannot leave them. The sum of
    squares is a convex function of their units, so they get just these if one more costs as much.
    """
    here = spread.effects[:, :, spread.counted]
    units = np.rint(here[:, :, 0])
    if not here.size or (here != units[:, :, np.newaxis]).any() or not units.any() or (units < 0).any():
        return 0.0
    unit = int(np.gcd.reduce(units.astype(np.int64).ravel()))
    total = float(units[PRIMARY].sum() + units[SECONDARY, score.snode != NOWHERE].sum())
    fixed, number = spread.values[spread.counted], round(total / unit)
    mean = (fixed.sum() + total) / len(fixed)
    least = _least_squares(fixed, number, unit, mean)
    limits = np.unique(serving, axis=0)
    for nodes in limits if len(limits) <= LIMITS and not units[SECONDARY].any() else ():
        bound = ~(serving & ~(nodes & spread.counted)).any(axis=1)
        here, most = nodes[spread.counted], round(float(units[PRIMARY, bound].sum()) / unit)
        if bound.any() and not here.all():
            squares = [
                _least_squares(fixed[here], some, unit, mean)
                + _least_squares(fixed[~here], number - some, unit, mean)
                for some in (most, most + 1)
            ]
            least = max(least, squares[0]) if squares[0] <= squares[1] else least
    least = float(np.sqrt(least / len(fixed)))
    return max(0.0, least * (1 - 1e-12) - 1e-12 * (1 + abs(spread.centre)))


def _least_squares(fixed: Floats, number: int, unit: int, mean: float) -> float:
    """Compute the least sum of squared distances from the mean when nodes get so many units."""
    numbers = np.rint(((fixed.sum() + unit * number) / len(fixed) - fixed) / unit)
    while (missing := round(number - numbers.sum())) != 0:
        sign = 1 if missing > 0 else -1
        dearer = 2 * sign * (fixed + unit * numbers - mean) + unit
        numbers[dearer.argmin()] += sign
    distances = fixed + unit * numbers - mean
    return float((distances * distances).sum())


def no_shares(score: LinearScore) -> Shares:
    """Return no shares, which cost nothing."""
    return Shares(np.zeros((len(score.rows), len(score.nodes))), np.zeros(len(score.nodes)), 0, NOWHERE, 0.0)


def best_shares(score: LinearScore) -> Shares:
    """Choose the combination of spreads that gives single instances most memory."""
    spreads, memory, best, most = score.spreads, score.memory, no_shares(score), 0.0
    for one, other, factor, added, values in _combinations(spreads):
        counted = spreads[one].counted
        level = values[counted].sum() + added.max(axis=2).sum()
        levels = np.where(counted, level / counted.sum() - values, 0.0)
        inverse = np.where(levels > 0, 1 / np.where(levels > 0, levels, 1.0), 0.0)
        parts, excess = added[SECONDARY] * inverse, memory.max() * inverse
        gain = float((memory[:, np.newaxis] * parts * score.per_mib).mean(axis=1).sum())
        if gain > most:
            best, most = Shares(parts, excess, one, other, factor), gain
    return best


def _combinations(spreads: Sequence[Spread]) -> Iterator[tuple[int, int, float, Floats, Floats]]:
    """Yield combinations of a spread less a part of another one that secondaries do not change.

    Each with what instances add to the values, which is never below 0, and the values without them.
    """
    for one, first in enumerate(spreads):
        sign = -1.0 if first.effects.sum() < 0 else 1.0
        added, values = sign * first.effects, sign * first.values
        if (added < 0).any() or not added[SECONDARY].any():
            continue
        yield one, NOWHERE, 0.0, added, values
        for other, second in enumerate(spreads):
            less = second.effects[PRIMARY]
            if second.effects[SECONDARY].any() or (less < 0).any() or not less.any():
                continue
            if (second.counted != first.counted).any():
                continue
            factor = float((added[PRIMARY][less > 0] / less[less > 0]).min())
            rest = added - factor * second.effects
            if factor > 0 and (rest >= 0).all():
                yield one, other, factor, rest, values - factor * second.values
