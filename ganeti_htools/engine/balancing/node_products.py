"""Changes of the nodes that instances leave: products of an amount of the instance and a unit of the node."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ganeti_htools.engine.balancing.new_nodes import NewNodes
from ganeti_htools.engine.rules.batches import Batch
from ganeti_htools.model.columns import Floats, Ints
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.state import State


class NodeProducts:
    """Changes of ``spreads`` on the nodes of a batch's instances by kinds of moves.

    An instance takes from a node what it brings to a new one (:class:`.NewNodes`): ``amounts`` (roles by
    spreads by instances) times ``units`` (roles by spreads by targets, and 0 for all other nodes).
    """

    def __init__(
        self,
        state: State,
        batch: Batch,
        kinds: Iterable[MoveKind],
        new: Mapping[bool, NewNodes],
        spreads: Sequence[int],
    ) -> None:
        self.state, self.rows, self.spreads = state, batch.rows, np.array(spreads, np.int64)
        targets = next((each.targets for each in new.values()), np.zeros(0, np.int64))
        self.places = np.full(len(state.group) + 1, len(targets))  # the last entry stands for NOWHERE
        self.places[targets] = np.arange(len(targets))
        self.amounts = np.zeros((len(new), len(spreads), len(batch.rows)))
        self.units = np.zeros((len(new), len(spreads), len(targets) + 1))
        for role, to_primary in enumerate(sorted(new, reverse=True)):
            table = new[to_primary]
            for row, which in enumerate(spreads):
                if which in table.amounts:
                    self.amounts[role, row] = table.amounts[which][table.classes]
                    self.units[role, row, :-1] = table.units[which]
        # 1 if the instance comes to one of its nodes in a role, -1 if it goes (kinds by nodes by roles).
        roles = np.arange(len(new))
        after = np.array([kind.nodes(0, 1, 2) for kind in kinds])[:, : len(new)]
        self.signs = (after[:, np.newaxis] == roles[:, np.newaxis]) - np.eye(len(new))

    def changes(self, members: Ints, heights: Floats) -> tuple[Floats, Floats]:
        """Compute the changes of sums and of sums of squares (kinds by spreads by members).

        ``heights`` are those of the targets (all spreads by targets, see :class:`.Totals`).
        """
        rows = self.rows[members]
        nodes = np.stack([self.state.pnode[rows], self.state.snode[rows]])[: len(self.amounts)]
        places = self.places[nodes]
        amounts, units = self.amounts.take(members, axis=2), self.units.take(places, axis=2)
        parts = amounts[:, np.newaxis] * units.swapaxes(1, 2)
        changes = (self.signs[..., np.newaxis, np.newaxis] * parts.swapaxes(0, 1)).sum(axis=2)
        above = heights.take(np.minimum(places, heights.shape[1] - 1), axis=1)[self.spreads]
        squares = changes * (changes + 2 * above.swapaxes(0, 1))
        return changes.sum(axis=1), squares.sum(axis=1)
