"""What a tool would do with a cluster, in a form that can be handed over and carried out by somebody else."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ganeti_htools.backends.haskell import show
from ganeti_htools.engine.balancing.balance import Step
from ganeti_htools.engine.balancing.recheck import named, retrace
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.moves import MoveKind, NamedStep
from ganeti_htools.model.state import State

if TYPE_CHECKING:
    from ganeti_htools.execution.jobs import Jobsets
    from ganeti_htools.execution.review import Check
    from ganeti_htools.execution.run import Run
    from ganeti_htools.execution.wording import Say

Progress = Callable[[str], None]  # called often, with how far the plan is; may raise to give up
OnChange = Literal["replan", "stop"]
Priority = Literal["low", "normal", "high"]
Plan = TypeVar("Plan")


@dataclass(frozen=True, slots=True)
class Execution:
    """How a plan is carried out.

    ``on_change``: what is done where it does not fit the cluster any more. ``wait_for_nodes``: whether nodes
    that are in use but do not report are waited for. ``reason`` and ``priority`` are those of the jobs.
    """

    on_change: OnChange = "replan"
    wait_for_nodes: bool = False
    reason: str | None = None
    priority: Priority | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan.

    ``purpose`` is like "rebalancing"; ``groups`` names the node groups in which it may move instances.
    ``cost`` is JSON, and so is ``found``, from which the tool makes the same plan again. ``score`` has the
    scores before and after, which may be infinite.
    ``review`` takes ``on_change`` (as in :class:`Execution`) and where to tell, and makes the function that
    checks the rest of the plan before each jobset.
    """

    purpose: str
    groups: tuple[str, ...]
    jobs: "Jobsets"
    score: dict[str, float]
    cost: dict[str, Any]
    found: dict[str, Any]
    review: "Callable[[OnChange, Say], Check]"


def begin(tool: str, purpose: str, jobs: "Jobsets", execution: Execution) -> "Run":
    """A run of a tool's plan that has not begun."""
    import uuid

    from ganeti_htools.execution.run import Run
    from ganeti_htools.luxi.opcodes import PRIORITIES, Signature
    from ganeti_htools.version import title

    called = title(tool)
    signature = Signature(
        source=tool,
        reason=execution.reason if execution.reason is not None else f"{called} called",
        purpose=f"{purpose} via {called}",
        run=uuid.uuid4().hex[:12],
        priority=PRIORITIES[execution.priority or "normal"],
    )
    return Run(signature, jobs)


@contextmanager
def unwatched() -> Iterator[Progress]:
    """Progress that is not shown."""
    yield lambda _text: None


def replanned(
    obstacle: str,
    on_change: OnChange,
    say: "Say",
    watched: Callable[[], AbstractContextManager[Progress]],
    plan: Callable[[Progress], Plan],
) -> Plan | None:
    """Another plan instead of the rest of one that does not fit, of which is told; None to stop there."""
    if on_change == "stop":
        return None
    say(f"The plan does not fit the cluster any more: {obstacle}", "Planning anew...")
    with watched() as progress:
        return plan(progress)


def told(state: State, steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Steps that start from a state, as JSON. Scores that are not finite become text, as JSON has no numbers
    for them.
    """
    return [
        {
            "instance": each.instance,
            "move": each.kind.value,
            "node": each.node,
            "from": each.was,
            "to": each.now,
            "score": step.score if math.isfinite(step.score) else show(step.score),
        }
        for each, step in zip(named(state, steps), steps, strict=True)
    ]


def retraced(state: State, movable: Bools, steps: Iterable[Any]) -> Iterator[Step]:
    """Make steps that were told once more, on the state that they start from, in place. Raises DataError."""
    return retrace(state, movable, map(_heard, steps))


def _heard(step: Any) -> tuple[NamedStep, float]:
    """A step as it was told, and the score after it. Raises DataError."""
    try:
        nodes = tuple(step["from"]), tuple(step["to"])
        return NamedStep(step["instance"], MoveKind(step["move"]), step["node"], *nodes), float(step["score"])
    except (KeyError, TypeError, ValueError):
        raise DataError("htoolsd tells the plan in another form than expected") from None
