"""Verdicts about two answers to one request. Pure functions."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from ganeti_htools.backends.iallocator import Message
from ganeti_htools.deciding.other_answer import Places
from ganeti_htools.model.request import Allocate, ChangeGroup, NodeEvacuate, instances_of
from ganeti_htools.model.types import DiskTemplate

_EQUAL = 1e-7  # scores are printed with 8 decimals
_NO_DISK_FIGURES = re.compile("disk space(?: of nodes)?, which the request lacks")  # of an answer's text
_CLOSED_SECONDARY = "takes no instances"


class WitnessVerdict(StrEnum):
    """The outcome of a comparison, from our side."""

    SAME = "same"  # places
    EQUAL = "equal"  # other places, the same score by the other program's measure
    BETTER = "better"
    WORSE = "worse"
    OURS_REFUSES = "ours refuses"  # an instance for which the other program has a place
    THEIRS_REFUSES = "theirs refuses"
    OURS_FAILED = "ours failed"
    FAILED = "failed"  # the other program
    TIMED_OUT = "timed out"
    NOT_COMPARED = "not compared"


ALARMING = {
    WitnessVerdict.WORSE,
    WitnessVerdict.OURS_REFUSES,
    WitnessVerdict.THEIRS_REFUSES,
    WitnessVerdict.OURS_FAILED,
}
WITHOUT_ANSWER = {WitnessVerdict.FAILED, WitnessVerdict.TIMED_OUT, WitnessVerdict.NOT_COMPARED}


def by_places(ours: Places, theirs: Places) -> WitnessVerdict | None:
    """Return the verdict that places alone give; None if scores decide."""
    if theirs.keys() - ours.keys():
        return WitnessVerdict.OURS_REFUSES
    if ours.keys() - theirs.keys():
        return WitnessVerdict.THEIRS_REFUSES
    return WitnessVerdict.SAME if ours == theirs else None


def by_score(ours: float | None, theirs: float | None) -> WitnessVerdict:
    """Return the verdict of two scores, the lower of which is better; None: the places are refused."""
    if ours is None or theirs is None:
        return WitnessVerdict.WORSE
    if abs(ours - theirs) <= _EQUAL * max(1.0, abs(theirs)):
        return WitnessVerdict.EQUAL
    return WitnessVerdict.BETTER if ours < theirs else WitnessVerdict.WORSE


def instances(message: Message, ours: Places, theirs: Places) -> list[dict[str, Any]]:
    """Return the instances whose places differ, with both places (null: none)."""
    return [
        {"instance": name, "ours": ours.get(name), "theirs": theirs.get(name)}
        for name in instances_of(message.request)
        if ours.get(name) != theirs.get(name)
    ]


def known_difference(
    message: Message, ours: Places, theirs: Places | None, our_info: str, reasons: Mapping[str, str]
) -> str | None:
    """Return the id of the row in docs/differences.md that explains a verdict for certain; None without one.

    ``theirs`` is None if the program gave no answer. ``reasons`` are ours against instances.
    """
    request, rows = message.request, {row.name: row for row in message.cluster.instances}
    evacuated = [rows[name] for name in request.instances] if isinstance(request, NodeEvacuate) else []
    if theirs is None:
        mirrored = [row for row in evacuated if row.template is DiskTemplate.DRBD]
        return "D10" if any(row.snode is None for row in mirrored) else None
    if not theirs and ours and _NO_DISK_FIGURES.search(our_info):
        return "D8"
    lacking = theirs.keys() - ours.keys()
    if evacuated and lacking and all(_CLOSED_SECONDARY in reasons.get(name, "") for name in lacking):
        return "D12"
    nodes = {node.name: node for node in message.cluster.nodes}
    before = {name: {rows[name].pnode, rows[name].snode} for name in theirs if name in rows}
    arrivals = {node for name, place in theirs.items() for node in set(place) - before.get(name, set())}
    if not isinstance(request, ChangeGroup) and any(nodes[name].in_maintenance for name in arrivals):
        return "D11"
    if isinstance(request, Allocate) and (row := rows.get(request.placement.instance.name)):
        place = theirs.get(row.name)
        if place and request.placement.group is None and nodes[place[0]].group != nodes[row.pnode].group:
            return "D6"
    return None
