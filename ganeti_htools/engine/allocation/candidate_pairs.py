"""Pairs of nodes for a new mirrored instance."""

from dataclasses import dataclass

from ganeti_htools.engine.redundancy.checks import Check
from ganeti_htools.engine.rules import placements
from ganeti_htools.engine.rules.node_rules import Codes
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints
from ganeti_htools.model.state import RequestedInstance, State


@dataclass(frozen=True, slots=True)
class CandidatePairs:
    """A new mirrored instance on all pairs of nodes; the arrays are primaries by secondaries.

    * ``codes``: reasons against a pair, FITS also for a node with itself.
    * ``fits``: pairs of two nodes without a reason against them, except perhaps redundancy.
    * ``admitted``: those pairs that redundancy does not rule out at once.
    * ``scores``: infinite for pairs that do not fit.
    """

    state: State
    asked: RequestedInstance
    primaries: Ints
    secondaries: Ints
    codes: Codes
    fits: Bools
    admitted: Bools
    scores: Floats
    redundancy: Check | None
    force: bool

    def trial(self, rows: Ints, columns: Ints) -> Trial:
        """Try some pairs, by their positions."""
        primaries, secondaries = self.primaries[rows], self.secondaries[columns]
        peer_mem = self.state.peers[primaries, secondaries]
        return placements.allocate_pairs(self.state, self.asked, primaries, secondaries, peer_mem, self.force)

    def fatal_loss(self, p: int, s: int) -> int:
        """The node whose loss is fatal with a pair (by its position); NOWHERE if every node can be lost."""
        if self.redundancy is None:
            return NOWHERE
        return self.redundancy.fatal_loss(self.asked, int(self.primaries[p]), int(self.secondaries[s]))
