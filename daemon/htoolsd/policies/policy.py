"""What a policy is, what it would do, and what it has decided."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.state import State
from ganeti_htools.planning.proposal import Progress, Proposal
from htoolsd.policies.conditions import Situation
from htoolsd.policies.memory import Room
from htoolsd.policies.settings import Settings


@dataclass(frozen=True, slots=True)
class Planned:
    """What a policy would do in a node group: the options of the tool and its proposal, how many moves these
    are and how many MiB they copy. ``refusal`` is why it is not worth doing, if so.
    """

    options: Any
    proposal: Proposal
    moves: int
    mib: int
    refusal: str | None = None

    def told(self) -> list[dict[str, Any]]:
        """The moves as JSON; none if it is not worth doing."""
        steps = (job.step for jobs in self.proposal.jobs for job in jobs if job.step)
        return [
            {"instance": step.instance, "move": step.title, "from": list(step.was), "to": list(step.now)}
            for step in steps
            if self.refusal is None
        ]


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy: the tool whose plans it makes, and two pure functions.

    ``measured`` tells the score of a node group and how many of its nodes fail N+1; ``planned`` what the
    policy would do there, without the instances that rest. It may raise HtoolsError.
    """

    name: str
    tool: str
    measured: Callable[[State, Bools], tuple[float, int]]
    planned: Callable[[Cluster, Settings, Situation, Iterable[str], Room, Progress], Planned]


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about a node group (empty: about none, for the cluster could not be judged), and why.

    ``outcome`` is "held back", "would act", "proposed", "begun" or "failed"; ``plan`` the id of the plan that
    was made, ``moves`` what it does. ``since`` tells how the last moves that were only computed (in the mode
    shadow) compare with what came: the score that was expected, and what has moved without them.
    """

    time: float
    policy: str
    mode: str
    trigger: str
    group: str
    outcome: str
    reason: str
    score: Mapping[str, float | None]
    plan: str | None = None
    moves: tuple[Mapping[str, Any], ...] = ()
    since: Mapping[str, Any] | None = None
