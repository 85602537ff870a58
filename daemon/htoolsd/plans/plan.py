"""One plan and how far it is carried out: in memory, as JSON for clients, and on disk."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

import orjson
import trio

from ganeti_htools.execution.execute import Over
from ganeti_htools.execution.record import RUN, count, current, identifier, record, versioned
from ganeti_htools.execution.record import restored as restored_run
from ganeti_htools.execution.review import Check
from ganeti_htools.execution.run import Ending, Run
from ganeti_htools.execution.shape import Shape, fits
from ganeti_htools.execution.wording import Say, complaint, summary
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.model.errors import DataError
from ganeti_htools.planning.proposal import OnChange
from htoolsd import reading

_LARGEST = 64 << 20  # bytes of a record


class PlanState(StrEnum):
    """The state of a plan."""

    PLANNED = "planned"
    RUNNING = "running"
    STOPPING = "stopping"  # once the jobs under way have ended
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"  # as somebody wished
    INTERRUPTED = "interrupted"  # left with jobs under way: somebody wished it, or the daemon ended

    @property
    def going(self) -> bool:
        """Whether it is being carried out."""
        return self in (PlanState.RUNNING, PlanState.STOPPING)


_ENDED = {None: PlanState.INTERRUPTED, Ending.DONE: PlanState.DONE, Ending.STOPPED: PlanState.STOPPED}


@dataclass(slots=True, eq=False)
class Plan:
    """A plan. ``facts`` do not change: its id, tool, options, node groups, when and by whom it was made...
    A score that is no finite number is null in JSON.

    ``serial`` goes up whenever something changes. ``log`` has what the tool would say, with the kind of each
    line; ``standing`` is how far it is, in words. ``review`` makes the check before each jobset; a plan of an
    earlier daemon has none. ``over`` tells why nothing more of it is to be submitted, if that is so. Times
    are seconds of the epoch.
    """

    facts: dict[str, Any]
    run: Run
    review: Callable[[OnChange, Say], Check] | None = None
    over: Over = lambda: None
    state: PlanState = PlanState.PLANNED
    error: str | None = None
    began: float | None = None
    ended: float | None = None
    serial: int = 0
    log: list[tuple[str, str]] = field(default_factory=list)
    standing: str = ""
    stop: trio.Event = field(default_factory=trio.Event)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    news: trio.Event = field(default_factory=trio.Event)

    @property
    def id(self) -> str:
        """Its name, which stands in the comments of its jobs."""
        return self.run.signature.run

    def say(self, *texts: str) -> None:
        """What the tool would print."""
        self.log += [("said", text) for text in texts]

    def warn(self, *texts: str) -> None:
        """What the tool would print on standard error."""
        self.log += [("warned", text) for text in texts]

    def stand(self, text: str) -> None:
        """Say how far it is."""
        self.standing = text

    def changed(self) -> None:
        """Wake those who wait for news."""
        self.serial += 1
        self.news.set()
        self.news = trio.Event()

    def begin(self, now: float) -> None:
        """Count it as being carried out from now on."""
        self.state, self.began = PlanState.RUNNING, now
        self.changed()

    def cancel(self) -> None:
        """Have it end once the jobs under way have ended."""
        self.state = PlanState.STOPPING
        self.stop.set()
        self.changed()

    def end(self, now: float) -> None:
        """Count it as over; its run tells how it ended."""
        self.state, self.ended, self.standing = _ENDED.get(self.run.ending, PlanState.FAILED), now, ""
        self.error = complaint(record(self.run))
        self.say(*summary(self.run))
        self.changed()

    def document(self) -> dict[str, Any]:
        """All of it as JSON."""
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
        """What it is and how far it is, in short."""
        tasks, rest = self.run.tasks, sum(map(len, self.run.rest))
        done = sum(task.status is JobStatus.SUCCESS for task in tasks)
        failed = sum(task.error is not None for task in tasks)
        counts = {"succeeded": done, "failed": failed, "going": len(self.run.current), "left": rest}
        return {**self.facts, **self._standing(), "jobs": counts}

    def _standing(self) -> dict[str, Any]:
        return {"state": self.state, "error": self.error, "began": self.began, "ended": self.ended}

    def text(self) -> str:
        """What is kept on disk."""
        return orjson.dumps(versioned(self.document()), option=orjson.OPT_INDENT_2).decode() + "\n"


_CHANGING = ("state", "error", "began", "ended", "serial", "log", "standing", "execution")


def _time(value: object) -> bool:
    return type(value) in (int, float) and 0 <= cast(float, value) < 1e11


_NUMBER, _TEXT = (int, float, None), (str, None)
_RECORD: Shape = {
    "id": identifier,
    "tool": str,
    "made": _time,
    "by": {"uid": int, "pid": int},
    "groups": [str],
    "options": (dict, None),
    "score": {"before": _NUMBER, "after": _NUMBER},
    "state": str,
    "error": _TEXT,
    "began": (_time, None),
    "ended": (_time, None),
    "serial": count,
    "log": [[str]],
    "execution": RUN,
}


def restored(text: bytes) -> Plan:
    """A plan that was kept. If it was being carried out then, it is interrupted. Raises DataError."""
    try:
        document = current(orjson.loads(text))
        if not fits(document, _RECORD):
            raise ValueError(f"expected {', '.join(_RECORD)}, and each of its type")
        if document["id"] != document["execution"]["run"]:
            raise ValueError("id: expected that of the run")
        facts = {key: value for key, value in document.items() if key not in _CHANGING}
        plan = Plan(
            facts,
            restored_run(facts["tool"], document["execution"]),
            state=PlanState(document["state"]),
            error=document["error"],
            began=document["began"],
            ended=document["ended"],
            serial=document["serial"],
            log=[(kind, line) for kind, line in document["log"]],
        )
        plan.text()  # so that it can be told, whatever else there is in it
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"no record of a plan: {type(error).__name__}: {error}") from None
    return plan


def kept(directory: str) -> Iterator[tuple[str, Plan | DataError | OSError]]:
    """All plans in a directory, which is made if it is not there, by the names of their files; or why one
    cannot be read. What a daemon was writing when it was killed is removed. Raises OSError.
    """
    os.makedirs(directory, 0o750, exist_ok=True)
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        try:
            if name.endswith(".json"):
                plan = restored(reading.whole(path, _LARGEST))
                if name != f"{plan.id}.json":
                    raise DataError(f"no record of a plan: id: {plan.id} belongs into another file")
                yield path, plan
            elif name.endswith(".tmp"):
                os.unlink(path)
        except (DataError, OSError) as error:
            yield path, error
