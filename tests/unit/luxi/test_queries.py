from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest
import trio

from ganeti_htools.luxi import job_queries, queries
from ganeti_htools.luxi.client import AnswerError, LuxiClient, RefusedError
from ganeti_htools.luxi.job_queries import JobChange, JobStatus
from ganeti_htools.luxi.queries import MissingReason, QueryRow
from tests.support.clusters import Shape, cluster
from tests.support.luxi_answers import answers
from tests.support.memory_luxid import MemoryLuxid

Asking = Callable[[LuxiClient], Awaitable[Any]]


async def exchange(asking: Asking, *results: Any, success: bool = True) -> tuple[list[Any], Any]:
    """The requests made and what came of them, when luxid answers them with ``results``."""
    luxid, requests = MemoryLuxid(), []

    async def serve() -> None:
        connection = await luxid.accept() if results else None
        for result in results:
            assert connection
            requests.append(orjson.loads((await connection.hear())[:-1]))
            await connection.answer(result, success)

    async with LuxiClient("/socket", luxid.connect) as client, trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        outcome: Any
        try:
            outcome = await asking(client)
        except (AnswerError, RefusedError) as error:
            outcome = error
    return requests, outcome


def table(*data: list[list[Any]]) -> dict[str, Any]:
    return {"fields": [{"name": "name", "title": "Name", "kind": "text", "doc": "Name"}], "data": data}


def cells(*values: Any) -> list[Any]:
    return list(values)


@pytest.mark.parametrize(
    ("asking", "request_", "result", "outcome"),
    [
        (
            lambda luxi: queries.query(luxi, "node", ["name", "mfree"]),
            ["Query", ["node", ["name", "mfree"], None]],
            table([[0, "node1"], [0, 12]], [[0, "node2"], [4, None]]),
            [
                QueryRow({"name": "node1", "mfree": 12}, {}),
                QueryRow({"name": "node2"}, {"mfree": MissingReason.OFFLINE}),
            ],
        ),
        (
            lambda luxi: queries.query(luxi, "node", ["a", "b", "c"], ["=", "name", "node2"]),
            ["Query", ["node", ["a", "b", "c"], ["=", "name", "node2"]]],
            table([[1, None], [2, None], [3, None]]),
            [
                QueryRow(
                    {},
                    {"a": MissingReason.UNKNOWN, "b": MissingReason.NO_DATA, "c": MissingReason.UNAVAILABLE},
                )
            ],
        ),
        (
            lambda luxi: queries.query(luxi, "network", ["name"]),
            ["Query", ["network", ["name"], None]],
            table(),
            [],
        ),
        (queries.cluster_info, ["QueryClusterInfo", []], {"name": "cluster"}, {"name": "cluster"}),
        (
            lambda luxi: job_queries.each_job(luxi, [1, 99], ["id", "status", "summary"], cells),
            ["QueryJobs", [[1, 99], ["id", "status", "summary"]]],
            [[1, "success", ["CLUSTER_POST_INIT"]], [99, None, None]],
            [[1, "success", ["CLUSTER_POST_INIT"]], [99, None, None]],
        ),
        (
            lambda luxi: job_queries.each_job(luxi, [], ["id"], cells),
            ["QueryJobs", [None, ["id"]]],
            [[1], [2], [3]],
            [[1], [2], [3]],
        ),
        (
            lambda luxi: job_queries.job_statuses(luxi, [26, 27, 99]),
            ["QueryJobs", [[26, 27, 99], ["status"]]],
            [["running"], ["success"], [None]],
            [JobStatus.RUNNING, JobStatus.SUCCESS, None],
        ),
        (
            lambda luxi: job_queries.submit(
                luxi, [[{"OP_ID": "OP_A"}, {"OP_ID": "OP_B"}], [{"OP_ID": "OP_C"}]]
            ),
            ["SubmitManyJobs", [[[{"OP_ID": "OP_A"}, {"OP_ID": "OP_B"}], [{"OP_ID": "OP_C"}]]]],
            [[True, 26], [False, "Job queue is drained"]],
            [26, "Job queue is drained"],
        ),
        (
            lambda luxi: job_queries.wait_for_change(luxi, 7, ["status"], timeout=5),
            ["WaitForJobChange", [7, ["status"], None, None, 5]],
            [["success"], []],
            JobChange(["success"], []),
        ),
        (
            lambda luxi: job_queries.wait_for_change(luxi, 7, ["status"], ["running"], 3),
            ["WaitForJobChange", [7, ["status"], ["running"], 3, 89]],
            [["running"], [[4, [1795242548, 5], "message", "text"]]],
            JobChange(["running"], [[4, [1795242548, 5], "message", "text"]]),
        ),
        (
            lambda luxi: job_queries.wait_for_change(luxi, 7, ["status"], ["running"], 3, timeout=1000),
            ["WaitForJobChange", [7, ["status"], ["running"], 3, 89]],
            "nochange",
            None,
        ),
        (
            lambda luxi: job_queries.cancel(luxi, 1),
            ["CancelJob", [1, False]],
            [False, "Job 1 not found in queue"],
            (False, "Job 1 not found in queue"),
        ),
        (queries.watcher_pause, ["QueryConfigValues", [["watcher_pause"]]], [1795242548], 1795242548.0),
        (queries.watcher_pause, ["QueryConfigValues", [["watcher_pause"]]], [None], None),
    ],
)
async def test_requests_have_typed_answers(
    asking: Asking, request_: list[Any], result: Any, outcome: Any
) -> None:
    requests, told = await exchange(asking, result)
    assert requests == [dict(zip(("method", "args"), request_, strict=True))]
    assert told == outcome


WRONG: list[tuple[Asking, list[Any]]] = [
    (
        lambda luxi: queries.query(luxi, "node", ["name"]),
        [
            None,
            [],
            {},
            {"data": None},
            {"data": [[]]},
            {"data": [[[0, 1, 2]]]},
            {"data": [[[0, "a"], [0, "b"]]]},
            {"data": [[[5, None]]]},
            {"data": [["ab"]]},
            {"data": [[[None, 1]]]},
            {"data": 3},
        ],
    ),
    (queries.cluster_info, [None, [], "a", 1]),
    (job_queries.unfinished, [{"data": [[[0, "1"], [0, []]]]}, {"data": [[[0, 1], [0, ["OP_TEST_DELAY"]]]]}]),
    (
        lambda luxi: job_queries.each_job(luxi, [1], ["id"], cells),
        [None, [], [[1], [2]], [[]], [1], [[1, 2]], {}],
    ),
    (lambda luxi: job_queries.job_statuses(luxi, [1]), [[["finished"]], [[1]], [["success", 1]]]),
    (
        lambda luxi: job_queries.submit(luxi, [[{"OP_ID": "OP_A"}]]),
        [None, [], [[True, 1], [True, 2]], [[True, "1"]], [[True, True]], [[False, 1]], [[True]], [1]],
    ),
    (
        lambda luxi: job_queries.wait_for_change(luxi, 7, ["status"]),
        [None, [], [[], []], [["a"]], [["a"], [1]], "no"],
    ),
    (lambda luxi: job_queries.cancel(luxi, 7), [None, [], [1, "a"], [True, None], [True]]),
]


@pytest.mark.parametrize(
    ("asking", "answer"), [(asking, answer) for asking, wrong in WRONG for answer in wrong]
)
async def test_answer_of_another_shape_is_refused(asking: Asking, answer: Any) -> None:
    _, outcome = await exchange(asking, answer)
    assert isinstance(outcome, AnswerError)
    assert str(outcome).endswith(": the answer has an unexpected shape")


async def test_lost_job_has_no_status() -> None:
    _, outcome = await exchange(
        lambda luxi: job_queries.wait_for_change(luxi, 99999, ["status"]),
        ["JobLost", ["Can't load job file"]],
        success=False,
    )
    assert isinstance(outcome, RefusedError)
    assert outcome.kind == "JobLost"
    assert str(outcome) == "WaitForJobChange: JobLost: Can't load job file"


async def test_no_request_for_no_jobs() -> None:
    assert await exchange(lambda luxi: job_queries.job_statuses(luxi, [])) == ([], [])


# What Ganeti's tools send, byte for byte, and a few fields more.
ASKED = [
    b'{"method":"Query","args":["node",["name","mtotal","mnode","mfree","dtotal","dfree","ctotal","cnos",'
    b'"offline","drained","vm_capable","ndp/spindle_count","group.uuid","tags","ndp/exclusive_storage",'
    b'"sptotal","spfree","ndp/cpu_speed","powered","master_capable","uuid","master_candidate"],null]}',
    b'{"method":"Query","args":["instance",["name","disk_usage","be/memory","be/vcpus","status","pnode",'
    b'"snodes","tags","be/auto_balance","disk_template","be/spindle_use","disk.sizes","disk.spindles",'
    b'"forthcoming","nic.networks","uuid"],null]}',
    b'{"method":"QueryClusterInfo","args":[]}',
    b'{"method":"Query","args":["group",["uuid","name","alloc_policy","ipolicy","tags","diskparams"],null]}',
    b'{"method":"Query","args":["network",["name","uuid","group_list"],null]}',
]


async def test_whole_cluster_takes_five_requests() -> None:
    told = answers(cluster(1, Shape(nodes=3, instances=4, offline=1, networks=True)))
    results = [told[name] for name in ("node", "instance", "QueryClusterInfo", "group", "network")]
    requests, outcome = await exchange(queries.whole_cluster, *results)
    assert [orjson.dumps(request) for request in requests] == ASKED
    parts = (outcome.nodes, outcome.instances, outcome.groups, outcome.networks)
    assert [len(part) for part in parts] == [3, 4, 1, 2]
    assert outcome.info == told["QueryClusterInfo"]


def test_final_states_of_jobs() -> None:
    assert {status.value for status in JobStatus if status.final} == {"canceled", "success", "error"}


def test_default_socket_follows_ganeti_rootdir(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GANETI_ROOTDIR", raising=False)
    assert queries.default_socket() == "/var/run/ganeti/socket/ganeti-query"
    monkeypatch.setenv("GANETI_ROOTDIR", "/tmp/root")
    assert queries.default_socket() == "/tmp/root/var/run/ganeti/socket/ganeti-query"
