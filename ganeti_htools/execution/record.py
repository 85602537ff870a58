"""The record of a run: its JSON form in ``--json`` and in the daemon, and its form on disk.

A document on disk has the number of its form as ``version`` (:func:`versioned`). Readers upgrade it to the
newest form (:func:`upgraded`).
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NotRequired, TypedDict

from ganeti_htools.execution.jobs import Job
from ganeti_htools.execution.run import Ending, Run, Task
from ganeti_htools.execution.wording import going_on
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.opcodes import Signature
from ganeti_htools.model.moves import TITLES, NamedMove, as_carried_out
from ganeti_htools.records import JSON, Valid, choice, refuse_newer

INTERRUPTED = "interrupted"  # instead of an ending

VERSION = 1  # of the form on disk; raise it when a reader of the last form would misread a document


def _with_options(document: dict[str, Any]) -> dict[str, Any]:
    """Upgrade version 0, which has the options of a plan as a command line in ``arguments``."""
    return {"options": None, **document}


# For each older version: returns a document of the next version.
_UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {0: _with_options}


def versioned(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document for disk, with its version."""
    return {"version": VERSION, **document}


def upgraded(stored: Any) -> dict[str, Any]:
    """Return a document from disk in the newest form, without its version.

    Raises DataError; HtoolsError for a form that only a newer program knows.
    """
    document: dict[str, Any] = JSON.read(dict[str, Any], "", stored)
    version = refuse_newer(VERSION)("version", document.pop("version", 0))
    for number in range(version, VERSION):
        document = _UPGRADES[number](document)
    return document


def record(run: Run) -> dict[str, Any]:
    """Describe a run that is over as JSON. A run without an ending was interrupted."""
    return {
        "ending": INTERRUPTED if run.ending is None else run.ending.value,
        "reason": run.reason or None,
        "run": run.signature.run,
        "purpose": run.signature.purpose,
        "replanned": run.changes,
        "going_on": going_on(run) or None,
        "jobs": [
            {
                **job_to_json(task.job),
                "jobset": int(task.place.partition("/")[0]),
                "id": task.number,
                "status": task.status and task.status.value,
                "error": task.error,
                "seconds": task.seconds,
            }
            for task in run.tasks
        ],
        "not_submitted": [[job_to_json(job) for job in jobs] for jobs in run.rest],
    }


# The id of a run, which occurs in comments of jobs and names of files.
Identifier = Annotated[str, Valid("1 to 32 letters and digits", re.compile("[0-9A-Za-z]{1,32}").fullmatch)]
Count = Annotated[int, Valid("a whole number from 0 to 2^53", lambda value: 0 <= value < 1 << 53)]
Time = Annotated[float, Valid("seconds of the epoch", lambda value: 0 <= value < 1e11)]

_JobRecord = TypedDict(
    "_JobRecord",
    {
        "title": str,
        "instance": str | None,
        "move": Annotated[str, choice(TITLES)] | None,
        "from": list[str] | None,
        "to": list[str] | None,
        "opcodes": list[str],
        "commands": list[str],
    },
)


class _SubmittedRecord(_JobRecord):
    jobset: Count
    id: Count | None
    status: str | None
    error: str | None
    seconds: NotRequired[float | None]


class Score(TypedDict):
    """The scores before and after a plan."""

    before: float | None
    after: float | None


class RunRecord(TypedDict):
    ending: str | None
    reason: str | None
    run: Identifier
    purpose: str
    replanned: list[str]
    going_on: str | None
    jobs: list[_SubmittedRecord]
    not_submitted: list[list[_JobRecord]]


def job_to_json(job: Job) -> dict[str, Any]:
    step = job.step
    return {
        "title": job.title,
        "instance": step and step.instance,
        "move": step and as_carried_out(step.title, job.commands),
        "from": step and list(step.was),
        "to": step and list(step.now),
        "opcodes": [opcode["OP_ID"] for opcode in job.opcodes],
        "commands": list(job.commands),
    }


def run_from_record(program: str, recorded: Mapping[str, Any]) -> Run:
    """Restore the run of a program from its record, a :class:`RunRecord`. Raises ValueError, TypeError.

    The run can be described and its jobs traced. It cannot be carried out, for the record has only the names
    of opcodes.
    """
    signature = Signature(program, "", recorded["purpose"], recorded["run"])
    run = Run(signature, [[_job_from_record(job) for job in jobs] for jobs in recorded["not_submitted"]])
    members: Counter[int] = Counter()
    for job in recorded["jobs"]:
        run.sets = job["jobset"]
        members[run.sets] += 1
        place = f"{run.sets}/{members[run.sets]}"
        status = None if job["status"] is None else JobStatus(job["status"])
        task = Task(_job_from_record(job), place, job["id"], status, job["error"])
        task.seconds = job.get("seconds")
        run.tasks.append(task)
    run.changes = list(recorded["replanned"])
    run.ending = None if recorded["ending"] in (None, INTERRUPTED) else Ending(recorded["ending"])
    run.reason = recorded["reason"] or ""
    return run


def _job_from_record(job: Mapping[str, Any]) -> Job:
    was, now = job["from"], job["to"]
    step = job["move"] and NamedMove(job["instance"], job["move"], (), tuple(was), tuple(now))
    return Job(job["title"], tuple({"OP_ID": name} for name in job["opcodes"]), tuple(job["commands"]), step)
