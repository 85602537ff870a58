"""The changes that an instance makes to the score's figures of the nodes it comes to.

They are the same whatever else a node has (``proportional`` components), so :mod:`.cache` remembers them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.rules import instance_policy, node_rules
from ganeti_htools.engine.rules.components import AGGREGATES, CLUSTER, COMPONENTS, LOST, SPREAD, WEIGHTS
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.score import NodeValues, distinct_spreads, node_values
from ganeti_htools.model.columns import Bools, Columns, Floats
from ganeti_htools.model.state import RequestedInstance, State, cohort


class SpreadWeights(NamedTuple):
    """The components that are spreads (by position in the score's table) and their weights.

    Components with the same values are one row with the sum of their weights.
    """

    rows: tuple[int, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, columns: Columns) -> "SpreadWeights":
        """The spreads in the score of these nodes."""
        weights = distinct_spreads(AGGREGATES, WEIGHTS, node_values(columns))
        return cls(tuple(weights), tuple(weights.values()))

    def values(self, columns: Columns, online: Bools, values: NodeValues | None = None) -> Floats:
        """The values of nodes (spreads by nodes, last dimensions), 0 for offline nodes.

        ``values`` are those of :func:`.score.node_values` if they are known.
        """
        values = node_values(columns) if values is None else values
        table = np.stack(
            np.broadcast_arrays(online, *(values[row] for row in self.rows))[1:], axis=-2, dtype=np.float64
        )
        table[..., ~online] = 0.0
        return table


class PlacementDelta(NamedTuple):
    """The changes by an instance that comes to each node as primary.

    ``spreads`` (spreads by nodes) are the changes of the components that are spreads, 0 for nodes that do not
    count. ``counts`` are the weighted changes of the sums. ``allowed`` are the nodes whose policy admits the
    instance.
    """

    spreads: Floats
    counts: Floats
    allowed: Bools


def placement_deltas(
    state: State, several: Sequence[RequestedInstance], spreads: SpreadWeights
) -> list[PlacementDelta]:
    """The changes by each of some instances that differ in amounts only."""
    columns, online, shape = state.columns, ~state.columns.offline, (len(several), len(state.group))
    values = node_values(columns)
    new, _ = node_rules.add_primary(columns, cohort(several), 0, 0, force=True)
    after = node_values(new, (columns, values))
    changes = spreads.values(new, online, after) - spreads.values(columns, online, values)
    counts = np.zeros(shape)
    for which, (component, aggregate) in enumerate(zip(COMPONENTS, AGGREGATES, strict=True)):
        if component.proportional and aggregate not in (SPREAD, CLUSTER):
            counted = ~online if aggregate is LOST else online
            counts += np.where(counted, WEIGHTS[which] * (after[which] - values[which]), 0.0)
    allowed = np.ones(shape, np.bool_)
    if not several[0].row.template.survives_node:
        demands = [asked.row.demand for asked in several]
        allowed = instance_policy.codes_of(state, demands, np.arange(len(online))) == FITS
    tables = np.broadcast_to(changes, (*shape[:1], *changes.shape[-2:]))
    return list(map(PlacementDelta, tables, counts, allowed))


def secondary_deltas(
    state: State, several: Sequence[RequestedInstance], spreads: SpreadWeights
) -> list[Floats]:
    """The changes of spreads by instances that come as secondary and differ in amounts only.

    Reserved memory is left out: :func:`reserve_delta` has it.
    """
    online = ~state.columns.offline
    bare = state.columns._replace(r_mem=np.zeros_like(state.columns.r_mem))
    new, _ = node_rules.add_secondary(bare, replace(cohort(several), secondary_mem=0), 0, force=True)
    changes = spreads.values(new, online) - spreads.values(bare, online)
    return list(np.broadcast_to(changes, (len(several), *changes.shape[-2:])))


def reserve_delta(state: State, spreads: SpreadWeights) -> Floats:
    """The changes of spreads for each MiB more that a node keeps free (spreads by nodes)."""
    online, none = ~state.columns.offline, np.zeros_like(state.columns.r_mem)
    bare, kept = (state.columns._replace(r_mem=amount) for amount in (none, none + 1))
    return spreads.values(kept, online) - spreads.values(bare, online)
