"""Single moves of instances, each kind of move tried on all its new nodes at once."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.balancing.balance import allowed
from ganeti_htools.engine.balancing.batches import Batch, NodeFacts, batches_of
from ganeti_htools.engine.balancing.relocate import nodes_after, relocate
from ganeti_htools.engine.balancing.traffic import copied
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.moves import KINDS, MoveKind
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State


@dataclass(frozen=True, slots=True)
class InstanceMove:
    """A kind of move of an instance to each of some new nodes (rows; NOWHERE for a failover).

    ``same`` has the instance once for each node.
    """

    facts: NodeFacts
    same: Batch
    kind: MoveKind
    nodes: Ints

    @property
    def index(self) -> int:
        """The row of the instance."""
        return int(self.same.rows[0])

    @property
    def volume(self) -> int:
        """The disks and memory (MiB) that the move copies."""
        return sum(copied(self.kind, self.facts.state.cluster.instances[self.index]))

    def trial(self, options: BalancingOptions) -> Trial:
        """Try the move to all its nodes."""
        state, new = self.facts.state, self.nodes if self.kind.takes_node else None
        touched, codes = relocate(self.facts, self.same, self.kind, options.ignore_soft_errors, new)
        places = nodes_after(state, self.same, self.kind, new)
        return Trial(state.instance(self.index), codes, *places, tuple(touched))


def moves_of(
    state: State, scope: Bools, options: BalancingOptions, concerned: Bools
) -> Iterator[InstanceMove]:
    """Yield the moves that options allow to the concerned instances, by instance and kind.

    New nodes are the online nodes in scope.
    """
    targets = np.flatnonzero(scope & ~state.columns.offline)
    batches, facts = batches_of(state, concerned, options.unmirrored)
    for batch in batches:
        for kind in KINDS[batch.mirror]:
            for member in np.flatnonzero(allowed(facts, batch, kind, options)).tolist():
                own = state.pnode[batch.rows[member]], state.snode[batch.rows[member]]
                nodes = targets[~np.isin(targets, own)] if kind.takes_node else np.array([NOWHERE])
                if len(nodes):
                    yield InstanceMove(facts, batch.take(np.repeat(member, len(nodes))), kind, nodes)
