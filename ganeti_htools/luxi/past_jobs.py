"""Jobs of the last hours, archived ones included, and what they say of the plans of htoolsd.

Ganeti keeps jobs on all master candidates, so this outlives the loss of a master. A job of a plan has two
marks: the comment of its opcodes (:meth:`~ganeti_htools.luxi.opcodes.Signature.comment`), and an entry in
their reason trail, made by :func:`plan_entry`.
"""

import re
from typing import Any, NamedTuple

from ganeti_htools.luxi.checked import exactly, shape_errors
from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.luxi.queries import QueryRow, query

_FIELDS = ("id", "status", "ops", "received_ts", "archived")
_AT_ONCE = 250  # jobs; luxid reads a file for each

_ENTRY = re.compile(
    r"plan(?: of policy (?P<policy>\w+), (?P<moves>\d{1,9}) moves, (?P<mib>\d{1,15}) MiB)?"
    r"(?:, continues (?P<continues>[0-9a-z]{1,32}))?"
    r", (?P<left>\d{1,9}) jobs left"
)
_COMMENT = re.compile(
    r"(?P<purpose>.+), run (?P<run>[0-9a-z]{1,32}), job (?P<jobset>\d{1,9})/(?P<number>\d{1,9})"
)


def plan_entry(policy: str = "", moves: int = 0, mib: int = 0, continues: str = "") -> str:
    """Return the beginning of the entry about a plan, with its share of the budgets of a policy.

    ``continues`` is the id of the interrupted plan that it continues.
    """
    share = f" of policy {policy}, {moves} moves, {mib} MiB" if policy else ""
    return f"plan{share}{f', continues {continues}' if continues else ''}"


class PlanMark(NamedTuple):
    """The marks of a job of a plan.

    ``run`` is the plan's id, ``number`` that of the job in its ``jobset``, ``left`` the number of later jobs.
    Only a plan of a policy has ``policy``, ``moves`` and ``mib``. ``continues`` is the id of the plan that it
    continues.
    """

    run: str
    tool: str
    purpose: str
    jobset: int
    number: int
    left: int
    policy: str
    moves: int
    mib: int
    continues: str = ""


class PastJob(NamedTuple):
    """A job: its number, status, opcodes, and when it was received, in seconds of the epoch."""

    number: int
    status: JobStatus
    opcodes: tuple[Opcode, ...]
    received: float

    def mark(self) -> PlanMark | None:
        """Return the marks of a job of a plan, None for another job."""
        first = self.opcodes[0] if self.opcodes else {}
        trail = first.get("reason")
        comment = _COMMENT.fullmatch(str(first.get("comment")))
        entries = [each for each in trail if _is_entry(each)] if isinstance(trail, list) else []
        about = [_ENTRY.fullmatch(text) for source, text, _ in entries if source == "htoolsd"]
        plan = about[-1] if about else None
        if comment is None or plan is None:
            return None
        return PlanMark(
            comment["run"],
            entries[0][0],
            comment["purpose"],
            int(comment["jobset"]),
            int(comment["number"]),
            int(plan["left"]),
            plan["policy"] or "",
            int(plan["moves"] or 0),
            int(plan["mib"] or 0),
            plan["continues"] or "",
        )


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, list) and len(entry) == 3 and all(isinstance(each, str) for each in entry[:2])


async def past_jobs(client: LuxiClient, since: float) -> list[PastJob]:
    """Return the jobs received since a time, oldest first. Raises LuxiError.

    The newest job is one in the queue. If all are archived, luxid reads the files of all of them.
    """
    newest = await query(client, "job", ["id"]) or await query(client, "job", ["id", "archived"])
    end = max((row.values["id"] for row in newest), default=0) + 1
    found: list[PastJob] = []
    while end > 1:
        begin = max(1, end - _AT_ONCE)
        wanted = ["&", [">=", "id", begin], ["<", "id", end]]
        jobs = [job for row in await query(client, "job", _FIELDS, wanted) if (job := _job(row))]
        found = jobs + found
        if any(job.received < since for job in jobs):
            break
        end = begin
    return sorted((job for job in found if job.received >= since), key=lambda job: job.number)


def _job(row: QueryRow) -> PastJob | None:
    """Return the job in a row; None for one that is just being archived, or whose file is damaged."""
    if row.missing:
        return None
    values = row.values
    with shape_errors("Query of jobs"):
        seconds, microseconds = values["received_ts"]
        return PastJob(
            exactly(int, values["id"]),
            JobStatus(values["status"]),
            tuple(exactly(dict, opcode) for opcode in values["ops"]),
            seconds + microseconds / 1e6,
        )
