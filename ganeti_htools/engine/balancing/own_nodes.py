"""Changes of the nodes that instances leave, or on which their role changes."""

from collections.abc import Callable, Sequence

import numpy as np

from ganeti_htools.engine.balancing.batches import Batch, NodeFacts
from ganeti_htools.engine.balancing.effects import Effect, ScoreParts, added
from ganeti_htools.engine.balancing.relocate import own_node_changes
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.trial import NodeChange
from ganeti_htools.model.columns import Bools, Floats, Ints
from ganeti_htools.model.moves import MoveKind

BLOCK = 1 << 15  # instances in one computation
May = Callable[[Batch, MoveKind], Bools]  # selects the members that may move in this way at all


class OwnNodes:
    """Changes of the nodes of a batch's instances by moves of one kind.

    ``changes`` and ``squares`` are those of each spread (spreads by members), ``rest`` the change of all
    other components. ``may`` marks the members that may move in this way, ``free`` those of them that their
    own nodes do not prevent.
    """

    def __init__(self, spreads: int, members: int) -> None:
        self.changes, self.squares = np.zeros((spreads, members)), np.zeros((spreads, members))
        self.rest, self.may, self.free = np.zeros(members), *np.zeros((2, members), np.bool_)

    def put(self, members: Ints, effects: Sequence[Effect], may: Bools, fits: Bools) -> None:
        """Write the effects on some members."""
        self.may[members], self.free[members] = may, may & fits
        self.rest[members] = sum(effect.rest for effect in effects)
        changes, squares = added(effects, len(self.changes), len(members))
        self.changes[:, members], self.squares[:, members] = changes, squares

    def bounds(self, means: Floats, numbers: Floats) -> tuple[Floats, Floats, Floats]:
        """Compute the lowest and highest change of each variance, and the largest change of each sum."""
        changes, squares = self.changes, self.squares
        if not self.free.all():
            changes, squares = changes[:, self.free], squares[:, self.free]
        variances = (squares - 2 * means[:, np.newaxis] * changes) / numbers[:, np.newaxis]
        largest = np.maximum(changes.max(axis=1), -changes.min(axis=1))
        return variances.min(axis=1), variances.max(axis=1), largest


class OwnNodesByKind:
    """Changes of the nodes of a batch, for each kind of moves that it may make."""

    def __init__(
        self,
        facts: NodeFacts,
        parts: ScoreParts,
        batch: Batch,
        kinds: Sequence[MoveKind],
        force: bool,
        may: May,
    ) -> None:
        self.facts, self.parts, self.batch, self.force, self.may = facts, parts, batch, force, may
        size = len(batch.rows)
        self.kinds = {kind: OwnNodes(len(parts.leaders), size) for kind in kinds}
        everyone = np.arange(size)
        for start in range(0, size, BLOCK):
            self.refresh(everyone[start : start + BLOCK])

    def refresh(self, members: Ints) -> None:
        """Compute the changes of members of the batch anew."""
        batch = self.batch.take(members)
        effects: dict[NodeChange, Effect] = {}
        for kind, (touched, codes) in own_node_changes(self.facts, batch, self.kinds, self.force).items():
            for node in touched:
                if node not in effects:
                    effects[node] = self.parts.effect(node)
            may = self.may(batch, kind)
            self.kinds[kind].put(members, [effects[node] for node in touched], may, codes == FITS)
