"""The score as a function of the places of instances, as far as it is convex.

An instance changes the value of a proportional component on each of its nodes by a fixed amount, whatever
else the node has. So these values are sums over instances, and a weighted standard deviation of them is
convex. The amounts follow from what :mod:`ganeti_htools.engine.rules.node_rules` does to the columns of a
node. Beside them there are the memory that secondaries keep free, the largest sum of a peer, and the location
score, which depends on the instance's place only.

All other components are left out, none of which is below 0: deviations that are not proportional, nodes that
fail N+1, and conflicts of exclusion tags on nodes and at locations.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.scoring import PER_LOCATION
from ganeti_htools.engine.rules import affinity, node_rules
from ganeti_htools.engine.rules.batches import Batch, NodeFacts, batches_of
from ganeti_htools.engine.rules.components import LOST, SPREAD, Component, table
from ganeti_htools.engine.rules.score import counted_nodes, effective_weights, node_counts
from ganeti_htools.model.columns import FORTHCOMING, NOWHERE, Bools, Columns, Floats, Ints
from ganeti_htools.model.state import State

PRIMARY, SECONDARY = 0, 1  # positions of the roles in arrays
LARGEST = 1 << 20  # instances times nodes, 300 nodes with 3,000 instances: 0.1 to 0.3 GiB
RESERVED = "reserved_mem_rtotal"  # in proportion to the memory that nodes keep free


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
        if component.name == RESERVED:
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
