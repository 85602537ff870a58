"""What a policy does about a node group, and when."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State
from ganeti_htools.model.tags import PINNED
from ganeti_htools.planning import view
from ganeti_htools.planning.proposal import Progress, Proposal
from htoolsd.policies.bounds import Bounds
from htoolsd.policies.conditions import Need
from htoolsd.policies.settings import Settings


class Facts(NamedTuple):
    """A node group of a cluster: its name, the cluster's state and the group's nodes in it, the score of the
    group, and how many of its nodes fail N+1.
    """

    cluster: Cluster
    group: str
    state: State
    scope: Bools
    score: float
    n1: int


@dataclass(frozen=True, slots=True)
class Planned:
    """What would be done in a node group: the options of the tool and its proposal, how many moves these are
    and how many MiB they copy. ``after`` is the score of the group then, ``nodes`` those that are powered
    down or up, ``stops`` how many instances are stopped while they are copied. ``refusal`` is why it is not
    worth doing, if so.
    """

    options: Any
    proposal: Proposal
    moves: int
    mib: int
    after: float | None = None
    nodes: tuple[str, ...] = ()
    stops: int = 0
    refusal: str | None = None

    @property
    def summary(self) -> str:
        """What it comes to, in words."""
        powered = f"{len(self.nodes)} nodes ({', '.join(self.nodes)}), " if self.nodes else ""
        stops = f", {self.stops} instances are stopped for it" if self.stops else ""
        return f"{powered}{self.moves} moves, {self.mib} MiB{stops}"

    def refused(self, why: str | None) -> "Planned":
        """The same, not worth doing for a reason; if there is one."""
        return replace(self, refusal=why)

    def told(self) -> list[dict[str, Any]]:
        """The moves as JSON; none if it is not worth doing."""
        steps = (job.step for jobs in self.proposal.jobs for job in jobs if job.step)
        return [
            {"instance": step.instance, "move": step.title, "from": list(step.was), "to": list(step.now)}
            for step in steps
            if self.refusal is None
        ]


@dataclass(frozen=True, slots=True)
class Remedy:
    """Something that a policy does: ``title`` says what, ``policy`` is the table of its settings, ``tool``
    the one whose plans it makes.

    ``need`` tells whether there is a reason for it in a group, None where there is nothing to tell of;
    ``planned`` what would be done there. Both are pure and may raise HtoolsError. One that ``yields`` leaves
    groups alone where others have just acted, or would act; one without ``moves`` is worth something though
    the budgets allow none; one that ``resumes`` knows what to do with nodes that an hsqueeze has left.
    """

    title: str
    policy: str
    tool: str
    need: Callable[[Facts, Any], Need | None]
    planned: Callable[[Cluster, Any, Bounds, Progress], Planned]
    yields: bool = False
    moves: bool = True
    resumes: bool = False


def staying(cluster: Cluster, settings: Settings, resting: Iterable[str]) -> tuple[str, ...]:
    """The instances that a policy leaves where they are: excluded, pinned, or moved lately.

    Raises HtoolsError for an exclusion that names none.
    """
    try:
        excluded = view.full_names(cluster, settings.exclude_instances)
    except HtoolsError as error:
        raise HtoolsError(f"exclude_instances: {error}") from None
    pinned = {instance.name for instance in cluster.instances if PINNED in instance.tags}
    here = {instance.name for instance in cluster.instances} & {*resting}
    return (*excluded, *sorted(pinned | here))
