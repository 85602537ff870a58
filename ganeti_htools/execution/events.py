"""Events of a run. Each event is reported before the run goes on."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.execution.run import Task


@dataclass(frozen=True, slots=True)
class Submitting:
    """Tasks that are about to be submitted."""

    tasks: Sequence[Task]


@dataclass(frozen=True, slots=True)
class Submitted:
    """Submitted tasks: they have numbers, or errors if Ganeti did not accept them."""

    tasks: Sequence[Task]


@dataclass(frozen=True, slots=True)
class News:
    """A task has a new status, or a new line in its log (``said``)."""

    task: Task
    said: str | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """The plan no longer fits the cluster. ``plan`` is the new plan, None if the run stops."""

    obstacle: str
    plan: Jobsets | None


@dataclass(frozen=True, slots=True)
class Away:
    """Ganeti cannot be asked or a node does not report, for a ``reason``; None when this is over."""

    reason: str | None


Event = Submitting | Submitted | News | Changed | Away
OnEvent = Callable[[Event], Awaitable[None]]
