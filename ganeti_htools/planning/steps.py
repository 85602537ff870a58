"""Steps of a balancing plan as JSON, and made again from it."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

from ganeti_htools.backends.haskell import show
from ganeti_htools.engine.balancing import recheck
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.moves import Move, MoveKind, NamedMove
from ganeti_htools.model.state import State
from ganeti_htools.planning.plan import UNEXPECTED


def to_json(steps: Iterable[NamedMove]) -> list[dict[str, Any]]:
    """Describe steps. Scores that are not finite become text, for JSON has none."""
    return [
        {
            "instance": step.instance,
            "move": step.title,
            "node": step.node,
            "from": step.was,
            "to": step.now,
            "score": step.score if math.isfinite(step.score) else show(step.score),
        }
        | ({"with_next": True} if step.with_next else {})
        for step in steps
    ]


def retrace(state: State, movable: Bools, steps: Iterable[Any]) -> Iterator[Move]:
    """Make described steps again, in place, on the state that they start from. Raises DataError."""
    return recheck.retrace(state, movable, map(_from_json, steps))


def _from_json(step: Any) -> NamedMove:
    """Parse a step. Raises DataError."""
    try:
        nodes, score = (tuple(step["from"]), tuple(step["to"])), float(step["score"])
        together = bool(step.get("with_next", False))
        return NamedMove.of(step["instance"], MoveKind(step["move"]), step["node"], *nodes, score, together)
    except (KeyError, TypeError, ValueError):
        raise DataError(UNEXPECTED) from None
