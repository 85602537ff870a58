"""The protocol of planning tools: typed options, a plan, its description, its jobs and its review.

A planning tool is one module of this package, with a subclass of :class:`ToolOptions`, a subclass of
:class:`ToolPlan`, and a :class:`Tool` that :mod:`.tools` lists. The command line, the daemon and its policies
need nothing else. They make a plan with :meth:`Tool.plan`, or restore another's plan with
:meth:`Tool.restore`. Then they carry out its jobs, and review the remaining jobs before each jobset.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

from ganeti_htools import machine
from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.execution.review import Check, Review, Say
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.state import State
from ganeti_htools.planning import view
from ganeti_htools.planning.view import View

if TYPE_CHECKING:
    from ganeti_htools.execution.run import Run  # loads the LUXI client

Progress = Callable[[str], None]  # called often with the progress of planning; may raise to give up
ProgressContext = Callable[[], AbstractContextManager[Progress]]  # shows progress while a plan is made
OnChange = Literal["replan", "stop"]
Priority = Literal["low", "normal", "high"]

UNEXPECTED = "htoolsd's description of the plan has an unexpected form"


@dataclass(frozen=True, slots=True)
class Execution:
    """Options of carrying out a plan.

    * ``on_change``: replan or stop when the remaining plan no longer fits the cluster.
    * ``wait_for_nodes``: wait for nodes that are in use but do not report.
    * ``reason``, ``priority``: reason trail and priority of the jobs.
    * ``parallel``: the largest number of unfinished jobs; 0 for no limit.
    """

    on_change: OnChange = "replan"
    wait_for_nodes: bool = False
    reason: str | None = None
    priority: Priority | None = None
    parallel: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """Options of every planning tool; subclasses add their own. All options have defaults."""

    view: View = field(default_factory=View)
    execution: Execution = field(default_factory=Execution)

    def sparing(self, _claims: Mapping[str, Collection[str]]) -> Self:
        """Return these options for a plan that must not power down these nodes: they have these claims."""
        return self

    def at_speeds(self, _measured: Mapping[str, int]) -> Self:
        """Return these options with measured speeds of copying (Mbit/s), by disk template."""
        return self

    def search_seconds(self, _groups: int) -> float:
        """Return the longest time of the search on a cluster with so many groups; 0 without a given time."""
        return 0.0


O = TypeVar("O", bound=ToolOptions)  # noqa: E741
P = TypeVar("P", bound="ToolPlan[Any]")


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan to hand over: all that is needed to show it and to carry it out.

    * ``purpose``: for example "rebalancing".
    * ``groups``: names of the node groups in which the plan may move instances.
    * ``score``: the scores before and after, which may be infinite.
    * ``cost``: numbers of moves and MiB to copy, as JSON.
    * ``found``: description as JSON, from which :meth:`Tool.restore` makes the same plan.
    * ``review``: makes the check of the remaining jobs (:meth:`Plan.review`).
    """

    purpose: str
    groups: tuple[str, ...]
    jobs: Jobsets
    score: dict[str, float]
    cost: dict[str, Any]
    found: dict[str, Any]
    review: Callable[[OnChange, Say], Check]


@contextmanager
def silent_progress() -> Iterator[Progress]:
    """Ignore progress."""
    yield lambda _text: None


@dataclass(frozen=True)
class ToolPlan(ABC, Generic[O]):
    """A tool's plan for a state of the cluster. ``options`` are the options that it was made with."""

    state: State
    options: O

    @property
    @abstractmethod
    def purpose(self) -> str:
        """Purpose of the jobs, for their comments."""

    @property
    @abstractmethod
    def groups(self) -> tuple[str, ...]:
        """Names of the node groups in which the plan may move instances."""

    @abstractmethod
    def score(self) -> dict[str, float]:
        """Compute the scores ``before`` and ``after`` the plan."""

    @abstractmethod
    def cost(self) -> dict[str, Any]:
        """Add up what the moves cost, as JSON (:func:`.jobsets.cost`)."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Describe the plan as JSON, from which :meth:`Tool.restore` makes the same plan."""

    @abstractmethod
    def jobs(self) -> Jobsets:
        """Make the jobs that carry out the plan."""

    def review(self, on_change: OnChange, say: Say, progress: ProgressContext = silent_progress) -> Check:
        """Make a function that checks whether the remaining jobs fit the present cluster.

        If they do not fit and ``on_change`` is "replan", the check plans anew and reports that to ``say``.
        """
        plan, before = self, 0  # the present plan, and the moves made before it

        def check(cluster: Cluster, rest: Jobsets, made: int) -> Review:
            nonlocal plan, before
            state = plan.present_state(cluster)
            obstacle = plan.obstacle(state, rest)
            if obstacle is None:
                return plan.confirm(state, rest)
            if on_change == "stop":
                return Review(obstacle, plan.remainder(state, rest))
            say(f"The plan does not fit the cluster any more: {obstacle}", "Planning anew...")
            with progress() as live:
                plan, before = plan.replan(state, rest, made - before, live), made
            sets = plan.jobs()
            titles = [f"  {job.title}" for jobs in sets for job in jobs]
            say(f"New plan: {plan.purpose}" if titles else "New plan: nothing to do", *titles)
            return Review(obstacle, sets)

        return check

    def present_state(self, cluster: Cluster) -> State:
        """Derive the state of the present cluster as the options show it. Raises HtoolsError."""
        return view.state_of(cluster, self.options.view)

    @abstractmethod
    def obstacle(self, state: State, rest: Jobsets) -> str | None:
        """Return why the remaining jobs do not fit a state; None if they do.

        Raises HtoolsError if the run has to stop.
        """

    @abstractmethod
    def replan(self, state: State, rest: Jobsets, made: int, progress: Progress) -> Self:
        """Plan anew for the rest, after so many moves of this plan. Raises HtoolsError."""

    def confirm(self, _state: State, _rest: Jobsets) -> Review:
        """Review remaining jobs that fit."""
        return Review()

    def remainder(self, _state: State, _rest: Jobsets) -> Jobsets | None:
        """Return what can still be done of jobs that do not fit, without a new plan; None to stop."""
        return None

    def proposal(self) -> Proposal:
        """Return the plan in the form in which it is handed over."""
        return Proposal(
            self.purpose, self.groups, self.jobs(), self.score(), self.cost(), self.describe(), self.review
        )


@dataclass(frozen=True, slots=True)
class Tool(Generic[O, P]):
    """A tool that plans.

    * ``options``: a dataclass with defaults.
    * ``state_of``: the cluster as the tool plans for it. Raises HtoolsError for unknown names.
    * ``plan``: makes a plan for such a state. Raises HtoolsError.
    * ``remake``: makes a plan again from its description. Raises DataError if the cluster does not allow it.
    """

    name: str
    options: type[O]
    state_of: Callable[[Cluster, O], State]
    plan: Callable[[State, O, Progress], P]
    remake: Callable[[State, O, Mapping[str, Any]], P]

    def propose(self, cluster: Cluster, options: O, progress: Progress) -> Proposal:
        """Make a plan for a cluster. Raises HtoolsError."""
        return self.plan(self.state_of(cluster, options), options, progress).proposal()

    def restore(self, state: State, options: O, found: Mapping[str, Any]) -> P:
        """Make a plan again from its description. Raises DataError if the description does not fit."""
        try:
            return self.remake(state, options, found)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise DataError(UNEXPECTED) from None


def statement(tool: str, plan: ToolPlan[Any], cluster: Cluster) -> dict[str, Any]:
    """Describe a plan as the judge of plans reads it (``hcheck --plan``), with a digest of its cluster."""
    from ganeti_htools.backends.text import digest  # only reports need these
    from ganeti_htools.execution.record import job_to_json
    from ganeti_htools.planning.options import to_json

    jobs = plan.jobs()
    return {
        "tool": tool,
        "options": to_json(plan.options),
        "cluster": digest(cluster),
        "groups": list(plan.groups),
        "score": plan.score(),
        "cost": plan.cost(),
        "room": room_of(jobs),
        "jobsets": [
            [job_to_json(job) | ({"score": job.step.score} if job.step else {}) for job in jobset]
            for jobset in jobs
        ],
    }


def room_of(jobs: Jobsets) -> list[str]:
    """Return the nodes of the new instance for which jobs make room, if any."""
    rows = [job.room for jobset in jobs for job in jobset if job.room is not None]
    return [node for node in (rows[0].pnode, rows[0].snode) if node] if rows else []


def new_run(tool: str, purpose: str, jobs: Jobsets, execution: Execution) -> "Run":
    """Make a run, not begun yet, of a tool's jobs."""

    from ganeti_htools.execution.run import Run
    from ganeti_htools.luxi.opcodes import PRIORITIES, Signature
    from ganeti_htools.version import title

    called = title(tool)
    signature = Signature(
        source=tool,
        reason=execution.reason if execution.reason is not None else f"{called} called",
        purpose=f"{purpose} via {called}",
        run=machine.random_bytes(6).hex(),
        priority=PRIORITIES[execution.priority or "normal"],
    )
    return Run(signature, jobs, parallel=execution.parallel)
