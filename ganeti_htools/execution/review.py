"""What is decided about the rest of a plan before each set of jobs."""

from collections.abc import Callable
from dataclasses import dataclass

from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.model.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Review:
    """Whether the rest of a plan fits the cluster: ``obstacle`` says why not, None if it does.

    ``plan`` is what is done instead; None if there is no other plan.
    """

    obstacle: str | None = None
    plan: Jobsets | None = None


# Called in a thread with the cluster, the rest of the plan and the number of moves made so far.
# May raise HtoolsError.
Check = Callable[[Cluster, Jobsets, int], Review]
