"""Moves that make room for a new instance, as text."""

from collections.abc import Iterator, Mapping
from typing import Any

from ganeti_htools.cli.report.layout import fitting_table
from ganeti_htools.model.moves import as_carried_out
from ganeti_htools.model.wording import counted, size

_HEADER = ("", "Instance", "Nodes before", "Nodes after", "Move", "To copy")


def plan(answer: Mapping[str, Any]) -> str:
    """Format the daemon's plan that makes room, after the decision that found no place."""
    found = answer["found"]
    if not found["steps"]:
        return text(found).removesuffix("\n")
    later = f"'htoolsctl execute {answer['id']}' makes room and claims it\n"
    return "".join([*_moves(found), later]).removesuffix("\n")


def text(found: Mapping[str, Any], commands: bool = False) -> str:
    """Format the moves (:meth:`.RoomPlan.describe`); with ``commands`` also those of gnt-instance."""
    return "".join(_lines(found, commands))


def _lines(found: Mapping[str, Any], commands: bool) -> Iterator[str]:
    name = found["instance"]
    if found["refusal"] is None:
        yield f"{name} finds a place without moves: {', '.join(found['nodes'])}\n"
        return
    yield f"{name} finds no place: {found['refusal']}\n"
    if found["why"] is not None:
        yield f"{name}: {found['why']}\n"
        return
    yield from _moves(found)
    if commands:
        yield from (f"  {command}\n" for step in found["steps"] for command in step["commands"])


def _moves(found: Mapping[str, Any]) -> Iterator[str]:
    steps, nodes = found["steps"], ", ".join(found["nodes"])
    yield f"It finds one on {nodes} after {counted(len(steps), 'move')} ({size(found['mib'])} to copy):\n"
    rows = [
        (
            f"{number}.",
            step["instance"],
            ":".join(step["from"]),
            ":".join(step["to"]),
            as_carried_out(step["move"], step["commands"]),
            size(step["mib"]),
        )
        for number, step in enumerate(steps, 1)
    ]
    yield fitting_table(_HEADER, rows, (True, False, False, False, False, True), labels=2)
    if found["search_ended"]:
        fewer = len(steps) > found["at_least"]
        does = f"may do with {counted(found['at_least'], 'move')}, or" if fewer else "of as many moves may"
        yield f"The search ended early: another plan {does} copy less.\n"
