"""Events of the algorithms that place and move instances, for whoever explains decisions.

The default reporter ignores all events, so a decision without explanation pays for a few empty calls.
"""

from collections.abc import Sequence

from ganeti_htools.engine.allocation.candidate_pairs import CandidatePairs
from ganeti_htools.engine.allocation.lost_allocations import LostAllocations
from ganeti_htools.engine.redundancy.checks import Check
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.state import RequestedInstance, State


class Reporter:
    """The receiver of events of an algorithm. A subclass overrides the methods of interest.

    Nodes are rows. States and arrays belong to the algorithm, which goes on to change them: a reporter copies
    what it needs before it returns, and changes nothing.
    """

    def starting(self, state: State, asked: RequestedInstance, scope: Bools, rated: bool = True) -> None:
        """An instance is going to get a place, by the score of the nodes in scope.

        If it is not ``rated``, lost allocations decide instead.
        """

    def trying(self, group: int, nodes: Ints, primary: int = NOWHERE) -> None:
        """Only these nodes of a group may be taken; with a primary, as its secondary only."""

    def rejecting(self, nodes: Ints, why: str) -> None:
        """All of these nodes are refused for the same reason."""

    def judged(self, nodes: Ints, trial: Trial, redundancy: Check | None = None) -> None:
        """A trial has a candidate for each of these nodes; ``redundancy`` is still going to filter them."""

    def judged_pairs(self, pairs: CandidatePairs) -> None:
        """A new mirrored instance was tried on all pairs of nodes."""

    def judged_exchanges(self, state: State, nodes: Ints, trial: Trial) -> None:
        """An instance was tried on all pairs of these nodes instead of both its own.

        The trial has primaries by secondaries, also a node with itself. If the primary is lost, the instance
        has failed over in ``state``.
        """

    def judged_losses(self, losses: LostAllocations) -> None:
        """A new instance was tried on nodes with exclusive storage, or on all pairs of them."""

    def placed(self, nodes: Sequence[int]) -> None:
        """The instance has got these nodes, primary first."""

    def failed(self, why: str) -> None:
        """The instance has found no place."""


SILENT = Reporter()
