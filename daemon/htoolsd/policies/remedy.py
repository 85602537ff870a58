"""Remedies: the things that policies do about a node group, and the bounds and plans of a remedy.

To add a remedy, write a module with a subclass of :class:`Remedy`, and put it into ``ORDER`` of
:mod:`htoolsd.policies.remedies`. A new policy also needs its table of settings in
:mod:`htoolsd.config.policies` and in ``Config``.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, NamedTuple, TypedDict, TypeVar

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.moves import as_carried_out
from ganeti_htools.model.state import State
from ganeti_htools.model.tags import PINNED
from ganeti_htools.model.wording import counted
from ganeti_htools.planning.plan import Execution, Progress, Proposal
from ganeti_htools.planning.view import View
from htoolsd.config.policies import PolicySettings, Reserve
from htoolsd.policies.memory import Budget
from htoolsd.policies.safety import in_order

S = TypeVar("S", bound=PolicySettings)


class GroupFacts(NamedTuple):
    """A node group for :attr:`Remedy.need`.

    ``state`` is of the whole cluster, ``scope`` selects the group's nodes. ``n1`` counts nodes that fail N+1.
    ``now`` is seconds of the epoch.
    """

    cluster: Cluster
    group: str
    state: State
    scope: Bools
    score: float
    n1: int
    now: float = 0.0


class Need(NamedTuple):
    """Need for a remedy in a group: begin now, stop now, or neither (hysteresis).

    ``why`` is the reason in words. Rounds count for one ``cause``, the kind of the reason, or for each of the
    ``nodes`` that are the reason.
    """

    begin: bool
    stop: bool
    why: str
    cause: str = ""
    nodes: tuple[str, ...] = ()


class CommonOptions(TypedDict):
    """Options that every tool has."""

    view: View
    execution: Execution


class PlanBounds(NamedTuple):
    """Bounds of a plan for ``group``, besides the settings.

    ``n1`` counts the group's nodes that fail N+1. ``room`` is the budget of the plan, ``reserve`` stays free
    on each node. ``quiet`` are the other groups in which nothing goes on. The plan leaves alone ``resting``
    instances (moved lately), ``switched`` nodes (powered or returned lately) and ``claimed`` nodes (with
    resources that somebody has claimed). ``now`` is seconds of the epoch. ``hot`` nodes have been
    the reason long enough. ``cool`` is the share of CPUs that worst hours of nodes may use; 0 for any.
    """

    group: str
    n1: int = 0
    room: Budget = Budget(0, 0)
    reserve: Reserve = Reserve(0.0)
    resting: tuple[str, ...] = ()
    switched: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()
    quiet: tuple[str, ...] = ()
    now: int = 0
    hot: tuple[str, ...] = ()
    cool: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the bounds as JSON, by the names of the fields."""
        return {**self._asdict(), "room": self.room._asdict(), "reserve": self.reserve._asdict()}


@dataclass(frozen=True, slots=True)
class RemedyPlan:
    """A plan of a remedy for one group.

    ``options`` are those of the tool, ``proposal`` is the tool's plan: ``moves`` that copy ``mib`` MiB.
    ``after`` is the group's score afterwards. ``nodes`` are powered down or up; ``stops`` counts instances
    that are stopped while they are copied. ``repairs`` are those of harep in words. ``why`` is the reason of
    a plan that improves no score. ``refusal`` is the reason not to carry the plan out, if there is one.
    """

    options: Any
    proposal: Proposal
    moves: int = 0
    mib: int = 0
    after: float | None = None
    nodes: tuple[str, ...] = ()
    stops: int = 0
    repairs: tuple[str, ...] = ()
    why: str = ""
    refusal: str | None = None

    @property
    def summary(self) -> str:
        """The nodes, moves or repairs, and MiB in words."""
        moves = ", ".join(self.repairs) or counted(self.moves, "move")
        parts = [moves, f"{self.mib} MiB"]
        if self.nodes:
            parts.insert(0, f"{counted(len(self.nodes), 'node')} ({', '.join(self.nodes)})")
        if self.stops:
            parts.append(f"stops {counted(self.stops, 'instance')}")
        return ", ".join(parts) + (f": {self.why}" if self.why else "")

    def refused(self, why: str | None) -> "RemedyPlan":
        """Return the plan with a refusal (None: without one)."""
        return replace(self, refusal=why)

    def moves_to_json(self) -> list[dict[str, Any]]:
        """Return the moves as JSON; none if the plan is refused."""
        jobs = [job for jobs in self.proposal.jobs for job in jobs if job.step and self.refusal is None]
        return [
            {
                "instance": step.instance,
                "move": as_carried_out(step.title, job.commands),
                "from": list(step.was),
                "to": list(step.now),
            }
            for job in jobs
            if (step := job.step)
        ]


@dataclass(frozen=True, slots=True)
class Remedy(ABC, Generic[S]):
    """One thing that a policy with these settings does about a node group. The daemon needs nothing else.

    * ``title``: its name for people; ``policy``: the table of its settings; ``tool``: the tool that plans.
    * ``yields``: leave a group alone where an earlier remedy has just acted or would act.
    * ``needs_moves = False``: worth doing even when the budget for moves is spent.
    * ``beside_drained``: acts although nodes are drained or in maintenance.
    * ``resumes``: can take over nodes that an interrupted hsqueeze has left drained or offline.
    """

    title: ClassVar[str]
    policy: ClassVar[str]
    tool: ClassVar[str]
    yields: ClassVar[bool] = False
    needs_moves: ClassVar[bool] = True
    beside_drained: ClassVar[bool] = False
    resumes: ClassVar[bool] = False

    settings: S

    @abstractmethod
    def need(self, facts: GroupFacts) -> Need | None:
        """Return the need in a group, None if there is nothing to report. Raises HtoolsError."""

    @abstractmethod
    def plan(self, cluster: Cluster, bounds: PlanBounds, progress: Progress) -> RemedyPlan:
        """Plan for a group. Raises HtoolsError."""

    def plan_in_order(self, cluster: Cluster, bounds: PlanBounds, progress: Progress) -> RemedyPlan:
        """Plan for a group, one move per jobset. Raises HtoolsError."""
        plan = self.plan(cluster, bounds, progress)
        return replace(plan, proposal=in_order(plan.proposal))

    def common_options(self, cluster: Cluster, resting: Iterable[str] = ()) -> CommonOptions:
        """Return the options of every tool: the instances that stay, and how the plan is carried out.

        Instances stay that are excluded, pinned, or moved lately (``resting``).
        """
        tags = {instance.name: instance.tags for instance in cluster.instances}
        excluded = [name for name in self.settings.exclude_instances if name in tags]
        staying = sorted({name for name in tags if PINNED in tags[name]} | tags.keys() & {*resting})
        reason, parallel = f"policy {self.policy} of htoolsd", self.settings.parallel
        execution = Execution(on_change="stop", reason=reason, parallel=parallel)
        return {"view": View(exclude_instances=(*excluded, *staying)), "execution": execution}
