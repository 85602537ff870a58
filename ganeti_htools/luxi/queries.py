"""What is asked of luxid, with typed answers; the methods are those of Ganeti's ``lib/luxi.py``.

All raise what :meth:`.Client.call` does, and AnswerError if Ganeti answers something else than expected.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from ganeti_htools.luxi.client import PATIENCE, Client, LuxiError

Value = TypeVar("Value")

NODE_FIELDS = (
    *("name", "mtotal", "mnode", "mfree", "dtotal", "dfree", "ctotal", "cnos", "offline", "drained"),
    *("vm_capable", "ndp/spindle_count", "group.uuid", "tags", "ndp/exclusive_storage"),
    *("sptotal", "spfree", "ndp/cpu_speed"),
)
INSTANCE_FIELDS = (
    *("name", "disk_usage", "be/memory", "be/vcpus", "status", "pnode", "snodes", "tags"),
    *("be/auto_balance", "disk_template", "be/spindle_use", "disk.sizes", "disk.spindles", "forthcoming"),
)
GROUP_FIELDS = ("uuid", "name", "alloc_policy", "ipolicy", "tags")

# The same at two rates. For any of the fields that nodes have to be asked for, luxid asks all of them;
# the others it has in memory (``Ganeti.Query.Node`` and ``Instance``). A status is told with what it was
# found for.
NODE_LIVE_FIELDS = (
    "name",
    *("mtotal", "mnode", "mfree", "dtotal", "dfree", "ctotal", "cnos", "sptotal", "spfree"),
)
NODE_CONFIG_FIELDS = ("name", *(field for field in NODE_FIELDS if field not in NODE_LIVE_FIELDS))
INSTANCE_LIVE_FIELDS = ("name", "status", "admin_state", "pnode")
INSTANCE_CONFIG_FIELDS = (*(field for field in INSTANCE_FIELDS if field != "status"), "admin_state")
INFO_KEYS = ("name", "master", "tags", "ipolicy", "default_hypervisor")

LONGEST_WAIT = 89  # seconds that luxid waits for a job to change; it takes no more for an answer


class AnswerError(LuxiError):
    """An answer of another shape than the request lets expect."""


def default_socket() -> str:
    """Where luxid listens on a master node; below ``GANETI_ROOTDIR`` as for Ganeti's own programs."""
    return os.environ.get("GANETI_ROOTDIR", "") + "/var/run/ganeti/socket/ganeti-query"


class Missing(Enum):
    """Why a field has no value: Ganeti's result states, 0 aside."""

    UNKNOWN = 1  # no such field in this version
    NO_DATA = 2
    UNAVAILABLE = 3  # not for this object
    OFFLINE = 4


class Row(NamedTuple):
    """An object: the fields that have a value, and why the others have none."""

    values: Mapping[str, Any]
    missing: Mapping[str, Missing]


@contextmanager
def _expecting(what: str) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError, LookupError) as error:
        raise AnswerError(f"{what}: the answer has an unexpected shape") from error


async def query(
    client: Client, what: str, fields: Sequence[str], qfilter: Sequence[object] | None = None
) -> list[Row]:
    """``fields`` of all objects of a kind (``node``, ``instance``...), or of those a filter matches."""
    return rows(what, fields, await client.call("Query", [what, fields, qfilter]))


def rows(what: str, fields: Sequence[str], answer: Any) -> list[Row]:
    """The rows in an answer to Query."""
    with _expecting(f"Query of {what}s"):
        return [_row(fields, cells) for cells in answer["data"]]


def _row(fields: Sequence[str], cells: Sequence[Sequence[Any]]) -> Row:
    values, missing = {}, {}
    for field, (status, value) in zip(fields, cells, strict=True):
        if status == 0:
            values[field] = value
        else:
            missing[field] = Missing(status)
    return Row(values, missing)


async def cluster_info(client: Client) -> dict[str, Any]:
    """The cluster's own configuration."""
    return info(await client.call("QueryClusterInfo"))


def info(answer: Any) -> dict[str, Any]:
    """The cluster's own configuration in an answer to QueryClusterInfo."""
    with _expecting("QueryClusterInfo"):
        return _of(dict, answer)


class ClusterAnswers(NamedTuple):
    """What the answers to the four requests say that describe a cluster."""

    nodes: list[Row]
    instances: list[Row]
    info: dict[str, Any]
    groups: list[Row]


async def whole_cluster(client: Client) -> ClusterAnswers:
    """All that decisions need, asked as Ganeti's tools ask. For the first two luxid asks every node."""
    return ClusterAnswers(
        nodes=await query(client, "node", NODE_FIELDS),
        instances=await query(client, "instance", INSTANCE_FIELDS),
        info=await cluster_info(client),
        groups=await query(client, "group", GROUP_FIELDS),
    )


async def tags(client: Client, kind: str, name: str = "") -> tuple[str, ...]:
    """Tags of a ``cluster`` (without name), ``nodegroup``, ``node``, ``instance`` or ``network``."""
    answer = await client.call("QueryTags", [kind, name])
    with _expecting("QueryTags"):
        return tuple(_of(str, tag) for tag in _listed(answer))


class JobStatus(Enum):
    """State of a job."""

    QUEUED = "queued"
    WAITING = "waiting"
    CANCELING = "canceling"
    RUNNING = "running"
    CANCELED = "canceled"
    SUCCESS = "success"
    ERROR = "error"

    @property
    def final(self) -> bool:
        """Whether it stays as it is."""
        return self in (JobStatus.CANCELED, JobStatus.SUCCESS, JobStatus.ERROR)


async def jobs(
    client: Client, ids: Sequence[int], fields: Sequence[str], patience: float = PATIENCE
) -> list[list[Any]]:
    """``fields`` of jobs, in the order of ``ids``, None for all but the id of a job that is not there.

    Without ids, of all jobs in the queue.
    """
    answer = await client.call("QueryJobs", [list(ids) or None, fields], patience)
    with _expecting("QueryJobs"):
        rows = [_listed(row, len(fields)) for row in _listed(answer)]
        return _listed(rows, len(ids) or None)


async def job_statuses(
    client: Client, ids: Sequence[int], patience: float = PATIENCE
) -> list[JobStatus | None]:
    """States of jobs, in the order of ``ids``; None for a job that is not there."""
    rows = await jobs(client, ids, ["status"], patience) if ids else []
    with _expecting("QueryJobs"):
        return [None if status is None else JobStatus(status) for (status,) in rows]


async def submit(
    client: Client, work: Sequence[Sequence[Mapping[str, Any]]], patience: float = PATIENCE
) -> list[int | str]:
    """Submit jobs, each a sequence of opcodes: the id of each, or why Ganeti did not take it.

    When NoAnswerError says that the request was sent, the jobs may be there all the same.
    """
    answer = await client.call("SubmitManyJobs", [work], patience)
    with _expecting("SubmitManyJobs"):
        pairs = _listed(answer, len(work))
        return [_of(int, told) if accepted else _of(str, told) for accepted, told in pairs]


class Change(NamedTuple):
    """News of a job: the fields asked for, and entries of its log: [serial, time, kind, message]."""

    fields: list[Any]
    log: list[list[Any]]


async def wait_for_change(
    client: Client,
    job: int,
    fields: Sequence[str],
    known: Sequence[Any] | None = None,
    log_serial: int | None = None,
    timeout: int = LONGEST_WAIT,
    patience: float = PATIENCE,
) -> Change | None:
    """Wait until ``fields`` of a job differ from ``known`` or its log is longer; None if nothing changed.

    ``timeout`` is seconds, at most LONGEST_WAIT, to which ``patience`` for the answer is added. The
    connection is busy that long: better one of its own.
    """
    args = [job, fields, known, log_serial, min(timeout, LONGEST_WAIT)]
    answer = await client.call("WaitForJobChange", args, timeout + patience)
    if answer == "nochange":
        return None
    with _expecting("WaitForJobChange"):
        news, log = answer
        return Change(_listed(news, len(fields)), [_listed(entry) for entry in log or ()])


async def cancel(client: Client, job: int, kill: bool = False) -> tuple[bool, str]:
    """Cancel a job that waits, or with ``kill`` one that runs: whether it worked, and what Ganeti says."""
    answer = await client.call("CancelJob", [job, kill])
    with _expecting("CancelJob"):
        done, told = answer
        return _of(bool, done), _of(str, told)


async def set_watcher_pause(client: Client, until: float | None) -> None:
    """Keep ganeti-watcher from acting until a time, in seconds of the epoch; None ends the pause."""
    await client.call("SetWatcherPause", [until])


def _of(kind: type[Value], value: object) -> Value:
    """The value, which has to be of that type and no other. Raises TypeError."""
    if type(value) is not kind:
        raise TypeError
    return value


def _listed(value: object, length: int | None = None) -> list[Any]:
    """The value, which has to be a list, perhaps of a known length. Raises TypeError, ValueError."""
    values = _of(list, value)
    if length is not None and len(values) != length:
        raise ValueError
    return values
