"""Pairs of nodes for a new mirrored instance."""

from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.allocation.solution import PATIENCE
from ganeti_htools.engine.redundancy.global_n1 import Check
from ganeti_htools.engine.rules import placements
from ganeti_htools.engine.rules.node_rules import Codes
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import Bools, Floats, Ints
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

    @property
    def few(self) -> bool:
        """Whether all pairs are tried before patience ends."""
        return int(np.count_nonzero(self.fits)) <= PATIENCE

    def trial(self, rows: Ints, columns: Ints) -> Trial:
        """Try some pairs, by their positions."""
        primaries, secondaries = self.primaries[rows], self.secondaries[columns]
        peer_mem = self.state.peers[primaries, secondaries]
        return placements.allocate_pairs(self.state, self.asked, primaries, secondaries, peer_mem, self.force)

    def confirmed(self, p: int, s: int, suspects: list[int]) -> bool:
        """Whether the cluster is redundant with a pair, by its position; see :class:`.Check`."""
        if self.redundancy is None:
            return True
        nodes = int(self.primaries[p]), int(self.secondaries[s])
        known = self.redundancy.bears(self.asked, *nodes, suspects, few=self.few)
        if known is None:
            known = self.redundancy.confirms(self.trial(np.array([p]), np.array([s])), suspects)
        return known
