"""Steps of a balancing plan as JSON, and made again from it."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ganeti_htools.backends.haskell import show
from ganeti_htools.engine.balancing import recheck
from ganeti_htools.engine.balancing.balance import Step
from ganeti_htools.engine.balancing.recheck import named
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.moves import MoveKind, NamedStep
from ganeti_htools.model.state import State

UNEXPECTED = "htoolsd's description of the plan has an unexpected form"


def to_json(state: State, steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Describe steps that start from a state. Scores that are not finite become text, for JSON has none."""
    return [
        {
            "instance": each.instance,
            "move": each.kind.value,
            "node": each.node,
            "from": each.was,
            "to": each.now,
            "score": step.score if math.isfinite(step.score) else show(step.score),
        }
        | ({"with_next": True} if each.with_next else {})
        for each, step in zip(named(state, steps), steps, strict=True)
    ]


def retrace(state: State, movable: Bools, steps: Iterable[Any]) -> Iterator[Step]:
    """Make described steps again, in place, on the state that they start from. Raises DataError."""
    return recheck.retrace(state, movable, map(_from_json, steps))


def _from_json(step: Any) -> tuple[NamedStep, float]:
    """Parse a step and the score after it. Raises DataError."""
    try:
        nodes = tuple(step["from"]), tuple(step["to"])
        together = bool(step.get("with_next", False))
        named = NamedStep(step["instance"], MoveKind(step["move"]), step["node"], *nodes, together)
        return named, float(step["score"])
    except (KeyError, TypeError, ValueError):
        raise DataError(UNEXPECTED) from None
