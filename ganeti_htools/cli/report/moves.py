"""Moves of a plan, as lines and as JSON."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ganeti_htools.model.options import USUAL_BANDWIDTH, CopyingOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.tags import bandwidths
from ganeti_htools.model.wording import counted, duration, size
from ganeti_htools.planning.jobsets import PlannedMove, copying_seconds
from ganeti_htools.planning.plan import ToolPlan

Groups = Callable[[PlannedMove], tuple[str, str]]  # returns the groups that a move leaves and enters


def lines(moves: Sequence[PlannedMove], groups: Groups | None = None) -> Iterator[str]:
    """Describe moves, one a line, with their groups if moves go to other groups."""
    longest = max((len(move.instance) for move in moves), default=0)
    for number, move in enumerate(moves, 1):
        sides = [":".join(move.was), ":".join(move.now)]
        if groups is not None:
            sides = [f"{group} {nodes}" for group, nodes in zip(groups(move), sides, strict=True)]
        yield f"  {number:3}. {move.instance:{longest}} {' => '.join(sides)} a={move.summary}"


def limits(max_moves: int, max_copy: int, max_time: float = -1.0) -> Iterator[str]:
    """Describe the limits of a plan in a line, as its options were understood; nothing if it has none."""
    given = [counted(max_moves, "move")] if max_moves >= 0 else []
    given += [f"{size(max_copy)} copied"] if max_copy >= 0 else []
    given += [f"{duration(max_time)} of copying"] if max_time >= 0 else []
    if given:
        yield f"Limits: at most {', '.join(given)}"


def copying_time(
    plan: ToolPlan[Any],
    sets: Sequence[Sequence[PlannedMove]],
    answer: Any,
    copying: CopyingOptions,
    option: str = "",
) -> str:
    """Describe the time of copying and its speed; only the speed if nothing moves.

    ``answer`` is that of htoolsd, which has measured speeds, if it made the plan.
    """
    copying = replace(copying, measured=answer.get("measured", {}) if answer else {})
    parallel = plan.options.execution.parallel
    by = f"at {speed(plan.state, copying, option)}{f', {parallel} at a time' if parallel > 1 else ''}"
    taken = copying_seconds(plan.state, sets, copying, parallel)
    return f"about {duration(taken)} {by}" if any(sets) else by


def speed(state: State, copying: CopyingOptions, option: str = "") -> str:
    """Describe the speed of copying in Mbit/s, and where it comes from; ``option`` sets it, if any does."""
    kinds = sorted({row.template.value for row in state.cluster.instances})
    known = [f"{kind} {copying.measured[kind]}" for kind in kinds if kind in copying.measured]
    if copying.bandwidth is not None:
        found = f"{copying.bandwidth} Mbit/s (--bandwidth)"
    elif known:
        rest = "" if len(known) == len(kinds) else f", others {USUAL_BANDWIDTH} by default"
        found = f"{', '.join(known)} Mbit/s (median of htoolsd's jobs{rest})"
    else:
        found = f"{USUAL_BANDWIDTH} Mbit/s (default; {option}htools:bandwidth tags set others)"
    return f"htools:bandwidth tags, elsewhere {found}" if bandwidths(state.cluster.tags) else found


def total(cost: Mapping[str, Any], number: int) -> str:
    """Describe the number of moves and what they copy."""
    made = f"{counted(number, 'move')} in {counted(cost['jobsets'], 'jobset')}"
    return f"{made}, {size(cost['disk_mib'])} of disks and {size(cost['memory_mib'])} of memory copied"


def to_json(move: PlannedMove) -> dict[str, Any]:
    return {
        "instance": move.step.instance,
        "from": move.step.was,
        "to": move.step.now,
        "disk_mib": move.disk,
        "memory_mib": move.memory,
        "commands": move.commands,
    }
