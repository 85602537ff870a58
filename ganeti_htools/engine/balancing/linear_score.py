"""The score as a function of the places of instances, as far as it is convex, and what whole numbers add.

An instance changes the value of a proportional component on each of its nodes by a fixed amount, whatever
else the node has. So these values are sums over instances, and a weighted standard deviation of them is
convex. The amounts follow from what :mod:`ganeti_htools.engine.rules.node_rules` does to the columns of a
node. Beside them there are the memory that secondaries keep free, the largest sum of a peer, and the location
score, which depends on the instance's place only.

All other components are left out. None is below 0, so the result is a lower bound of the score: deviations
that are not proportional, nodes that fail N+1, and conflicts of exclusion tags on nodes and at locations. Of
the latter there is a least number: each instance of a tag beyond the first one at a location is a conflict.

A convex function does not know that an instance is whole. Two facts tell.

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
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.batches import Batch, NodeFacts, batches_of
from ganeti_htools.engine.balancing.scoring import PER_LOCATION
from ganeti_htools.engine.rules import affinity, node_rules
from ganeti_htools.engine.rules.components import (
    COMPONENTS,
    COUNT,
    LOCATION_EXCLUSION,
    LOST,
    SPREAD,
    WEIGHTS,
    Component,
    table,
)
from ganeti_htools.engine.rules.score import counted_nodes, effective_weights, node_counts
from ganeti_htools.model.columns import FORTHCOMING, NOWHERE, Bools, Columns, Floats, Ints
from ganeti_htools.model.state import State

PRIMARY, SECONDARY = 0, 1  # positions of the roles in arrays
LIMITS = 16  # different sets of nodes that may be primaries of instances; more are not looked at
LARGEST = 1 << 20  # instances times nodes, 300 nodes with 3,000 instances: 0.1 to 0.3 GiB
# Sums over nodes that are never below 0.
_AT_LEAST_0 = {"n1_cnt", "pri_tags_score", "location_score"}
_RESERVED = "reserved_mem_rtotal"  # in proportion to the memory that nodes keep free


def check(components: Iterable[Component]) -> None:
    """Check that each sum over nodes is proportional or known. Raises ValueError with the names of others."""
    unknown = [
        each.name
        for each in components
        if each.aggregate in (COUNT, LOST) and not each.proportional
        if each.name not in _AT_LEAST_0 | {_RESERVED}
    ]
    if unknown:
        raise ValueError(f"bounds of scores do not know the least value of {', '.join(unknown)}")


check(COMPONENTS)


class Spread(NamedTuple):
    """A weighted deviation over the ``counted`` nodes.

    ``values`` are those without the instances, about the ``centre``. ``effects`` are what the instances add
    (roles by instances by nodes). Values and effects are 0 on nodes that do not count.
    """

    weight: float
    counted: Bools
    centre: float
    values: Floats
    effects: Floats


class LinearScore(NamedTuple):
    """The score of the nodes in scope, as a function of the places of the instances that move.

    * ``rows``: the instances. ``nodes``: the nodes. All other nodes are positions among these.
    * ``pnode``, ``snode``: the present places, NOWHERE for no secondary.
    * ``rest`` and ``rest_effects`` (roles by instances by nodes): the weighted sums of other components.
    * ``kept``: MiB that nodes (columns) keep free for others (rows) because of all other instances.
    * ``memory``: MiB to be kept free for each instance. ``per_mib``: the score of a MiB that a node keeps.
    * ``together``: the score of a mirrored instance on two nodes (primaries by secondaries).
    """

    rows: Ints
    nodes: Ints
    pnode: Ints
    snode: Ints
    spreads: tuple[Spread, ...]
    rest: float
    rest_effects: Floats
    kept: Floats
    memory: Floats
    per_mib: Floats
    together: Floats


@np.errstate(divide="ignore", invalid="ignore", over="ignore")  # nodes that report nothing
def linear_score(state: State, scope: Bools, movable: Bools, unmirrored: bool = False) -> LinearScore | None:
    """Compute the convex part of the score; None if it is no number, or no instance can move.

    Also None for large clusters: the effects of instances on nodes take memory. The nodes of all movable
    instances are in scope.
    """
    batches, facts = batches_of(state, movable, unmirrored)
    nodes, number = np.flatnonzero(scope), sum(len(batch.rows) for batch in batches)
    if not 0 < number * len(nodes) <= LARGEST or state.columns.offline[nodes].all():
        return None
    position = np.full(len(scope) + 1, NOWHERE)  # the last entry stands for NOWHERE
    position[nodes] = np.arange(len(nodes))
    rows = np.concatenate([batch.rows for batch in batches])
    pnode, snode = position[state.pnode[rows]], position[state.snode[rows]]
    columns, score_table = state.columns.take(nodes), table(state.columns.shape)
    online, counted = ~columns.offline, counted_nodes(columns)
    weights = effective_weights(score_table, node_counts(columns, counted))
    changes = [_changed(columns, batch) for batch in batches]
    unclear = _unclear(columns, batches)
    spreads, rest, rest_effects = list[Spread](), 0.0, np.zeros((2, len(rows), len(nodes)))
    per_mib = np.zeros(len(nodes))
    for which, (component, weight) in enumerate(zip(score_table.components, weights, strict=True)):
        if component.name == _RESERVED:
            rate = component.formula(columns, 1) - component.formula(columns, 0)
            per_mib = np.where(online, weight * rate, 0.0)
        if not (weight and component.proportional and component.figures) or unclear & {*component.figures}:
            continue
        counts = online if counted is None else online & counted[which]
        counts = ~online if component.aggregate is LOST else counts
        now = np.where(counts, component.of(columns), 0.0)
        effects = np.where(counts, np.concatenate(list(_effects(component, columns, changes)), axis=1), 0.0)
        centre = float(now[counts].mean()) if component.aggregate is SPREAD and counts.any() else 0.0
        values = np.where(counts, now - centre, 0.0)
        _take(values, effects, pnode, snode)
        if component.aggregate is SPREAD:
            spreads.append(Spread(weight, counts, centre, values, effects))
        else:
            rest, rest_effects = rest + weight * float(values.sum()), rest_effects + weight * effects
    memory = np.concatenate([_secondary_memory(batch) for batch in batches])
    kept = state.peers[np.ix_(nodes, nodes)].astype(np.float64)
    mirrored = snode != NOWHERE
    np.subtract.at(kept, (pnode[mirrored], snode[mirrored]), memory[mirrored])
    unmet, shared = _locations(facts, batches, nodes)
    rest_effects[PRIMARY] += unmet
    rest += PER_LOCATION * float(columns.location[online].sum())
    rest += _least_crowds(state, nodes[online])
    rest -= float(unmet[np.arange(len(rows)), pnode].sum() + shared[pnode[mirrored], snode[mirrored]].sum())
    # Forthcoming instances do not count; it is enough to know that others add at least 0.
    together = shared * (not any(batch.asked.mirrored and batch.asked.forthcoming for batch in batches))
    merged = tuple(_merged(spreads))
    found = LinearScore(
        rows, nodes, pnode, snode, merged, rest, rest_effects, kept, memory, per_mib, together
    )
    figures = [rest, rest_effects.sum(), per_mib.sum()]
    figures += [each.values.sum() + each.effects.sum() for each in found.spreads]
    return found if np.isfinite(figures).all() else None


def _changed(columns: Columns, batch: Batch) -> tuple[int, Columns, tuple[Columns, Columns]]:
    """Compute the columns of all nodes before and after each instance has come, in both roles."""
    several = batch.take(np.arange(len(batch.rows))[:, np.newaxis]).asked
    before = columns.map(lambda column: column[np.newaxis])
    primary, _ = node_rules.add_primary(before, several, 0, 0, force=True)
    secondary = node_rules.add_secondary(before, several, 0, force=True)[0] if several.mirrored else before
    return len(batch.rows), before, (primary, secondary)


def _effects(
    component: Component, columns: Columns, changes: Iterable[tuple[int, Columns, tuple[Columns, Columns]]]
) -> Iterator[Floats]:
    """Yield the changes of a component's values by the instances of each batch."""
    for number, before, after in changes:
        old, shape = component.of(before), (number, len(columns.offline))
        yield np.array([np.broadcast_to(component.of(new) - old, shape) for new in after], np.float64)


def _unclear(columns: Columns, batches: Iterable[Batch]) -> set[str]:
    """Find the columns that are no sums: an instance with unknown spindles takes all free ones."""
    vague = any(batch.asked.spindles is None for batch in batches)
    return {"f_spindles", FORTHCOMING["f_spindles"]} if vague and columns.excl_stor.any() else set()


def _take(values: Floats, effects: Floats, pnode: Ints, snode: Ints) -> None:
    """Take the instances from their present nodes, in place."""
    everyone, mirrored = np.arange(len(pnode)), snode != NOWHERE
    np.subtract.at(values, pnode, effects[PRIMARY, everyone, pnode])
    there = everyone[mirrored], snode[mirrored]
    np.subtract.at(values, there[1], effects[SECONDARY][there])


def _locations(facts: NodeFacts, batches: Iterable[Batch], nodes: Ints) -> tuple[Floats, Floats]:
    """Compute the location score of instances as primaries (by nodes), and of two nodes for each of them."""
    online = ~facts.state.columns.offline[nodes]
    unmet = [facts.unmet[batch.desires][:, nodes] * (not batch.asked.forthcoming) for batch in batches]
    shared = affinity.shared_locations(facts.state, nodes[:, np.newaxis], nodes) * online[:, np.newaxis]
    return PER_LOCATION * np.concatenate(unmet) * online, PER_LOCATION * shared


def _least_crowds(state: State, nodes: Ints) -> float:
    """Compute the least score of exclusion tags at locations: more instances with a tag than locations.

    Instances of online nodes stay on these ``nodes`` (rows), which all have some number of locations or more.
    """
    located = state.location_tags[nodes]
    counts = state.settled_tag_counts[:, nodes].sum(axis=1) * located.sum(axis=1).min()
    return WEIGHTS[LOCATION_EXCLUSION] * float(np.maximum(counts - located.any(axis=0).sum(), 0).sum())


def _secondary_memory(batch: Batch) -> Any:
    kept = batch.asked.mirrored and not batch.asked.forthcoming
    return batch.asked.secondary_mem if kept else np.zeros(len(batch.rows))


def _merged(spreads: Iterable[Spread]) -> list[Spread]:
    """Put deviations of the same values together."""
    found = list[Spread]()
    for spread in spreads:
        for at, other in enumerate(found):
            if _same(spread, other):
                found[at] = other._replace(weight=other.weight + spread.weight)
                break
        else:
            found.append(spread)
    return found


def _same(spread: Spread, other: Spread) -> bool:
    pairs: Any = zip(spread[1:], other[1:], strict=True)
    return all(np.array_equal(one, two) for one, two in pairs)


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


class Shares(NamedTuple):
    """The memory of single instances: ``parts[i, s]`` of it counts on node s if instance i is a secondary.

    That costs ``excess`` (by node) of the weights of the spreads ``one`` and (times ``factor``) ``other``.
    """

    parts: Floats
    excess: Floats
    one: int
    other: int
    factor: float


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
