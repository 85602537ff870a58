"""The columns of queries about jobs."""

from collections.abc import Callable
from typing import Any

from ganeti_htools.simulator.fields import NORMAL, UNAVAILABLE, Entry, Field, QueryTable, field
from ganeti_htools.simulator.jobs import QueuedJob, QueuedOpcode
from ganeti_htools.simulator.opcodes import summary
from ganeti_htools.simulator.world import World


def _each(value: Callable[[QueuedOpcode], Any]) -> Callable[[QueuedJob], Any]:
    return lambda job: [value(op) for op in job.ops]


def _optional(title: str, doc: str, value: Callable[[QueuedJob], Any]) -> Field:
    def entry(_world: World, job: QueuedJob) -> Entry:
        found = value(job)
        return (UNAVAILABLE, None) if found is None else (NORMAL, found)

    return Field(title, "other", doc + " (tuple containing seconds and microseconds)", entry)


_PRIORITY = 0

JOBS = QueryTable(
    {
        "id": field("ID", "number", "Job ID", lambda job: job.number),
        "status": field("Status", "text", "Job status", lambda job: job.state.value),
        "priority": field(
            "Priority",
            "number",
            "Current job priority",
            lambda job: min((op.opcode.get("priority") or _PRIORITY for op in job.ops), default=_PRIORITY),
        ),
        "archived": field("Archived", "bool", "Whether job is archived", lambda job: job.archived),
        "ops": field("OpCodes", "other", "List of all opcodes", _each(lambda op: op.opcode)),
        "opresult": field("OpCode_result", "other", "List of opcodes results", _each(lambda op: op.result)),
        "opstatus": field(
            "OpCode_status", "other", "List of opcodes status", _each(lambda op: op.state.value)
        ),
        "oplog": field("OpCode_log", "other", "List of opcode output logs", _each(lambda op: op.log)),
        "opstart": field(
            "OpCode_start",
            "other",
            "List of opcode start timestamps (before acquiring locks)",
            _each(lambda op: op.start),
        ),
        "opexec": field(
            "OpCode_exec",
            "other",
            "List of opcode execution start timestamps (after acquiring locks)",
            _each(lambda op: op.start),
        ),
        "opend": field(
            "OpCode_end",
            "other",
            "List of opcode execution end timestamps",
            _each(lambda op: op.end),
        ),
        "summary": field(
            "Summary", "other", "List of per-opcode summaries", _each(lambda op: summary(op.opcode))
        ),
        "received_ts": _optional("Received", "Timestamp of when job was received", lambda job: job.received),
        "start_ts": _optional("Start", "Timestamp of job start", lambda job: job.start),
        "end_ts": _optional("End", "Timestamp of job end", lambda job: job.end),
    },
    name="id",
)
