"""What an instance changes on the nodes to which it comes.

It is the same whatever else is there (``proportional`` components), so it is found out once, by
:mod:`.node_rules`, and remembered.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.rules import instance_policy, node_rules
from ganeti_htools.engine.rules.components import AGGREGATES, CLUSTER, COMPONENTS, LOST, SPREAD, WEIGHTS
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.score import NodeValues, node_values
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import Bools, Floats
from ganeti_htools.model.state import RequestedInstance, State, cohort

# More than so many instances are not remembered.
ENOUGH = 50_000


@dataclass(frozen=True, slots=True)
class Arrival:
    """What an instance changes on each node to which it comes as primary.

    ``spreads`` (``table`` as an array) has for each node the changes of the components that are spreads, 0
    where the node does not count; ``counts`` are the weighted changes of the sums. ``allowed`` tells where
    policies admit it, ``welcome`` whether they do everywhere.
    """

    spreads: list[list[float]]
    table: Floats
    counts: list[float]
    allowed: list[bool]
    welcome: bool


class Mirror(NamedTuple):
    """What a mirrored instance changes on each node to which it comes as secondary, of the spreads: what it
    takes there, and each MiB more that the node then keeps free.
    """

    taken: Floats
    kept: Floats


@dataclass(slots=True)
class Arrivals:
    """What instances change, by what they need; it holds for all states with the same nodes and policies."""

    needs: dict[Any, Arrival] = field(default_factory=dict)
    mirrors: dict[Any, Mirror] = field(default_factory=dict)
    rows: dict[int, tuple[Instance, RequestedInstance, Any]] = field(default_factory=dict)

    def tidy(self) -> None:
        """Forget everything if it is too much."""
        if max(len(self.needs), len(self.mirrors), len(self.rows)) > ENOUGH:
            self.needs, self.mirrors, self.rows = {}, {}, {}

    def asked(self, state: State, index: int) -> tuple[RequestedInstance, Any]:
        """The instance of a row, and what it needs."""
        row = state.cluster.instances[index]
        known = self.rows.get(id(row))
        if known is None or known[1].index != index:
            asked = state.instance(index)
            known = self.rows[id(row)] = row, asked, need_of(asked)  # kept, so that no other has its identity
        return known[1:]

    def of(self, state: State, asked: RequestedInstance, need: Any, score: "Score") -> Arrival:
        """What an instance changes."""
        if (need, score.rows) not in self.needs:
            self.learn(state, [asked], score)
        return self.needs[need, score.rows]

    def mirror_of(self, state: State, asked: RequestedInstance, need: Any, score: "Score") -> Mirror:
        """What a mirrored instance changes as secondary."""
        if (need, score.rows) not in self.mirrors:
            self.learn(state, [asked], score)
        return self.mirrors[need, score.rows]

    def learn(self, state: State, several: Sequence[RequestedInstance], score: "Score") -> None:
        """Find out what instances change that differ in amounts only: faster together than one by one."""
        keys = {(need_of(asked), score.rows): asked for asked in several}
        new = {key: asked for key, asked in keys.items() if key not in self.needs}
        if new:
            self.needs.update(zip(new, _arrivals(state, list(new.values()), score), strict=True))
        new = {key: asked for key, asked in keys.items() if asked.mirrored and key not in self.mirrors}
        if new:
            self.mirrors.update(zip(new, _mirrors(state, list(new.values()), score), strict=True))


def need_of(asked: RequestedInstance) -> Any:
    """All that decides what an instance changes where it comes to, tags aside."""
    return asked.needs, asked.row.template.survives_node, asked.row.demand


@dataclass(frozen=True, slots=True)
class Score:
    """How the score is made up; components that are one object are one row, with the sum of their weights."""

    rows: tuple[int, ...]
    weights: tuple[float, ...]


def spreads_of(score: Score, values: NodeValues, online: Bools) -> Floats:
    """The nodes' values (rows) of the components that are spreads, 0 for offline nodes; of several states in
    one more dimension if the values are.
    """
    spreads = [values[which] for which in score.rows]
    table = np.stack(np.broadcast_arrays(online, *spreads)[1:], axis=-1, dtype=np.float64)
    table[..., ~online, :] = 0.0
    return table


def _arrivals(state: State, several: Sequence[RequestedInstance], score: Score) -> list[Arrival]:
    """What instances change that differ in amounts only."""
    columns, online, shape = state.columns, ~state.columns.offline, (len(several), len(state.group))
    values = node_values(columns)
    new, _ = node_rules.add_primary(columns, cohort(several), 0, 0, force=True)
    then = node_values(new, (columns, values))
    spreads = spreads_of(score, then, online) - spreads_of(score, values, online)
    counts = np.zeros(shape)
    for which, (component, aggregate) in enumerate(zip(COMPONENTS, AGGREGATES, strict=True)):
        if component.proportional and aggregate not in (SPREAD, CLUSTER):
            counted = ~online if aggregate is LOST else online
            counts += np.where(counted, WEIGHTS[which] * (then[which] - values[which]), 0.0)
    allowed = np.ones(shape, np.bool_)
    if not several[0].row.template.survives_node:
        demands = [asked.row.demand for asked in several]
        allowed = instance_policy.codes_of(state, demands, np.arange(len(online))) == FITS
    tables = np.broadcast_to(spreads, (*shape, len(score.rows)))
    return [
        Arrival(table.tolist(), table, count, admitted, all(admitted))
        for table, count, admitted in zip(tables, counts.tolist(), allowed.tolist(), strict=True)
    ]


def _mirrors(state: State, several: Sequence[RequestedInstance], score: Score) -> list[Mirror]:
    """What mirrored instances change as secondaries that differ in amounts only."""
    online = ~state.columns.offline
    bare = state.columns._replace(r_mem=np.zeros_like(state.columns.r_mem))
    taken, _ = node_rules.add_secondary(bare, replace(cohort(several), secondary_mem=0), 0, force=True)
    before, then, keeping = (
        spreads_of(score, node_values(columns), online)
        for columns in (bare, taken, bare._replace(r_mem=bare.r_mem + 1))
    )
    kept = keeping - before
    tables = np.broadcast_to(then - before, (len(several), *kept.shape))
    return [Mirror(table, kept) for table in tables]
