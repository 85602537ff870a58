"""Answers of the daemon: the keys that programs may rely on. ``schemas/`` has all of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

State = Literal["planned", "running", "stopping", "done", "failed", "stopped", "interrupted"]


class StatusAnswer(TypedDict):
    """The answer to ``status`` (``htoolsctl-status-1.json``)."""

    attention: Sequence[Mapping[str, Any]]
    version: str
    cluster: Mapping[str, Any]
    maintenance: Sequence[Mapping[str, Any]]
    decisions: Mapping[str, Any]
    plans: Mapping[str, int]
    planning: Sequence[Mapping[str, Any]]


class DecisionAnswer(TypedDict):
    """The answer to ``decide``: what the iallocator prints for Ganeti, and its exit status.

    ``ranking`` has the possible node groups of each new instance, the best first; ``ages`` the seconds since
    each kind of data was read.
    """

    stdout: str
    stderr: str
    exit_status: int
    ranking: Sequence[Mapping[str, Any]]
    ages: Mapping[str, float]


class PlanSummary(TypedDict):
    """A plan (``htoolsctl-plans-1.json``). Scores that are not finite are None; times are of the epoch."""

    id: str
    tool: str
    options: Mapping[str, Any] | None
    groups: Sequence[str]
    made: float
    score: Mapping[str, float | None]
    state: State
    error: str | None


class PlanAnswer(PlanSummary):
    """A plan with the lines of its log, each with its kind, and the record of its execution."""

    serial: int
    log: Sequence[tuple[str, str]]
    standing: str
    execution: Mapping[str, Any]
