"""Answers as a running Ganeti 3.0 gave them to the same requests, names and figures aside."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from ganeti_htools.luxi.framing import decode, encode
from ganeti_htools.model.cluster import Nic
from ganeti_htools.simulator.connections import IDLE, Faults, serve_client
from ganeti_htools.simulator.control import Control, Mastership
from ganeti_htools.simulator.jobs import JobBehaviour, Jobs
from ganeti_htools.simulator.luxid import Luxid
from ganeti_htools.simulator.world import World, lose_node, with_role
from tests.support.worlds import delay, grouped, migrate, world


@asynccontextmanager
async def luxid(start: World | None = None) -> AsyncIterator[Luxid]:
    async with trio.open_nursery() as nursery:
        yield Luxid(Jobs(nursery, start or world(), JobBehaviour(10)))
        nursery.cancel_scope.cancel()


async def said(server: Luxid, message: bytes) -> tuple[Any, bool]:
    answer, goes_on = await server.answer(message)
    return decode(answer[:-1]), goes_on


async def ask(server: Luxid, method: str, *args: Any) -> Any:
    answer, goes_on = await said(server, encode({"method": method, "args": args})[:-1])
    assert goes_on
    assert answer["success"], answer
    return answer["result"]


async def test_networks_list_their_groups() -> None:
    start = grouped()
    first, second = start.cluster.groups
    groups = (replace(first, networks=("b", "a")), replace(second, networks=("a",)))
    (row, *others) = start.cluster.instances
    instances = (replace(row, nics=(Nic(), Nic(network="a"))), *others)
    cluster = replace(start.cluster, groups=groups, instances=instances)
    async with luxid(replace(start, cluster=cluster)) as server:
        told = await ask(server, "Query", "network", ["uuid", "group_list"], None)
        assert told["data"] == [
            [[0, "a"], [0, [["default", "bridged", "br0", ""], ["second", "bridged", "br0", ""]]]],
            [[0, "b"], [0, [["default", "bridged", "br0", ""]]]],
        ]
        told = await ask(server, "Query", "instance", ["nic.networks"], None)
        assert told["data"] == [[[0, [None, "a"]]], [[0, []]], [[0, []]]]


async def test_query_returns_any_fields_in_any_order() -> None:
    async with luxid() as server:
        assert await ask(server, "Query", "node", ["mfree", "nosuchfield", "name"], ["=", "name", "two"]) == {
            "fields": [
                {
                    "name": "mfree",
                    "title": "MFree",
                    "kind": "unit",
                    "doc": "Memory available for instance allocations",
                },
                {
                    "name": "nosuchfield",
                    "title": "nosuchfield",
                    "kind": "unknown",
                    "doc": "Unknown field 'nosuchfield'",
                },
                {"name": "name", "title": "Node", "kind": "text", "doc": "Node name"},
            ],
            "data": [[[0, 4000], [1, None], [0, "two"]]],
        }


async def test_silent_and_offline_nodes_have_no_live_data() -> None:
    start = lose_node(with_role(world(), "three", offline=True, drained=False), "two")
    async with luxid(start) as server:
        answer = await ask(server, "Query", "node", ["name", "mtotal", "offline", "spfree"], None)
        assert answer["data"] == [
            [[0, "one"], [0, 4096], [0, False], [0, 0]],
            [[0, "two"], [2, None], [0, False], [2, None]],
            [[0, "three"], [4, None], [0, True], [4, None]],
            [[0, "boss"], [0, 4096], [0, False], [0, 0]],
        ]


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        (["|", ["=", "name", "mirrored"], ["==", "name", "stuck"]], ["mirrored", "stuck"]),
        (["&", ["=", "pnode", "one"], ["!", ["=", "disk_template", "drbd"]]], ["shared", "stuck"]),
        (["!=", "name", "shared"], ["mirrored", "stuck"]),
        (["=[]", "snodes", "two"], ["mirrored"]),
        (["?", "forthcoming"], []),
    ],
)
async def test_filters_select_rows(expression: Any, names: list[str]) -> None:
    async with luxid() as server:
        answer = await ask(server, "Query", "instance", ["name"], expression)
        assert [row[0][1] for row in answer["data"]] == names


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            b'{"method":"NoSuchMethod","args":[]}',
            'Unable to parse LUXI request method: Invalid string value for type LuxiReq: "NoSuchMethod"',
        ),
        (b"garbage", "parsing top-level JSON message: Invalid JSON: "),
        (b'{"method":"QueryClusterInfo"}', "key 'args' not found, object contains only [\"method\"]"),
        (b'{"args":[],"method":"QueryNodes"}', "Cannot convert value '[]', error: "),
        (b'{"method":"Query","args":["nosuch",["name"],null]}', "Can't parse value 'nosuch' as neither"),
        (b'{"method":"Query","args":["node",["name"],["bad"]]}', "Unknown filter operand 'bad'"),
        (b'{"method":"Query","args":["node",["name"],5]}', "Cannot convert value"),
        (b'{"method":"Query","args":["node",[[]],null]}', "Cannot convert value"),
        (b'{"method":"Query","args":["node",["name"],' + b'["!",' * 900 + b"1" + b"]" * 901 + b"}", "Cannot"),
        (b'{"method":"WaitForJobChange","args":[1,["status"],null,0,"x"]}', "Cannot convert value"),
        (b'{"method":"QueryJobs","args":[["x"],["status"]]}', "Cannot convert value"),
        (
            b'{"method":"SubmitManyJobs","args":[[[{"OP_ID":"OP_NOSUCH"}]]]}',
            "SubmitManyJobs: key 'reason' not found, object contains only [\"OP_ID\"]",
        ),
        (b'{"method":"SubmitJob","args":[5]}', "SubmitJob: "),
    ],
)
async def test_unreadable_request_ends_the_connection(message: bytes, text: str) -> None:
    async with luxid() as server:
        answer, goes_on = await said(server, message)
        assert (answer["success"], goes_on) == (False, False)
        assert answer["result"].startswith("Failed to parse request: ")
        assert text in answer["result"]


@pytest.mark.parametrize(
    ("method", "args", "error"),
    [
        (
            "QueryTags",
            ["instance", "nosuch"],
            ["OpPrereqError", ["Instance name nosuch not found", "unknown_entity"]],
        ),
        (
            "QueryNodes",
            [[], ["nosuch"], False],
            ["OpPrereqError", ["Unknown output fields selected: nosuch", "wrong_input"]],
        ),
        (
            "QueryNodes",
            [[], ["name"], True],
            ["OpPrereqError", ["Sync queries are not allowed", "wrong_input"]],
        ),
        ("WaitForJobChange", [99999, ["status"], None, 0, 2], ["JobLost", ["Can't load job file"]]),
    ],
)
async def test_refusal_keeps_the_connection(method: str, args: list[Any], error: list[Any]) -> None:
    async with luxid() as server:
        answer = await said(server, encode({"method": method, "args": args})[:-1])
        assert answer == ({"success": False, "result": error}, True)


async def test_other_methods_answer() -> None:
    async with luxid() as server:
        assert await ask(server, "QueryNodes", ["one"], ["name", "pinst_cnt"], False) == [["one", 3]]
        assert await ask(server, "QueryGroups", ["nosuch"], ["name"], False) == []
        assert await ask(server, "QueryConfigValues", ["cluster_name", "master_node"]) == ["cluster", "boss"]
        assert await ask(server, "QueryTags", "cluster", "") == []
        assert (await ask(server, "QueryClusterInfo"))["master"] == "boss"
        fields = await ask(server, "QueryFields", "group", ["name"])
        assert fields == {"fields": [{"name": "name", "title": "Group", "kind": "text", "doc": "Group name"}]}
        assert await ask(server, "SetWatcherPause", 1e9) == 1e9
        assert await ask(server, "QueryConfigValues", ["watcher_pause"]) == [1e9]
        assert await ask(server, "SetWatcherPause", None) is None


async def test_jobs_are_submitted_and_queried(autojump_clock: MockClock) -> None:
    async with luxid() as server:
        assert await ask(server, "SubmitManyJobs", [[migrate("mirrored")], [delay(3)]]) == [
            [True, 1],
            [True, 2],
        ]
        assert await ask(server, "SubmitJob", [migrate("stuck")]) == 3
        await trio.sleep(5)
        told = await ask(server, "QueryJobs", [2, 99999, "1"], ["id", "status", "summary"])
        assert told == [
            [2, "success", ["TEST_DELAY(3)"]],
            [99999, None, None],
            [1, "running", ["INSTANCE_MIGRATE(mirrored)"]],
        ]
        assert await ask(server, "WaitForJobChange", 2, ["status"], None, 1, 5) == [["success"], []]
        assert await ask(server, "CancelJob", 2, False) == [False, "Job 2 not found in queue"]
        assert await ask(server, "ArchiveJob", 99999) is False
        await trio.sleep(10)
        _, result = await ask(server, "QueryJobs", [1, 3], ["opstatus", "opresult"])
        assert result[0] == ["error"]
        assert result[1][0][0] == "OpPrereqError"
        assert [row[0] for row in await ask(server, "QueryJobs", [], ["id"])] == [1, 2, 3]


async def test_known_timestamp_is_no_change(autojump_clock: MockClock) -> None:
    async with luxid() as server:
        await ask(server, "SubmitJob", [delay(10)])
        await trio.sleep(5)
        known, _ = await ask(server, "WaitForJobChange", 1, ["start_ts", "oplog"], None, None, 5)
        began = trio.current_time()
        assert await ask(server, "WaitForJobChange", 1, ["start_ts", "oplog"], known, 1, 2) == [known, []]
        assert trio.current_time() == began + 2


async def test_job_without_opcodes_succeeds() -> None:
    async with luxid() as server:
        assert await ask(server, "SubmitJob", []) == 1
        await wait_all_tasks_blocked()
        assert await ask(server, "QueryJobs", [1], ["status", "priority", "ops"]) == [["success", 0, []]]


async def test_requests_may_arrive_in_pieces() -> None:
    async with luxid() as server, trio.open_nursery() as nursery:
        here, there = memory_stream_pair()
        nursery.start_soon(serve_client, there, server.answer, Faults())
        request = encode({"method": "QueryTags", "args": ["cluster", ""]})
        for byte in request + request[:-1]:
            await here.send_all(bytes([byte]))
            await wait_all_tasks_blocked()
        assert await here.receive_some() == b'{"success":true,"result":[]}\x03'
        await here.send_all(request[-1:])
        assert await here.receive_some() == b'{"success":true,"result":[]}\x03'
        await here.aclose()


async def test_answers_are_delayed_and_cut_as_ordered(autojump_clock: MockClock) -> None:
    async with luxid() as server, trio.open_nursery() as nursery:
        here, there = memory_stream_pair()
        trouble = Faults(seconds=5, cuts=1)
        nursery.start_soon(serve_client, there, server.answer, trouble)
        began = trio.current_time()
        await here.send_all(encode({"method": "QueryTags", "args": ["cluster", ""]}))
        received = b"".join([bytes(data) async for data in here])
        assert trio.current_time() == began + 5
        assert received == b'{"success":true,"result":[]}\x03'[: len(received)]
        assert 0 < len(received) < len(b'{"success":true,"result":[]}\x03')
        assert trouble.cuts == 0


async def test_requests_are_dropped_as_ordered(autojump_clock: MockClock) -> None:
    async with luxid() as server, trio.open_nursery() as nursery:
        here, there = memory_stream_pair()
        nursery.start_soon(serve_client, there, server.answer, Faults(drops=1))
        await here.send_all(encode({"method": "SubmitJob", "args": [[delay(1)]]}))
        assert await here.receive_some() == b""
        assert decode((await server.answer(b'{"method":"QueryJobs","args":[[],["id"]]}'))[0][:-1]) == {
            "success": True,
            "result": [],
        }


async def test_idle_client_is_disconnected(autojump_clock: MockClock) -> None:
    async with luxid() as server:
        here, there = memory_stream_pair()
        await here.send_all(b'{"method":')
        await serve_client(there, server.answer, Faults())
        assert trio.current_time() >= IDLE
        assert await here.receive_some() == b""


async def test_orders_change_the_simulation(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        jobs, trouble, mastership = Jobs(nursery, world(), JobBehaviour(10)), Faults(), Mastership()
        control = Control(jobs, trouble, mastership)

        async def tell(method: str, *args: Any) -> tuple[bool, Any]:
            answer, goes_on = await control.answer(encode({"method": method, "args": args})[:-1])
            assert goes_on
            told = decode(answer[:-1])
            assert isinstance(told, dict)
            return told["success"], told["result"]

        assert await tell("slow", 2) == (True, None)
        assert await tell("cut", 3) == (True, None)
        assert await tell("drop", 1) == (True, None)
        assert await tell("odd", "QueryJobs", [[1], None]) == (True, None)
        assert trouble == Faults(2, 3, 1, {"QueryJobs": [[1], None]})
        assert await tell("job_seconds", 1) == (True, None)
        assert await tell("fail", "MIGRATE", 1) == (True, None)
        jobs.submit([[migrate("mirrored")]])
        await trio.sleep(2)
        assert await tell("jobs") == (True, [[1, "error"]])
        jobs.submit([[delay(1e5)]])
        await trio.sleep(2)
        assert await tell("jobs") == (True, [[1, "error"], [2, "running"]])
        assert await tell("finish") == (True, None)
        await trio.sleep(2)
        assert await tell("jobs") == (True, [[1, "error"], [2, "success"]])
        assert await tell("lose", "one") == (True, None)
        assert not jobs.world.answers("one")
        assert await tell("find", "one") == (True, None)
        assert jobs.world == world()
        assert await tell("master", False) == (True, None)
        assert not mastership.held
        for wrong in (
            ("lose", "nobody"),
            ("slow", -1),
            ("slow",),
            ("fail", "("),
            ("nothing",),
            ("cut", "x"),
            ("odd", "QueryJobs", 1),
        ):
            success, why = await tell(*wrong)
            assert not success
            assert why
        nursery.cancel_scope.cancel()
