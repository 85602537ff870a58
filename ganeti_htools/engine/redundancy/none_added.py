"""Where nodes cannot be lost already: a placement must not add any."""

from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.redundancy.global_n1 import Check, Redundancy, assess
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import Bools, Ints
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance


@dataclass(frozen=True, slots=True)
class NoneAdded(Check):
    """A :class:`.global_n1.Check` that compares with the nodes that cannot be lost ``before``.

    ``fragile`` are these nodes.
    """

    before: Redundancy
    fragile: Bools

    def admits(self, asked: RequestedInstance, primaries: Ints, secondaries: Ints | None) -> Bools:
        """Nothing is ruled out from sums."""
        return np.ones(
            (len(primaries),) if secondaries is None else (len(primaries), len(secondaries)), np.bool_
        )

    def confirms(self, trial: Trial, suspects: list[int]) -> bool:
        """Whether all nodes that could be lost before can be lost afterwards."""
        placed = self.before.state.copy()
        settling.settle(placed, trial)
        return not (assess(placed, self.before.scope, PlacementOptions()).fragile() & ~self.fragile).any()

    def hopeless(self, suspects: list[int]) -> bool:
        """One failure says nothing of other candidates."""
        return False
