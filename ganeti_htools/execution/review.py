"""Review of the remaining jobs of a plan, before each jobset."""

from collections.abc import Callable
from dataclasses import dataclass

from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.model.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Review:
    """Result of a review.

    ``obstacle`` says why the remaining jobs do not fit the cluster, None if they fit. ``plan`` has the jobs
    to carry out instead, None to stop the run.
    """

    obstacle: str | None = None
    plan: Jobsets | None = None


# Called in a thread with the cluster, the remaining jobs and the number of moves made so far. May raise
# HtoolsError.
Check = Callable[[Cluster, Jobsets, int], Review]

Say = Callable[..., None]  # takes lines of a report
