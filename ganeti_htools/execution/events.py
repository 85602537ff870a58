"""What happens while a plan is carried out. Each event is reported before anything else happens."""

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
    """Tasks that have been submitted: they have numbers, or errors where Ganeti did not take them."""

    tasks: Sequence[Task]


@dataclass(frozen=True, slots=True)
class News:
    """A task has another status, or says something."""

    task: Task
    said: str | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """The plan did not fit the cluster any more. ``plan`` is the new one, None if there is none."""

    obstacle: str
    plan: Jobsets | None


@dataclass(frozen=True, slots=True)
class Away:
    """Ganeti cannot be asked, or a node does not report, as ``reason`` says. None: that is over."""

    reason: str | None


Event = Submitting | Submitted | News | Changed | Away
OnEvent = Callable[[Event], Awaitable[None]]
