"""A plan as its tool describes it with ``--json``, or htoolsctl(1) with ``plan --json``: jobsets of moves."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from ganeti_htools.judge.layout import Layout, Place
from ganeti_htools.model.errors import DataError

TOOLS = "hbal", "hregroup", "hsqueeze", "hmaintain", "hail"


class Command(NamedTuple):
    """A command on an instance: ``f``, ``fa``, ``r`` or ``m`` (hbal(1)), and its new node, None for ``f``."""

    kind: str
    node: str | None
    live: bool  # a migration, not a failover

    def after(self, place: Place) -> Place:
        """The place afterwards."""
        if self.node is None:
            return Place(place.secondary or "", place.primary)
        return Place(place.primary, self.node) if self.kind == "r" else Place(self.node, place.secondary)


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A job that moves an instance; ``number`` is its place among them. ``score`` is announced, or None."""

    number: int
    instance: str
    was: Place
    now: Place
    operations: tuple[Command, ...]
    score: float | None = None

    @property
    def nodes(self) -> set[str]:
        """The nodes that the instance is on during or after the job, and not only before."""
        places = accumulate(self.operations, lambda place, each: each.after(place), initial=self.was)
        return {*self.now.nodes, *(node for place in (*places,)[1:] for node in place.nodes)}


@dataclass(slots=True)
class Jobset:
    """Jobs that may run at the same time; they may drain nodes, open them, or set them offline."""

    steps: list[PlanStep] = field(default_factory=list)
    closes: set[str] = field(default_factory=set)
    opens: set[str] = field(default_factory=set)
    rests: set[str] = field(default_factory=set)
    leaves: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class PlannedWork:
    """A plan. ``score`` (before, after) and ``cost`` are announced, for ``groups`` (names)."""

    tool: str
    options: Mapping[str, Any]
    jobsets: tuple[Jobset, ...]
    groups: tuple[str, ...]
    score: tuple[float | None, float | None]
    cost: Mapping[str, Any] | None
    room: tuple[str, ...] = ()  # the nodes of the new instance for which the plan makes room


def statement_of(document: Any) -> dict[str, Any]:
    """Find the statement of a plan in a document. Raises DataError for another document."""
    found = document.get("plan", document) if isinstance(document, dict) else None
    if isinstance(found, dict) and found.get("tool") in TOOLS and isinstance(found.get("options"), dict):
        return found
    raise DataError(f"not a plan of {', '.join(TOOLS)}: expected the output of --json")


def read_plan(statement: Mapping[str, Any], layout: Layout) -> PlannedWork:
    """Read a plan for a cluster. Raises DataError, also for names that are unknown."""
    try:
        run, score = statement.get("execution"), statement["score"]
        whole = run is None or not run["jobs"]  # the announced figures are those of the whole plan
        sets = statement["jobsets"] if run is None else run["not_submitted"]
        return PlannedWork(
            tool=statement["tool"],
            options=statement["options"],
            jobsets=tuple(_jobsets(sets, layout)),
            groups=tuple(statement["groups"]),
            score=(score["before"], score["after"]) if whole else (None, None),
            cost=statement["cost"] if whole else None,
            room=tuple(map(layout.node, statement.get("room") or ())),
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"not a plan: {type(error).__name__}: {error}") from None


def _jobsets(sets: Any, layout: Layout) -> Iterator[Jobset]:
    number = 0
    for jobs in sets:
        found = Jobset()
        for job in jobs:
            if job["instance"] is None:
                for command in job["commands"]:
                    _node_command(command, found, layout)
            else:
                number += 1
                found.steps.append(_step(number, job, layout))
        yield found


def _step(number: int, job: Any, layout: Layout) -> PlanStep:
    name, score = layout.instance(job["instance"]), job.get("score")
    operations = (_operation(command, name, layout) for command in job["commands"])
    was, now = (Place(*map(layout.node, job[key])) for key in ("from", "to"))
    return PlanStep(number, name, was, now, tuple(filter(None, operations)), score and float(score))


def _operation(command: str, name: str, layout: Layout) -> Command | None:
    """Read a command of gnt-instance(8); None if it moves nothing. Raises DataError."""
    words = shlex.split(command)
    program, verb = words[:2]
    if verb in ("add-tags", "remove-tags"):
        return None
    if program != "gnt-instance" or layout.instance(words[-1]) != name:
        raise DataError(f"{command}: expected a command of gnt-instance on {name}")
    node = layout.node(words[words.index("-n") + 1]) if "-n" in words else None
    match verb:
        case "migrate" | "failover":
            return Command("f" if node is None else "fa", node, verb == "migrate")
        case "replace-disks" | "move" if node is not None:
            return Command("r" if verb == "replace-disks" else "m", node, False)
    raise DataError(f"{command}: expected a command that moves an instance")


def _node_command(command: str, found: Jobset, layout: Layout) -> None:
    """Read a command of gnt-node(8)."""
    words = shlex.split(command.partition("||")[0])
    if words[0] == "timeout":  # it is tried again until the node is up
        words = shlex.split(words[-1].removeprefix("until ").partition(";")[0])
    if words[:2] == ["gnt-node", "modify"]:
        node, yes = layout.node(words[-1]), words[-2] == "yes"
        (found.closes if yes else found.opens).add(node)
        if yes and "--offline" in words:
            found.leaves.add(node)
    elif words[:1] == ["gnt-node"] and "htools:maintenance" in words:
        (found.rests if words[1] == "add-tags" else found.opens).add(layout.node(words[2]))
