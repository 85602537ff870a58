"""What is known of lost nodes before anything is placed, and what they bear more."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ganeti_htools.engine.redundancy.arrivals import Arrivals, need_of
from ganeti_htools.engine.redundancy.lost_nodes import LostNode
from ganeti_htools.engine.redundancy.node_loss import can_be_lost, failed_over
from ganeti_htools.engine.redundancy.sums import Sums
from ganeti_htools.model.columns import NOWHERE, Bools, Ints, sorted_unique
from ganeti_htools.model.state import RequestedInstance

# Up to so many nodes, looking at each lost node by itself takes no longer than sums about all.
SMALL = 16

# Up to so many nodes, the states after the failovers off each of them are remembered.
FEW = 64


@dataclass(frozen=True, slots=True)
class KnownLosses(Sums):
    """The sums, and the losses that were simulated.

    ``tried`` tells of nodes whether a loss that was simulated is survived, and for NOWHERE whether all are.
    ``lost`` are lost nodes once their mirrored instances have failed over, None where this cannot be
    simulated. ``concerned`` are the nodes that a new mirrored instance leaves unsettled, by what it needs and
    its primary.
    """

    tried: dict[int, bool] = field(default_factory=dict)
    lost: dict[int, LostNode | None] = field(default_factory=dict)
    arrivals: Arrivals = field(default_factory=Arrivals)
    concerned: dict[tuple[Any, int], list[int]] = field(default_factory=dict)

    def _survived(self, node: int) -> bool:
        """Whether the loss of a node is, as it is."""
        lost = self._lost(node)
        return can_be_lost(self.state, node, self.scope) if lost is None else lost.survived()

    def _lost(self, node: int) -> LostNode | None:
        """A lost node, remembered on clusters with few nodes."""
        if node in self.lost:
            return self.lost[node]
        lost = failed_over(self.state, node, self.scope, self.arrivals, list(self.lost.values()))
        if len(self.free) <= FEW:
            self.lost[node] = lost
        return lost

    def _quick(self, asked: RequestedInstance) -> bool:
        """Whether losses with a new instance are simulated on what is known of those without it."""
        if asked.forthcoming or len(asked.tags) or len(self.free) > FEW:
            return False
        return asked.spindles is not None or not self.state.columns.excl_stor.any()

    def foresees(self, asked: RequestedInstance) -> bool:
        """Whether :meth:`bears_in_turn` tells of such instances."""
        columns = self.state.columns
        spindles = columns.excl_stor.any() and (asked.local or len(self.mirrored))
        return self._quick(asked) and not asked.mirrored and not columns.shape.binds and not spindles

    def learn(self, several: Sequence[RequestedInstance]) -> None:
        """Prepare for questions about instances that differ in amounts only."""
        lost = next(filter(None, self.lost.values()), None)
        if lost is not None:
            lost.learn(several)

    def refused(
        self, sizes: Sequence[RequestedInstance], which: Ints, node: int, primaries: Ints, secondaries: Ints
    ) -> Bools:
        """With which pairs, each for an instance of ``which`` size, a node can certainly not be lost."""
        from ganeti_htools.engine.redundancy.losses_in_turn import comparable, survived_with_pairs

        lost = self._lost(node) if all(map(self._quick, sizes)) else None
        if lost is None or not comparable([lost]):
            return np.zeros(len(primaries), np.bool_)
        return ~survived_with_pairs(lost, sizes, which, primaries, secondaries)

    def rules_out(self, asked: RequestedInstance, primaries: Ints, secondaries: Ints | None) -> bool:
        """Whether no state with a new instance is redundant, on whichever of some nodes or pairs it is.

        Then none is with a larger one either, nor with more instances besides.
        """
        if secondaries is None:
            secondaries = np.full_like(primaries, NOWHERE)
            good = self.admits(asked, primaries, None)
        else:
            everyone = np.arange(len(self.free))
            good = self.admits(asked, everyone, everyone)[primaries, secondaries]
        for primary in sorted_unique(primaries[good]).tolist():
            lost = self.unsettled(asked, primary).tolist()
            for secondary in secondaries[good & (primaries == primary)].tolist():
                missing = self._without_room(asked, primary, secondary, lost) is not None
                if not missing and not self._unplaceable(asked, primary, secondary, lost):
                    return False
        return True

    def _unplaceable(
        self, asked: RequestedInstance, primary: int, secondary: int, nodes: Sequence[int]
    ) -> bool:
        """Whether some node cannot be lost with a new mirrored instance, wherever others go then."""
        lost = map(self._lost, nodes) if asked.mirrored and self._quick(asked) else ()
        return any(each is not None and each.unplaceable_with(asked, primary, secondary) for each in lost)

    def _survived_with(
        self, asked: RequestedInstance, primary: int, secondary: int, node: int
    ) -> bool | None:
        """Whether the loss of a node is survived with a new instance, None if that has to be tried."""
        lost = self._lost(node)
        return None if lost is None else lost.survived_with(asked, primary, secondary)

    def bears_in_turn(self, asked: RequestedInstance, primaries: Sequence[int]) -> int:
        """How many equal new instances it certainly bears that come to these primaries, one after the other.

        It is asked before they come.
        """
        from ganeti_htools.engine.redundancy.losses_in_turn import comparable, survived_in_turn

        if self.missing:
            return 0
        free, concerned = self.free.copy(), self.looked & (self.displaced.number > 0)
        np.subtract.at(free, primaries, asked.record_mem)
        concerned[primaries] = self.looked[primaries]
        lost = [self._lost(node) for node in np.flatnonzero(concerned).tolist()]
        known = [each for each in lost if each is not None]
        if (free <= self.expected).any() or len(known) < len(lost):
            return 0
        together = [(each, each.placed(asked, primaries)) for each in known]
        doubtful = [each for each, then in together if then is None or not then.surely_survived()]
        if not doubtful:
            return len(primaries)
        if comparable(doubtful):
            return survived_in_turn(doubtful, asked, primaries)
        return self.bears_in_turn(asked, primaries[: len(primaries) // 2]) if len(primaries) > 1 else 0

    def _concerned(self, asked: RequestedInstance, primary: int) -> list[int]:
        """Nodes of which it is not known whether their loss is survived with a new instance."""
        if asked.mirrored:  # fewer losses than below, for what fails over takes time
            key = need_of(asked), primary
            if key not in self.concerned:
                self.concerned[key] = self.unsettled(asked, primary).tolist()
            return self.concerned[key]
        if len(self.free) > SMALL:
            rows = self.unsettled(asked, primary)
        else:
            concerned = self.looked & (self.displaced.number > 0)
            concerned[primary] = self.looked[primary]
            rows = np.flatnonzero(concerned)
        nodes: list[int] = rows.tolist()
        return nodes
