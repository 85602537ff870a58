"""What the algorithms that place and move instances tell while they judge, to whoever wants to know.

The default listens to nothing, so a decision that nobody asks about pays for a few empty calls.
"""

from collections.abc import Sequence

from ganeti_htools.engine.allocation.candidate_pairs import CandidatePairs
from ganeti_htools.engine.allocation.lost_allocations import LostAllocations
from ganeti_htools.engine.redundancy.global_n1 import Check
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.state import RequestedInstance, State


class Reporter:
    """Is told what an algorithm judges. A listener overrides the methods for what it wants to know.

    Nodes are rows. States and arrays are the algorithm's own, which goes on to change them: a listener
    takes what it needs before it returns, and changes nothing.
    """

    def starting(self, state: State, asked: RequestedInstance, scope: Bools, rated: bool = True) -> None:
        """An instance is to get a place, by the score of the nodes in scope.

        If it is not ``rated``, lost allocations decide instead.
        """

    def trying(self, group: int, nodes: Ints, primary: int = NOWHERE) -> None:
        """These nodes of a group may be taken, no others of it; with a primary, as its secondary only."""

    def rejecting(self, nodes: Ints, why: str) -> None:
        """None of these nodes does, for the same reason."""

    def judged(self, nodes: Ints, trial: Trial, redundancy: Check | None = None) -> None:
        """A trial has a candidate for each of these nodes; ``redundancy`` still filters them."""

    def judged_pairs(self, pairs: CandidatePairs) -> None:
        """A new mirrored instance was tried on all pairs of nodes."""

    def judged_exchanges(self, state: State, nodes: Ints, trial: Trial) -> None:
        """An instance was tried on all pairs of these nodes instead of both its own.

        The trial has primaries by secondaries, a node with itself too. The state is the one tried on: from a
        lost primary the instance has failed over.
        """

    def judged_losses(self, losses: LostAllocations) -> None:
        """A new instance was tried on nodes with exclusive storage, or on all pairs of them."""

    def placed(self, nodes: Sequence[int]) -> None:
        """The instance has got these nodes, primary first."""

    def failed(self, why: str) -> None:
        """The instance has found no place."""


SILENT = Reporter()
