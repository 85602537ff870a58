"""luxid's methods, on the simulated world and its jobs."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import orjson

from ganeti_htools.luxi.framing import encode
from ganeti_htools.model.errors import DataError
from ganeti_htools.simulator import tables
from ganeti_htools.simulator.fields import QueryTable
from ganeti_htools.simulator.job_table import JOBS
from ganeti_htools.simulator.jobs import Jobs, QueuedJob
from ganeti_htools.simulator.locks import LOCKS, locks
from ganeti_htools.simulator.opcodes import OpcodeError
from ganeti_htools.simulator.queries import (
    RowTexts,
    as_json,
    classic_query,
    cluster_info,
    field_definitions,
    matcher,
    query,
)
from ganeti_htools.simulator.tags import tags_of_object

_TABLES: Mapping[str, QueryTable] = {
    "node": tables.NODES,
    "instance": tables.INSTANCES,
    "group": tables.GROUPS,
    "network": tables.NETWORKS,
    "job": JOBS,
    "lock": LOCKS,
}


class Luxid:
    """Answers requests."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._instance_texts = RowTexts()
        self._methods: Mapping[str, tuple[int, Callable[..., Awaitable[Any]]]] = {
            "Query": (3, self._query),
            "QueryFields": (2, self._query_fields),
            "QueryNodes": (3, self._classic("node")),
            "QueryInstances": (3, self._classic("instance")),
            "QueryGroups": (3, self._classic("group")),
            "QueryNetworks": (3, self._classic("network")),
            "QueryJobs": (2, self._query_jobs),
            "QueryTags": (2, self._query_tags),
            "QueryClusterInfo": (0, self._query_cluster_info),
            "QueryConfigValues": (1, self._query_config_values),
            "SubmitJob": (1, self._submit_job),
            "SubmitManyJobs": (1, self._submit_many_jobs),
            "WaitForJobChange": (5, self._wait_for_job_change),
            "CancelJob": (2, self._cancel_job),
            "ArchiveJob": (1, self._archive_job),
            "SetWatcherPause": (1, self._set_watcher_pause),
            "SetDrainFlag": (1, self._set_drain_flag),
        }

    async def answer(self, message: bytes) -> tuple[bytes, bool]:
        """Return the answer to a request, and whether the connection stays open.

        An unreadable request ends it.
        """
        try:
            method, args = self._read(message)
            try:
                result = await method(*args)
            except OpcodeError as error:
                return encode({"success": False, "result": error.encoded}), True
        except DataError as error:
            return encode({"success": False, "result": f"Failed to parse request: {error}"}), False
        return encode({"success": True, "result": result}), True

    def _read(self, message: bytes) -> tuple[Callable[..., Awaitable[Any]], list[Any]]:
        try:
            request = orjson.loads(message)
        except orjson.JSONDecodeError as error:
            raise DataError(f"parsing top-level JSON message: Invalid JSON: {error}") from None
        if not isinstance(request, dict):
            raise DataError("parsing top-level JSON message: Unable to read JSObject")
        for key in ("method", "args"):
            if key not in request:
                names = ",".join(f'"{name}"' for name in request)
                raise DataError(f"key '{key}' not found, object contains only [{names}]")
        name, args = request["method"], request["args"]
        if name not in self._methods if isinstance(name, str) else True:
            raise DataError(
                "Unable to parse LUXI request method: Invalid string value for type LuxiReq: " + as_json(name)
            )
        count, method = self._methods[name]
        if not isinstance(args, list) or len(args) != count:
            raise _unreadable(args, f"expected {count} arguments")
        return method, args

    def _rows(self, kind: str, names: Sequence[str] = ()) -> Sequence[Any]:
        cluster = self._jobs.world.cluster
        match kind:
            case "node":
                return cluster.nodes
            case "instance":
                return cluster.instances
            case "group":
                return cluster.groups
            case "network":
                return tables.networks(self._jobs.world)
            case "job":
                return self._jobs.all() if "archived" in names else self._jobs.unarchived()
            case "lock":
                return locks(self._jobs.world, self._jobs.unarchived())
            case _:
                return ()

    async def _query(self, kind: Any, names: Any, expression: Any) -> Any:
        table, names = _table(kind), _texts(names)
        try:
            matches = matcher(table, expression)
        except DataError as error:
            raise _unreadable([kind, names, expression], str(error)) from None
        known = self._instance_texts if kind == "instance" else None
        return query(self._jobs.world, table, self._rows(kind, names), names, matches, known)

    async def _query_fields(self, kind: Any, names: Any) -> Any:
        return {"fields": field_definitions(_table(kind), None if names is None else _texts(names))}

    def _classic(self, kind: str) -> Callable[..., Awaitable[Any]]:
        async def answer(wanted: Any, names: Any, lock: Any) -> Any:
            if lock:
                raise OpcodeError("OpPrereqError", "Sync queries are not allowed", "wrong_input")
            rows = self._rows(kind)
            return classic_query(self._jobs.world, _TABLES[kind], rows, _texts(wanted), _texts(names))

        return answer

    async def _query_jobs(self, wanted: Any, names: Any) -> Any:
        names = _texts(names)
        if not isinstance(wanted, list | None):
            raise _unreadable(wanted, "Unable to read [JobId]")
        numbers = [_number(number) for number in wanted or ()]
        jobs = [job for job in self._jobs.unarchived() if not numbers or job.number in numbers]
        found = {row[0]: row[1:] for row in self._values(jobs, ["id", *names])}
        if not numbers:
            return list(found.values())
        nothing = {number: [number if name == "id" else None for name in names] for number in numbers}
        return [found.get(number, nothing[number]) for number in numbers]

    def _values(self, jobs: Sequence[QueuedJob], names: Sequence[str]) -> list[list[Any]]:
        return classic_query(self._jobs.world, JOBS, jobs, (), names)

    async def _query_tags(self, kind: Any, name: Any) -> Any:
        kinds = ("cluster", "node", "instance", "nodegroup", "network")
        if kind not in kinds or not isinstance(name, str | None):
            raise _unreadable([kind, name], f"expected one of {', '.join(kinds)}, and a name")
        return tags_of_object(self._jobs.world, kind, name or "")

    async def _query_cluster_info(self) -> Any:
        return cluster_info(self._jobs.world)

    async def _query_config_values(self, names: Any) -> Any:
        values = {
            "cluster_name": "cluster",
            "master_node": self._jobs.world.master,
            "watcher_pause": self._jobs.paused,
            "drain_flag": self._jobs.drained,
        }
        return [values.get(name) for name in _texts(names)]

    async def _submit_job(self, opcodes: Any) -> Any:
        return self._submit("SubmitJob", [opcodes])[0]

    async def _submit_many_jobs(self, lists: Any) -> Any:
        return [[True, number] for number in self._submit("SubmitManyJobs", lists)]

    def _submit(self, method: str, lists: Any) -> list[int]:
        try:
            if not isinstance(lists, list) or not all(isinstance(opcodes, list) for opcodes in lists):
                raise DataError("expected lists of opcodes")
            return self._jobs.submit(lists)
        except DataError as error:
            raise DataError(f"{method}: {error}") from None

    async def _wait_for_job_change(
        self, number: Any, names: Any, known: Any, newest: Any, patience: Any
    ) -> Any:
        number, names = _number(number), _texts(names)
        newest = None if newest is None else _number(newest)
        if type(patience) not in (int, float):
            raise _unreadable(patience, "Unable to read Int")

        def fields(job: QueuedJob) -> list[Any]:
            """Return the values in the form in which the client repeats them."""
            values: list[Any] = orjson.loads(orjson.dumps(self._values([job], names)[0]))
            return values

        return await self._jobs.wait_for_change(number, fields, known, newest, max(0.0, patience))

    async def _cancel_job(self, number: Any, _kill: Any) -> Any:
        return self._jobs.cancel(_number(number))

    async def _archive_job(self, number: Any) -> Any:
        return self._jobs.archive(_number(number))

    async def _set_watcher_pause(self, until: Any) -> Any:
        if until is not None and type(until) not in (int, float):
            raise _unreadable(until, "Unable to read Double")
        self._jobs.paused = until
        return until

    async def _set_drain_flag(self, flag: Any) -> Any:
        self._jobs.drained = bool(flag)
        return True


def _unreadable(value: Any, why: str) -> DataError:
    return DataError(f"Cannot convert value '{as_json(value)}', error: {why}")


def _table(kind: Any) -> QueryTable:
    if not isinstance(kind, str) or kind not in _TABLES:
        raise _unreadable(kind, f"Can't parse value '{kind}' as neitherQueryTypeLuxi nor QueryTypeOp")
    return _TABLES[kind]


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _unreadable(value, "Unable to read [String]")
    return value


def _number(value: Any) -> int:
    """Return the number of a job, which older clients send as text."""
    if type(value) is int:
        return value
    if isinstance(value, str) and value.isdecimal() and len(value) < 18:
        return int(value)
    raise _unreadable(value, "Unable to read JobId")
