import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
from trio.testing import MockClock

from ganeti_htools.client.protocol import Refusal, RefusalError
from htoolsd.config.settings import Settings
from htoolsd.events import DaemonEvent, EventStream
from htoolsd.history.entries import Called
from htoolsd.socket.access import Access
from htoolsd.socket.methods import Args, File, Method, Methods
from htoolsd.socket.roles import Role, Roles
from htoolsd.socket.server import Server
from tests.support.memory_peer import MemoryPeer, open_access, open_file, wait_closed
from tests.support.settings import settings

LIMITS = settings(connections=2, connections_per_user=2, message_mib=1)


def server_with(run: Callable[[Args, File], Awaitable[object]], limits: Settings = LIMITS) -> Server:
    methods = Methods()
    methods.add(Method("try", 1, "What is tried.", {"word": "any"}, Role.DECIDE, run))
    return Server(methods, limits, open_access(), EventStream())


async def echo(args: Args, _file: File) -> object:
    return args.get("word")


@asynccontextmanager
async def served(server: Server, peer: MemoryPeer) -> AsyncIterator[None]:
    """The server talks to ``peer`` meanwhile; it must have ended the conversation afterwards."""

    async def converse() -> None:
        await server.serve(peer)
        await peer.hang_up()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(converse)
        yield


def refused(answer: Any) -> tuple[str, str]:
    assert answer["success"] is False
    assert answer["result"].keys() == {"error", "message"}
    assert "\n" not in answer["result"]["message"]
    return answer["result"]["error"], answer["result"]["message"]


async def test_answers_calls_in_order_for_any_chunks() -> None:
    peer, server = MemoryPeer(), server_with(echo)
    calls = b"".join(b'{"method": "try", "args": {"word": %d}, "version": 1}\x03' % n for n in range(3))
    async with served(server, peer):
        for byte in calls:
            await peer.say(bytes([byte]))
        for n in range(3):
            assert await peer.hear() == {"success": True, "result": n}
        await peer.say(calls)
        for n in range(3):
            assert await peer.hear() == {"success": True, "result": n}
        await peer.leave()
    assert server.connections == 0


async def test_methods_are_self_describing() -> None:
    peer = MemoryPeer()
    async with served(server_with(echo), peer):
        await peer.call("methods")
        answer = await peer.hear()
        await peer.leave()
    assert [method["name"] for method in answer["result"]] == ["methods", "try"]
    assert answer["result"][1] == {
        "name": "try",
        "version": 1,
        "role": "decide",
        "doc": "What is tried.",
        "arguments": {"word": "any"},
    }


async def test_connection_survives_a_refused_call() -> None:
    peer = MemoryPeer()
    async with served(server_with(echo), peer):
        await peer.call("nothing")
        assert refused(await peer.hear()) == (
            "unknown-method",
            "there is no method 'nothing'; the method 'methods' lists all",
        )
        await peer.call("try", {"wort": 1})
        assert refused(await peer.hear()) == ("bad-arguments", "try: there is no argument 'wort'")
        await peer.call("try", {"word": 1})
        assert await peer.hear() == {"success": True, "result": 1}
        await peer.leave()


async def test_refusal_from_a_thread_leaves_no_garbage() -> None:
    refusals: list[weakref.ref[RefusalError]] = []

    def refuse() -> None:
        refusal = RefusalError(Refusal.ARGUMENTS, "no")
        refusals.append(weakref.ref(refusal))
        raise refusal

    async def aside(_args: Args, _file: File) -> object:
        return await trio.to_thread.run_sync(refuse)

    peer = MemoryPeer()
    gc.disable()
    try:
        async with served(server_with(aside), peer):
            await peer.call("try")
            assert refused(await peer.hear()) == ("bad-arguments", "no")
            with trio.fail_after(20):  # the thread may take a moment to let it go
                while refusals[0]() is not None:
                    await trio.sleep(0)
            await peer.leave()
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (b"\x03", "bad-message"),
        (b"hello\x03", "bad-message"),
        (b"[]\x03", "bad-message"),
        (b'{"method": "try", "version": 1}\x03', "bad-message"),
        (b'{"method": 1, "args": {}, "version": 1}\x03', "bad-message"),
        (b'{"method": "try", "args": [], "version": 1}\x03', "bad-message"),
        (b'{"method": "try", "args": {}}\x03', "wrong-version"),
        (b'{"method": "try", "args": {}, "version": 2}\x03', "wrong-version"),
        (b'{"method": "try", "args": {}, "version": true}\x03', "wrong-version"),
        (b'{"method": "try", "args": {}, "version": "1"}\x03', "wrong-version"),
        (b"[" * 900 + b"\x03", "bad-message"),
        (b'{"method": "try", "args": {}, "args": {}, "version": 1}\x03', "bad-message"),
        (b"x" * 1001, "bad-message"),
    ],
)
async def test_disconnects_after_data_that_is_not_a_call(
    message: bytes, kind: str, autojump_clock: MockClock
) -> None:
    peer = MemoryPeer()
    async with served(server_with(echo), peer):
        await peer.say(message)
        assert refused(await peer.hear())[0] == kind
        assert await peer.hear() is None


async def test_refuses_half_a_call() -> None:
    peer = MemoryPeer()
    async with served(server_with(echo), peer):
        await peer.say(b'{"method"')
        await peer.client.send_eof()
        assert refused(await peer.hear())[0] == "bad-message"
        assert await peer.hear() is None


async def test_answers_a_client_that_stopped_sending() -> None:
    peer = MemoryPeer()
    async with served(server_with(echo), peer):
        await peer.call("try", {"word": 1})
        await peer.client.send_eof()
        assert await peer.hear() == {"success": True, "result": 1}
        assert await peer.hear() is None


@pytest.mark.parametrize("beginning", [b"", b'{"method": "try", '])
async def test_disconnects_a_client_that_does_not_finish_its_call(
    beginning: bytes, autojump_clock: MockClock
) -> None:
    peer = MemoryPeer()
    async with served(server_with(echo), peer):
        await peer.say(beginning)
        assert refused(await peer.hear()) == ("bad-message", "no complete message within 60 s")
        assert await peer.hear() is None
    assert trio.current_time() == pytest.approx(60)


async def test_slow_bytes_do_not_extend_the_time_limit(autojump_clock: MockClock) -> None:
    peer = MemoryPeer()
    async with served(server_with(echo), peer):
        for _ in range(7):
            await peer.say(b" ")
            await trio.sleep(9)
        assert refused(await peer.hear())[0] == "bad-message"
        assert await peer.hear() is None


async def test_disconnects_a_client_that_does_not_read(autojump_clock: MockClock) -> None:
    peer, server = MemoryPeer(lockstep=True), server_with(echo)
    async with served(server, peer):
        await peer.call("try")
    assert trio.current_time() == pytest.approx(10)
    assert server.connections == 0


async def test_refuses_one_client_too_many_until_another_leaves() -> None:
    go_on = trio.Event()

    async def run(_args: Args, _file: File) -> object:
        await go_on.wait()
        return "done"

    server = server_with(run)
    working, third = [MemoryPeer(), MemoryPeer(uid=7)], MemoryPeer()
    async with served(server, working[0]), served(server, working[1]):
        for peer in working:
            await peer.call("try")
        await trio.testing.wait_all_tasks_blocked()
        assert server.connections == 2
        async with served(server, third):
            assert refused(await third.hear()) == ("busy", "all 2 connections are in use")
            assert await third.hear() is None
        go_on.set()
        for peer in working:
            assert (await peer.hear())["result"] == "done"
        await working[0].leave()
        await trio.testing.wait_all_tasks_blocked()
        third = MemoryPeer()
        async with served(server, third):
            await third.call("try")
            assert (await third.hear())["result"] == "done"
            await third.leave()
        await working[1].leave()


SENT_AWAY = ("busy", "the idle connection was closed to make room for others")


async def test_disconnects_the_client_that_was_idle_longest(autojump_clock: MockClock) -> None:
    server = server_with(echo, settings(connections=3, connections_per_user=3, message_mib=1))
    peers = [MemoryPeer(uid=uid) for uid in (1, 2, 3, 4, 5)]
    async with AsyncExitStack() as stack:
        for peer in peers[:3]:
            await stack.enter_async_context(served(server, peer))
            await trio.sleep(1)
        await peers[0].call("try", {"word": "not idle"})
        assert (await peers[0].hear())["success"]
        await peers[1].say(b'{"half of a call')
        for newcomer, gone in ((peers[3], peers[1]), (peers[4], peers[2])):
            await stack.enter_async_context(served(server, newcomer))
            assert refused(await gone.hear()) == SENT_AWAY
            assert await gone.hear() is None
            assert server.connections == 3
        for peer in (peers[0], *peers[3:]):
            await peer.call("try", {"word": peer.credentials.uid})
            assert (await peer.hear())["result"] == peer.credentials.uid
            await peer.leave()


async def test_user_with_many_clients_loses_an_own_idle_one(autojump_clock: MockClock) -> None:
    never = trio.Event()

    async def run(_args: Args, _file: File) -> object:
        await never.wait()
        return None

    server = server_with(run, settings(connections=9, connections_per_user=2, message_mib=1))
    other, idle, working, second, third = (MemoryPeer(uid=uid) for uid in (1, 2, 2, 2, 2))
    async with AsyncExitStack() as stack:
        for peer in (other, idle, working):
            await stack.enter_async_context(served(server, peer))
            await trio.sleep(1)
        await working.call("try")
        await trio.testing.wait_all_tasks_blocked()
        await stack.enter_async_context(served(server, second))
        assert refused(await idle.hear()) == SENT_AWAY
        await second.call("try")
        await trio.testing.wait_all_tasks_blocked()
        await stack.enter_async_context(served(server, third))
        assert refused(await third.hear()) == ("busy", "all 2 connections of user 2 are in use")
        never.set()
        await other.call("try")
        for peer in (other, working, second):
            assert (await peer.hear())["success"]
            await peer.leave()


async def test_idle_clients_do_not_keep_others_out(autojump_clock: MockClock) -> None:
    server = server_with(echo, settings(connections=20, connections_per_user=10, message_mib=1))
    async with AsyncExitStack() as stack:
        for number in range(100):
            await stack.enter_async_context(served(server, MemoryPeer(uid=number % 3)))
            await trio.testing.wait_all_tasks_blocked()
        last = MemoryPeer(uid=1)
        await stack.enter_async_context(served(server, last))
        await last.call("try", {"word": 1})
        assert (await last.hear())["result"] == 1
        assert server.connections <= 20
        assert trio.current_time() < 1
        await last.leave()


async def test_calls_that_wait_leave_room_for_decisions(autojump_clock: MockClock) -> None:
    methods, news = Methods(), trio.Event()
    server = Server(
        methods, settings(connections=8, connections_per_user=4, message_mib=1), open_access(), EventStream()
    )

    async def follow(_args: Args, _file: File) -> object:
        with server.waiting() as may_wait:
            if may_wait:
                await news.wait()
            return may_wait

    methods.add(
        Method("follow", 1, "Waits.", {}, Role.READ, follow),
        Method("try", 1, "What is tried.", {"word": "any"}, Role.DECIDE, echo),
    )
    readers = [MemoryPeer(uid=uid) for uid in (1, 2, 3) for _ in range(4)]
    async with AsyncExitStack() as stack:
        for reader in readers:
            await stack.enter_async_context(served(server, reader))
            await reader.call("follow")
            await trio.testing.wait_all_tasks_blocked()
        for uid in 1, 2, 3, 4:
            decision = MemoryPeer(uid=uid)
            await stack.enter_async_context(served(server, decision))
            await decision.call("try", {"word": uid})
            assert (await decision.hear())["result"] == uid
            await decision.leave()
        news.set()
        answers = [await reader.hear() for reader in readers]
        for reader in readers:
            await reader.leave()
    waited = [
        reader.credentials.uid
        for reader, answer in zip(readers, answers, strict=True)
        if answer["result"] is True
    ]
    assert waited == [1, 1, 2, 2]


async def test_refuses_a_user_with_too_many_unanswered_bytes() -> None:
    server = server_with(echo, settings(connections=9, connections_per_user=9, message_mib=1))
    babblers, other = [MemoryPeer() for _ in range(5)], MemoryPeer(uid=7)
    async with AsyncExitStack() as stack:
        for peer in (*babblers, other):
            await stack.enter_async_context(served(server, peer))
        for peer in (other, *babblers):
            await peer.say(b" " * 900_000)
            await trio.testing.wait_all_tasks_blocked()
        assert refused(await babblers[-1].hear()) == (
            "busy",
            "user 2 has sent more than 4194304 bytes that are not answered yet",
        )
        for word in "ab":
            await babblers[0].call("try", {"word": word})
            assert (await babblers[0].hear())["result"] == word
        for peer in (other, *babblers[:-1]):
            await peer.call("try", {"word": "last"})
            assert (await peer.hear())["result"] == "last"
            await peer.leave()


async def test_answers_refusals_and_defects_and_logs_defects() -> None:
    async def run(args: Args, _file: File) -> object:
        if args["word"] == "refuse":
            raise RefusalError(Refusal.FILE, "not so")
        raise ZeroDivisionError("two\nlines")

    peer = MemoryPeer()
    with structlog.testing.capture_logs() as log:
        async with served(server_with(run), peer):
            await peer.call("try", {"word": "refuse"})
            assert refused(await peer.hear()) == ("bad-file", "not so")
            await peer.call("try", {"word": "break"})
            assert refused(await peer.hear()) == ("internal", "ZeroDivisionError: two")
            await peer.call("methods")
            assert (await peer.hear())["success"]
            await peer.leave()
    assert [entry["event"] for entry in log] == ["refused", "call failed"]
    assert log[1]["exc_info"]


async def test_answers_internal_error_for_a_result_that_cannot_be_encoded() -> None:
    async def run(_args: Args, _file: File) -> object:
        return {1, 2}

    peer = MemoryPeer()
    async with served(server_with(run), peer):
        await peer.call("try")
        assert refused(await peer.hear())[0] == "internal"
        await peer.leave()


def access_for(role: Role) -> Access:
    """Access with this role for user 2 of memory peers."""
    access = Access(settings())
    access.roles = Roles({2: role})
    return access


def server_for(access: Access) -> Server:
    """A server with a method to look and one to act."""
    methods = Methods()
    methods.add(
        Method("look", 1, "Looks.", {}, Role.READ, echo), Method("do", 1, "Does.", {}, Role.ACT, echo)
    )
    return Server(methods, LIMITS, access, EventStream())


async def test_refuses_a_call_that_needs_a_higher_role() -> None:
    peer = MemoryPeer()
    with structlog.testing.capture_logs() as log:
        async with served(server_for(access_for(Role.DECIDE)), peer):
            for _ in range(2):
                await peer.call("do")
                kind, why = refused(await peer.hear())
                assert kind == "not-allowed"
                assert "do: user 2 does not have the role act, only decide; [roles] act" in why
                await peer.call("look")
                assert (await peer.hear())["success"]
            await peer.leave()
    assert [line["event"] for line in log] == ["refused"]


class Records(list[object]):
    """The recorded calls."""

    def note(self, event: DaemonEvent) -> None:
        assert isinstance(event, Called)
        self.append((event.method, event.arguments["word"]))


async def test_records_calls_that_may_have_changed_something() -> None:
    async def run(args: Args, _file: File) -> object:
        match args["word"]:
            case "refuse":
                raise RefusalError(Refusal.PLAN, "no")
            case "break":
                raise ZeroDivisionError
            case "wait":
                await trio.sleep_forever()
        return None

    records = Records()
    methods = Methods()
    methods.add(Method("do", 1, "Does.", {"word": "any"}, Role.ACT, run, recorded=True))
    methods.add(Method("look", 1, "Looks.", {"word": "any"}, Role.READ, run))
    access = Access(settings())
    access.roles = Roles({2: Role.ACT, 3: Role.READ})
    server = Server(methods, LIMITS, access, EventStream(records))
    for uid, words in ((3, ["do"]), (2, ["do", "refuse", "break", "wait"])):
        peer = MemoryPeer(uid=uid)
        async with served(server, peer):
            for word in words:
                await peer.call("look", {"word": "do"})
                await peer.hear()
                await peer.call("do", {"word": word})
                if word == "wait":
                    await trio.testing.wait_all_tasks_blocked()
                else:
                    await peer.hear()
            await peer.leave()
    assert records == [("do", "do"), ("do", "break"), ("do", "wait")]


async def test_role_counts_for_each_call() -> None:
    peer, access = MemoryPeer(), access_for(Role.READ)
    async with served(server_for(access), peer):
        await peer.call("look")
        assert (await peer.hear())["success"]
        access.roles = Roles({})
        await peer.call("look")
        assert refused(await peer.hear())[0] == "not-allowed"
        assert await peer.hear() is None


async def test_caller_without_a_role_gets_one_answer() -> None:
    peer = MemoryPeer()
    async with served(server_for(access_for(Role.NONE)), peer):
        await peer.call("look")
        await peer.call("look")
        kind, why = refused(await peer.hear())
        assert (kind, "[roles] read" in why) == ("not-allowed", True)
        assert await peer.hear() is None


UNKNOWN = b'{"method": "nothing", "args": {}, "version": 1}\x03'


@pytest.mark.parametrize("data", [UNKNOWN, b"x" * 9000, b"x\x03", b"[" * 9000 + b"\x03"])
async def test_caller_without_a_role_keeps_nobody_busy_and_fills_no_log(data: bytes) -> None:
    server = server_for(access_for(Role.NONE))
    with structlog.testing.capture_logs() as log:
        for _ in range(3):
            peer = MemoryPeer()
            async with served(server, peer):
                await peer.say(data)
                kind, why = refused(await peer.hear())
                assert (kind, "user 2 does not have the role read" in why) == ("not-allowed", True)
                assert await peer.hear() is None
    assert len(log) == 1


async def test_gives_a_call_up_when_its_client_vanishes() -> None:
    cancelled = trio.Event()

    async def run(_args: Args, _file: File) -> object:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    peer, server = MemoryPeer(), server_with(run)
    async with served(server, peer):
        await peer.call("try")
        await trio.testing.wait_all_tasks_blocked()
        assert not cancelled.is_set()
        await peer.leave()
    assert cancelled.is_set()
    assert server.connections == 0


async def test_stop_finishes_running_calls_and_refuses_others() -> None:
    go_on = trio.Event()

    async def run(_args: Args, _file: File) -> object:
        await go_on.wait()
        return "done"

    server = server_with(run)
    idle, working = MemoryPeer(), MemoryPeer()
    async with served(server, idle), served(server, working):
        await working.call("try")
        await working.call("try")
        await trio.testing.wait_all_tasks_blocked()
        server.stop()
        assert refused(await idle.hear()) == ("stopping", "htoolsd is stopping")
        assert await idle.hear() is None
        go_on.set()
        assert await working.hear() == {"success": True, "result": "done"}
        assert refused(await working.hear())[0] == "stopping"
        assert await working.hear() is None
    late = MemoryPeer()
    async with served(server, late):
        assert refused(await late.hear())[0] == "stopping"


async def test_passed_file_belongs_to_its_call(tmp_path: Path) -> None:
    seen = []

    async def run(_args: Args, file: File) -> object:
        seen.append(file is not None)
        return None

    peer, passed = MemoryPeer(), open_file(tmp_path / "request")
    async with served(server_with(run), peer):
        peer.pass_along(passed)
        await peer.call("try")
        await peer.hear()
        wait_closed(passed)
        await peer.call("try")
        await peer.hear()
        await peer.leave()
    assert seen == [True, False]


@pytest.mark.parametrize("together", [True, False])
async def test_refuses_several_files_and_closes_them(tmp_path: Path, together: bool) -> None:
    peer = MemoryPeer()
    passed = [open_file(tmp_path / "first"), open_file(tmp_path / "second"), open_file(tmp_path / "third")]
    if together:
        peer.pass_along(*passed)
    else:
        for descriptor in passed[:2]:
            peer.pass_along(descriptor)
    async with served(server_with(echo), peer):
        await peer.say(b"{")
        await trio.testing.wait_all_tasks_blocked()
        if not together:
            await peer.say(b"}")
        assert refused(await peer.hear()) == ("bad-file", "a call takes at most one file")
        assert await peer.hear() is None
    for descriptor in passed[: 3 if together else 2]:
        wait_closed(descriptor)


async def test_closes_files_when_clients_fail(tmp_path: Path) -> None:
    async def never(_args: Args, _file: File) -> object:
        await trio.sleep_forever()

    leaver, babbler, waiter = MemoryPeer(), MemoryPeer(), MemoryPeer()
    passed = [open_file(tmp_path / str(n)) for n in range(3)]
    for peer, descriptor in zip((leaver, babbler, waiter), passed, strict=True):
        peer.pass_along(descriptor)
    server = server_with(never, settings(connections=3, connections_per_user=3, message_mib=1))
    async with served(server, leaver), served(server, babbler), served(server, waiter):
        await leaver.say(b'{"half')
        await babbler.say(b"nonsense\x03")
        await waiter.call("try")
        await trio.testing.wait_all_tasks_blocked()
        await leaver.leave()
        await waiter.leave()
    assert not any(map(wait_closed, passed))


@pytest.mark.parametrize(("kind", "level"), [(Refusal.BUSY, "warning"), (Refusal.FILE, "info")])
async def test_too_much_to_do_is_worth_a_warning(kind: Refusal, level: str) -> None:
    async def refuse(_args: Args, _file: File) -> object:
        raise RefusalError(kind, "not now")

    peer = MemoryPeer()
    with structlog.testing.capture_logs() as log:
        async with served(server_with(refuse), peer):
            await peer.call("try")
            await peer.hear()
            await peer.leave()
    assert [(entry["event"], entry["log_level"]) for entry in log] == [("refused", level)]


async def test_cuts_method_names_in_the_log() -> None:
    peer = MemoryPeer()
    with structlog.testing.capture_logs() as log:
        async with served(server_with(echo), peer):
            await peer.call("x" * 300)
            await peer.hear()
            await peer.call("try", {"y" * 300: 1})
            await peer.hear()
            await peer.leave()
    assert [entry["event"] for entry in log] == ["refused", "refused"]
    assert max(len(str(value)) for entry in log for value in entry.values()) < 500


async def test_refuses_a_request_with_too_many_values() -> None:
    async def length(args: Args, _file: File) -> object:
        return len(str(args["word"]))

    limits = settings(connections=9, connections_per_user=9, message_mib=4)
    peer = MemoryPeer()
    async with served(server_with(length, limits), peer):
        await peer.call("try", {"word": ",[{" * 500_000})
        assert (await peer.hear())["result"] == 1_500_000
        await peer.call("try", {"word": [[]] * 20_000})
        assert refused(await peer.hear()) == ("bad-message", "message has more than 10000 values")
        assert await peer.hear() is None
