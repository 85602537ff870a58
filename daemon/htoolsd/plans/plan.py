"""One plan and its progress: in memory, as JSON for clients, and on disk."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NotRequired, TypedDict

import orjson
import trio

from ganeti_htools import machine
from ganeti_htools.execution.execute import Over
from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.execution.record import (
    Count,
    Identifier,
    RunRecord,
    Score,
    Time,
    job_to_json,
    record,
    run_from_record,
    upgraded,
    versioned,
)
from ganeti_htools.execution.review import Check, Say
from ganeti_htools.execution.run import Ending, Run
from ganeti_htools.execution.wording import complaint, summary
from ganeti_htools.files import read_regular_file
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.planning.options import to_json
from ganeti_htools.planning.plan import OnChange, Proposal, new_run, room_of
from ganeti_htools.records import JSON, to_text
from htoolsd.damaged_files import set_aside
from htoolsd.history.entries import Document, HistoryEntry, plan_details
from htoolsd.threads import Replacements

_RECORD_BYTES = 64 << 20  # bytes of a record
EXPIRY = 86400.0  # seconds after which a plan that nobody has executed is removed


Caller = Mapping[str, int]  # uid and pid


class PlanCertificate(TypedDict):
    """The verdict of the judge of plans: holds, broken or unchecked; its ``reasons`` in words."""

    verdict: str
    reasons: list[str]


class PlanState(StrEnum):
    """The state of a plan."""

    PLANNED = "planned"
    RUNNING = "running"
    STOPPING = "stopping"  # ends with the jobs under way
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"  # on request
    INTERRUPTED = "interrupted"  # with jobs under way: on request, or because the daemon ended

    @property
    def going(self) -> bool:
        """Whether the plan is being carried out."""
        return self in (PlanState.RUNNING, PlanState.STOPPING)


_ENDED = {None: PlanState.INTERRUPTED, Ending.DONE: PlanState.DONE, Ending.STOPPED: PlanState.STOPPED}


@dataclass(slots=True, eq=False)
class Plan:
    """A plan.

    ``facts`` do not change once the plan has begun: id, tool, options, node groups, time, caller and so on.
    A score that is not finite is null in JSON. ``seen``: somebody has looked at the plan's end. ``serial``
    grows with every change.
    ``log`` has the lines that the tool would print, each with its kind; ``standing`` is the progress.
    ``review`` makes the check before each jobset, ``cluster`` is the one that the plan was made for, or its
    last review saw; None for a plan that has ended, or is of an earlier daemon. ``certificate`` is None until
    the plan is executed.
    ``over`` returns why no more jobs are submitted, None if the plan continues. ``interruption`` is the
    reason of an interruption that nobody asked for. ``executed_by`` and ``cancelled_by`` are callers, None
    for the daemon. Times are seconds of the epoch.
    """

    facts: dict[str, Any]
    run: Run
    review: Callable[[OnChange, Say], Check] | None = None
    cluster: Cluster | None = None
    certificate: PlanCertificate | None = None
    over: Over = lambda: None
    state: PlanState = PlanState.PLANNED
    error: str | None = None
    began: float | None = None
    ended: float | None = None
    executed_by: Caller | None = None
    cancelled_by: Caller | None = None
    interruption: str | None = None
    seen: bool = False
    serial: int = 0
    log: list[tuple[str, str]] = field(default_factory=list)
    standing: str = ""
    stop: trio.Event = field(default_factory=trio.Event)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    news: trio.Event = field(default_factory=trio.Event)
    recording: trio.Lock = field(default_factory=trio.Lock)
    file: Replacements = field(default_factory=Replacements)

    @property
    def id(self) -> str:
        """The plan's id, which is also in the comments of its jobs."""
        return self.run.signature.run

    @property
    def proposed(self) -> bool:
        """Whether a policy proposed the plan and nobody has executed it."""
        return self.state is PlanState.PLANNED and self.facts.get("policy") is not None

    def obstacle_to_resuming(self) -> str | None:
        """Return why nobody can plan the rest anew with the plan's options; None if somebody can."""
        if self.state is not PlanState.INTERRUPTED:
            return f"is {self.state}, not interrupted"
        if policy := self.facts.get("policy"):
            return f"is of policy {policy}, which plans anew by itself"
        if self.facts["options"] is None:
            return "has no options that are known here; run its tool again"
        return "has jobs that are still running" if self.run.current else None

    def has_expired(self, now: float) -> bool:
        """Whether nobody has executed the plan for too long."""
        return self.state is PlanState.PLANNED and self.facts["made"] < now - EXPIRY

    def say(self, *texts: str) -> None:
        """Log lines that the tool would print."""
        self.log += [("said", text) for text in texts]

    def warn(self, *texts: str) -> None:
        """Log lines that the tool would print on standard error."""
        self.log += [("warned", text) for text in texts]

    def stand(self, text: str) -> None:
        """Set the progress, in words."""
        self.standing = text

    def changed(self) -> None:
        """Wake all who wait for ``news``."""
        self.serial += 1
        self.news.set()
        self.news = trio.Event()

    def begin(self, now: float, by: Caller | None = None) -> None:
        """Set the state to running."""
        self.state, self.began, self.executed_by = PlanState.RUNNING, now, by
        self.changed()

    def take_back_begin(self) -> None:
        """Set the state before :meth:`begin`."""
        self.state, self.began, self.executed_by = PlanState.PLANNED, None, None
        self.changed()

    def cancel(self, by: Caller | None = None) -> None:
        """Stop the plan after the jobs under way."""
        self.state, self.cancelled_by = PlanState.STOPPING, self.cancelled_by or by
        self.stop.set()
        self.changed()

    def end(self, now: float) -> None:
        """Set the state in which the run has ended, and let go of the cluster that the review has."""
        self.review = self.cluster = None
        self.state, self.ended, self.standing = _ENDED.get(self.run.ending, PlanState.FAILED), now, ""
        self.error = complaint(record(self.run)) or self.interruption
        self.say(*summary(self.run))
        self.changed()

    def to_json(self) -> dict[str, Any]:
        """Return the whole plan as JSON."""
        outcome = record(self.run)
        if self.state.going or self.state is PlanState.PLANNED:
            outcome["ending"] = None
        return {
            **self.facts,
            **self._standing(),
            "serial": self.serial,
            "log": self.log,
            "standing": self.standing,
            "execution": outcome,
        }

    def summary(self) -> dict[str, Any]:
        """Return the facts, the state and counts of jobs as JSON."""
        tasks, rest = self.run.tasks, sum(map(len, self.run.rest))
        done = sum(task.status is JobStatus.SUCCESS for task in tasks)
        failed = sum(task.error is not None for task in tasks)
        counts = {"succeeded": done, "failed": failed, "going": len(self.run.current), "left": rest}
        return {**self.facts, **self._standing(), "jobs": counts}

    def _standing(self) -> dict[str, Any]:
        times = {"began": self.began, "ended": self.ended}
        callers = {"executed_by": self.executed_by, "cancelled_by": self.cancelled_by}
        standing = {"state": self.state, "error": self.error, "certificate": self.certificate}
        return {**standing, **times, **callers, "seen": self.seen}

    def statement(self, rest: Jobsets | None = None) -> str:
        """Return what the judge reads: of the whole plan, or of a ``rest`` planned anew, without figures."""
        whole = {"jobsets": [[job_to_json(job) for job in jobs] for jobs in rest or self.run.rest]}
        figures = {} if rest is None else {"score": {"before": None, "after": None}, "cost": None}
        return to_text({**self.facts, **whole, **figures})

    def text(self) -> str:
        """Return the content of the plan's file."""
        return to_text(versioned(self.to_json()))


@dataclass(frozen=True, slots=True)
class PlanChanged(HistoryEntry):
    """A plan that was made, or has ended; ``document`` is the plan as JSON at that moment."""

    kind = "plan"
    document: Mapping[str, Any]
    plan: Plan

    def details(self) -> Document:
        return plan_details(self.document)


def new_plan(
    tool: str,
    options: Any,
    proposal: Proposal,
    generations: Mapping[str, int],
    cluster: Cluster,
    by: Caller,
    **more: Any,
) -> Plan:
    """Return a new plan for a cluster.

    ``by`` has the caller's ``uid`` and ``pid``; ``more`` are more facts.
    """
    run = new_run(tool, proposal.purpose, proposal.jobs, options.execution)
    facts = {
        "id": run.signature.run,
        "tool": tool,
        "options": to_json(options),
        "groups": list(proposal.groups),
        "made": machine.now(),
        "by": dict(by),
        "generations": generations,
        "score": proposal.score,
        "cost": proposal.cost,
        "room": room_of(proposal.jobs),
        "on_change": options.execution.on_change,
        "wait_for_nodes": options.execution.wait_for_nodes,
        **more,
    }
    return Plan(facts, run, proposal.review, cluster)


class _Caller(TypedDict):
    uid: int
    pid: int


class _PlanRecord(TypedDict):
    """The content of a plan's file. ``policy`` and the like are further facts of some plans."""

    id: Identifier
    tool: str
    made: Time
    by: _Caller
    groups: list[str]
    options: dict[str, Any] | None
    score: Score
    cost: dict[str, Any] | None
    policy: NotRequired[str | None]
    continues: NotRequired[str | None]
    state: PlanState
    error: str | None
    began: Time | None
    ended: Time | None
    executed_by: _Caller | None
    cancelled_by: _Caller | None
    seen: bool | None
    certificate: NotRequired[PlanCertificate | None]
    serial: Count
    log: list[list[str]]
    standing: str | None
    execution: RunRecord


_STANDING = "error", "began", "ended", "executed_by", "cancelled_by", "serial"
_CHANGING = *_STANDING, "state", "seen", "log", "standing", "execution", "certificate"


def plan_from_json(text: bytes) -> Plan:
    """Return the plan of a file. Raises DataError; HtoolsError for a file of a newer htoolsd."""
    try:
        document = upgraded(orjson.loads(text))
        stored: _PlanRecord = JSON.read(_PlanRecord, "", document)
        if stored["id"] != stored["execution"]["run"]:
            raise ValueError("id: expected that of the run")
        plan = Plan(
            {key: value for key, value in document.items() if key not in _CHANGING},
            run_from_record(stored["tool"], stored["execution"]),
            state=PlanState(stored["state"]),
            seen=bool(stored["seen"]),
            certificate=stored.get("certificate"),
            log=[(kind, line) for kind, line in stored["log"]],
            **{key: document[key] for key in _STANDING},
        )
        plan.text()  # fails now rather than in an answer
    except (DataError, ValueError, TypeError) as error:
        raise DataError(f"not the record of a plan: {error}") from None
    return plan


def read_plans(directory: str) -> Iterator[tuple[str, Plan | HtoolsError | OSError]]:
    """Yield the path of each file in a directory, and its plan or the error.

    A missing directory is created. Temporary files of a killed daemon are removed. Damaged files are set
    aside. Raises OSError.
    """
    os.makedirs(directory, 0o750, exist_ok=True)
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        try:
            if name.endswith(".json"):
                plan = plan_from_json(read_regular_file(path, _RECORD_BYTES))
                if name != f"{plan.id}.json":
                    raise DataError(f"not the record of a plan: id: {plan.id} does not match the file's name")
                yield path, plan
            elif name.endswith(".tmp"):
                os.unlink(path)
        except (HtoolsError, OSError) as error:
            if isinstance(error, DataError):
                with suppress(OSError):
                    set_aside(path)
            yield path, error
