"""Results of trying candidates for a new instance, in a node group or on a whole cluster."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ganeti_htools.engine.rules.node_rules import FAIL, FITS, Codes
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import Floats
from ganeti_htools.model.types import Fail

# Number of candidates that are tried for redundancy one by one. Each try is needed: where room is scarce, the
# new instance may change the order of the others so that all find a place. After so many failures two
# assumptions end the search:
# * A node whose loss is not survived without the new instance is not survived with it.
# * The secondary does not matter, since it needs no memory unless its primary is lost. One pair speaks for
#   all pairs with the same primary.
PATIENCE = 64


# Metric of places on exclusive storage: later instances lost for each interval of the instance policy,
# largest disks first, and the remaining disk (MiB).
Metric = tuple[tuple[int, ...], int]


@dataclass(frozen=True, slots=True)
class Solution:
    """The number of candidates that fit, the reasons against others, and the chosen trial.

    ``metric`` is the minimised figure, ``trial`` has the one candidate to settle; both None if no candidate
    fits.
    """

    failures: dict[Fail, int]
    successes: int
    metric: Any = None
    trial: Trial | None = None

    @property
    def nodes(self) -> tuple[int, ...]:
        """Rows of the chosen nodes, primary first."""
        return () if self.trial is None else self.trial.nodes


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """The result of trying a node group: a solution, or the error that prevented it.

    ``unconnected`` groups lack a network of the instance.
    """

    group: int
    solution: Solution | None = None
    error: str = ""
    unconnected: bool = False


def count_failures(codes: Codes, not_redundant: int) -> dict[Fail, int]:
    """Count the candidates that each reason refused, with those that are not redundant."""
    counts = np.bincount(codes[codes != FITS], minlength=len(FAIL) + 1)
    failures = {fail: int(counts[code]) for code, fail in FAIL.items()}
    failures[Fail.N1] += not_redundant
    return {fail: number for fail, number in failures.items() if number}


def last_lowest(scores: Floats) -> int:
    """Return the position of the lowest score, of equal ones the last."""
    return int(np.flatnonzero(scores == scores.min())[-1])
