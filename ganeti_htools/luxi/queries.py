"""What is asked of luxid, with typed answers; the methods are those of Ganeti's ``lib/luxi.py``.

All raise what :meth:`.Client.call` raises, which includes AnswerError for an answer of an unexpected shape.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, TypeVar

from ganeti_htools.luxi.client import PATIENCE, Client
from ganeti_htools.luxi.client import AnswerError as AnswerError

Value = TypeVar("Value")

NODE_FIELDS = (
    *("name", "mtotal", "mnode", "mfree", "dtotal", "dfree", "ctotal", "cnos", "offline", "drained"),
    *("vm_capable", "ndp/spindle_count", "group.uuid", "tags", "ndp/exclusive_storage"),
    *("sptotal", "spfree", "ndp/cpu_speed", "powered", "master_capable"),
)
INSTANCE_FIELDS = (
    *("name", "disk_usage", "be/memory", "be/vcpus", "status", "pnode", "snodes", "tags"),
    *("be/auto_balance", "disk_template", "be/spindle_use", "disk.sizes", "disk.spindles", "forthcoming"),
    "nic.networks",
)
GROUP_FIELDS = ("uuid", "name", "alloc_policy", "ipolicy", "tags", "diskparams")
NETWORK_FIELDS = ("name", "uuid", "group_list")

# The fields above, divided by how often they are read. If only one field is such that nodes have to be
# asked for it, luxid asks all nodes; configuration fields it has in memory (``Ganeti.Query.Node`` and
# ``Instance``). A status is read together with the wish and the node that it was found for.
NODE_LIVE_FIELDS = (
    "name",
    *("mtotal", "mnode", "mfree", "dtotal", "dfree", "ctotal", "cnos", "sptotal", "spfree"),
)
NODE_CONFIG_FIELDS = ("name", *(field for field in NODE_FIELDS if field not in NODE_LIVE_FIELDS))
INSTANCE_LIVE_FIELDS = ("name", "status", "admin_state", "pnode")
INSTANCE_CONFIG_FIELDS = (*(field for field in INSTANCE_FIELDS if field != "status"), "admin_state")
STORAGE_KEYS = (
    *("enabled_disk_templates", "volume_group_name", "file_storage_dir", "shared_file_storage_dir"),
    *("gluster_storage_dir", "diskparams"),
)
INFO_KEYS = (
    *("name", "master", "tags", "ipolicy", "default_hypervisor", "candidate_pool_size"),
    *STORAGE_KEYS,
)

LONGEST_WAIT = 89  # seconds that luxid waits for a job to change; it accepts no longer wait


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


async def _ask(
    client: Client,
    method: str,
    args: Sequence[object],
    read: Callable[[Any], Value],
    patience: float = PATIENCE,
) -> Value:
    """What ``read`` makes of the result of a request; it may raise TypeError, ValueError and LookupError."""

    def expect(result: Any) -> Value:
        with _expecting(method):
            return read(result)

    value: Value = await client.call(method, args, patience, expect=expect)
    return value


async def query(
    client: Client, what: str, fields: Sequence[str], qfilter: Sequence[object] | None = None
) -> list[Row]:
    """``fields`` of all objects of a kind (``node``, ``instance``...), or of those a filter matches."""
    return await _ask(client, "Query", [what, fields, qfilter], partial(rows, what, fields))


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
    return await _ask(client, "QueryClusterInfo", (), info)


def info(answer: Any) -> dict[str, Any]:
    """The cluster's own configuration in an answer to QueryClusterInfo."""
    with _expecting("QueryClusterInfo"):
        return _of(dict, answer)


class ClusterAnswers(NamedTuple):
    """What the answers to the requests say that describe a cluster."""

    nodes: list[Row]
    instances: list[Row]
    info: dict[str, Any]
    groups: list[Row]
    networks: list[Row]


async def whole_cluster(client: Client) -> ClusterAnswers:
    """All that decisions need, asked as Ganeti's tools ask, and the networks, which these do not ask for.

    For the first two requests luxid asks every node.
    """
    return ClusterAnswers(
        nodes=await query(client, "node", NODE_FIELDS),
        instances=await query(client, "instance", INSTANCE_FIELDS),
        info=await cluster_info(client),
        groups=await query(client, "group", GROUP_FIELDS),
        networks=await query(client, "network", NETWORK_FIELDS),
    )


async def tags(client: Client, kind: str, name: str = "") -> tuple[str, ...]:
    """Tags of a ``cluster`` (without name), ``nodegroup``, ``node``, ``instance`` or ``network``."""

    def read(answer: Any) -> tuple[str, ...]:
        return tuple(_of(str, tag) for tag in _listed(answer))

    return await _ask(client, "QueryTags", [kind, name], read)


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
        """Whether the job has ended."""
        return self in (JobStatus.CANCELED, JobStatus.SUCCESS, JobStatus.ERROR)


async def jobs(
    client: Client, ids: Sequence[int], fields: Sequence[str], patience: float = PATIENCE
) -> list[list[Any]]:
    """``fields`` of jobs, in the order of ``ids``; for a job that is not there, all but the id are None.

    Without ids: of all jobs in the queue.
    """
    return await each_job(client, ids, fields, lambda *cells: list(cells), patience)


async def each_job(
    client: Client,
    ids: Sequence[int],
    fields: Sequence[str],
    read: Callable[..., Value],
    patience: float = PATIENCE,
) -> list[Value]:
    """What ``read`` makes of the ``fields`` of each job; without ids, of each job in the queue.

    ``read`` may raise TypeError, ValueError and LookupError for fields of an unexpected shape.
    """

    def rows(answer: Any) -> list[Value]:
        return [read(*_listed(row, len(fields))) for row in _listed(answer, len(ids) or None)]

    return await _ask(client, "QueryJobs", [list(ids) or None, fields], rows, patience)


async def job_statuses(
    client: Client, ids: Sequence[int], patience: float = PATIENCE
) -> list[JobStatus | None]:
    """States of jobs, in the order of ``ids``; None for a job that is not there."""
    return await each_job(client, ids, ["status"], _status, patience) if ids else []


def _status(value: object) -> JobStatus | None:
    return None if value is None else JobStatus(value)


async def opcodes(client: Client, patience: float = PATIENCE) -> list[tuple[int, list[Mapping[str, Any]]]]:
    """The number and the opcodes of each job in the queue; no opcodes for a job that has just left it."""

    def read(number: object, work: object) -> tuple[int, list[Mapping[str, Any]]]:
        return _of(int, number), [_of(dict, opcode) for opcode in _listed(work or [])]

    return await each_job(client, [], ["id", "ops"], read, patience)


async def unfinished(client: Client) -> list[tuple[int, list[Mapping[str, Any]]]]:
    """The number and the opcodes of each job that has not ended."""
    states = ["|", *(["=", "status", status.value] for status in JobStatus if not status.final)]
    rows = await query(client, "job", ["id", "ops"], states)
    with _expecting("Query of jobs"):
        return [(_of(int, row.values["id"]), _listed(row.values.get("ops") or [])) for row in rows]


async def submit(
    client: Client, work: Sequence[Sequence[Mapping[str, Any]]], patience: float = PATIENCE
) -> list[int | str]:
    """Submit jobs, each a sequence of opcodes: the id of each, or why Ganeti did not take it.

    When NoAnswerError says that the request was sent, luxid may have accepted the jobs.
    """

    def read(answer: Any) -> list[int | str]:
        pairs = _listed(answer, len(work))
        results = [_of(int, told) if _of(bool, taken) else _of(str, told) for taken, told in pairs]
        numbers = [result for result in results if isinstance(result, int)]
        if len(set(numbers)) < len(numbers):
            raise ValueError
        return results

    return await _ask(client, "SubmitManyJobs", [work], read, patience)


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

    ``timeout`` is seconds, at most LONGEST_WAIT; ``patience`` for the answer is added. The connection is
    busy that long, so it should be one of its own.
    """
    args = [job, fields, known, log_serial, min(timeout, LONGEST_WAIT)]

    def read(answer: Any) -> Change | None:
        if answer == "nochange":
            return None
        news, log = answer
        for field, value in zip(fields, _listed(news), strict=True):
            if field == "status":
                JobStatus(value)
        return Change(news, [_entry(*_listed(entry)) for entry in log or ()])

    return await _ask(client, "WaitForJobChange", args, read, timeout + patience)


def _entry(serial: object, time: object, kind: object, message: object) -> list[Any]:
    return [_of(int, serial), time, kind, message]


async def cancel(client: Client, job: int, kill: bool = False) -> tuple[bool, str]:
    """Cancel a job that waits, or with ``kill`` one that runs: whether it worked, and what Ganeti says."""

    def read(answer: Any) -> tuple[bool, str]:
        done, told = answer
        return _of(bool, done), _of(str, told)

    return await _ask(client, "CancelJob", [job, kill], read)


async def watcher_pause(client: Client) -> float | None:
    """Until when ganeti-watcher does not act, in seconds of the epoch; None if it is not paused."""

    def read(answer: Any) -> float | None:
        [until] = _listed(answer, 1)
        return None if until is None else float(until)

    return await _ask(client, "QueryConfigValues", [["watcher_pause"]], read)


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
