"""What a program would do with a cluster, for whoever does it in its place."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ganeti_htools.backends.haskell import show
from ganeti_htools.engine.balancing.balance import Step
from ganeti_htools.engine.balancing.recheck import NamedStep, named, retrace
from ganeti_htools.engine.rules.move_kinds import MoveKind
from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.execution.review import Check
from ganeti_htools.execution.wording import Say
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.state import State


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan.

    ``purpose`` is like "rebalancing"; ``groups`` names the node groups in which it may move instances;
    ``cost`` is JSON, and so is ``found``, of which the program makes the same plan again. A ``score`` need be
    no finite number.
    ``review`` makes what looks at the plan before each set of jobs, of ``--on-change`` and of where to tell.
    """

    purpose: str
    groups: tuple[str, ...]
    jobs: Jobsets
    score: dict[str, float]
    cost: dict[str, Any]
    found: dict[str, Any]
    review: Callable[[str, Say], Check]


def told(state: State, steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Steps from a state as JSON; as text the scores for which it has no number."""
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
    """The steps again, made on the same state, in place. Raises DataError."""
    return retrace(state, movable, map(_heard, steps))


def _heard(step: Any) -> tuple[NamedStep, float]:
    """A step, and the score afterwards."""
    try:
        nodes = tuple(step["from"]), tuple(step["to"])
        return NamedStep(step["instance"], MoveKind(step["move"]), step["node"], *nodes), float(step["score"])
    except (KeyError, TypeError, ValueError):
        raise DataError("htoolsd tells the plan in another form than expected") from None
