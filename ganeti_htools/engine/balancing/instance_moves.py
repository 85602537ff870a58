"""Single moves of instances, each kind of move tried on all its new nodes at once."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.balancing.balance import allowed
from ganeti_htools.engine.moving.traffic import copied
from ganeti_htools.engine.rules.batches import Batch, NodeFacts, batches_of
from ganeti_htools.engine.rules.relocate import nodes_after, relocate
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.moves import KINDS, MoveKind
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State


@dataclass(frozen=True, slots=True)
class InstanceMove:
    """A kind of move of a member of a batch to each of the ``targets`` (rows) that are new to it.

    Nothing is computed before it is asked for, since most moves are never tried.
    """

    facts: NodeFacts
    batch: Batch
    member: int
    kind: MoveKind
    targets: Ints

    @property
    def index(self) -> int:
        return int(self.batch.rows[self.member])

    @property
    def nodes(self) -> Ints:
        """The new nodes (rows), NOWHERE for a failover."""
        state = self.facts.state
        own = state.pnode[self.index], state.snode[self.index]
        return self.targets[~np.isin(self.targets, own)] if self.kind.takes_node else np.array([NOWHERE])

    @property
    def volume(self) -> int:
        """The disks and memory (MiB) that the move copies."""
        return sum(copied(self.kind, self.facts.state.cluster.instances[self.index]))

    def trial(self, options: BalancingOptions) -> Trial:
        state, nodes = self.facts.state, self.nodes
        new, same = (
            nodes if self.kind.takes_node else None,
            self.batch.take(np.repeat(self.member, len(nodes))),
        )
        touched, codes = relocate(self.facts, same, self.kind, options.ignore_soft_errors, new)
        places = nodes_after(state, same, self.kind, new)
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
                yield InstanceMove(facts, batch, member, kind, targets)
