from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
from trio.testing import MockClock

from ganeti_htools.daemon.protocol import Kind, RefusalError
from htoolsd.methods import Args, File, Method, Methods
from htoolsd.server import Limits, Server
from tests.unit.daemon.memory_peer import MemoryPeer, is_open, open_file

LIMITS = Limits(connections=2, message=1000, idle=60, write=10)


def server_with(run: Callable[[Args, File], Awaitable[object]], limits: Limits = LIMITS) -> Server:
    methods = Methods()
    methods.add(Method("try", 1, "What is tried.", {"word": "any"}, run))
    return Server(methods, limits)


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


async def test_calls_are_answered_in_order_however_their_bytes_arrive() -> None:
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


async def test_methods_describe_themselves() -> None:
    peer = MemoryPeer()
    async with served(server_with(echo), peer):
        await peer.call("methods")
        answer = await peer.hear()
        await peer.leave()
    assert [method["name"] for method in answer["result"]] == ["methods", "try"]
    assert answer["result"][1] == {
        "name": "try",
        "version": 1,
        "doc": "What is tried.",
        "arguments": {"word": "any"},
    }


async def test_a_call_that_cannot_be_carried_out_leaves_the_conversation_intact() -> None:
    peer = MemoryPeer()
    async with served(server_with(echo), peer):
        await peer.call("nothing")
        assert refused(await peer.hear()) == (
            "unknown-method",
            "there is no method 'nothing'; methods lists them",
        )
        await peer.call("try", {"wort": 1})
        assert refused(await peer.hear()) == ("bad-arguments", "try: takes no argument 'wort'")
        await peer.call("try", {"word": 1})
        assert await peer.hear() == {"success": True, "result": 1}
        await peer.leave()


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
        (b"x" * 1001, "bad-message"),
    ],
)
async def test_what_is_no_call_is_refused_and_ends_the_conversation(message: bytes, kind: str) -> None:
    peer = MemoryPeer()
    async with served(server_with(echo), peer):
        await peer.say(message)
        assert refused(await peer.hear())[0] == kind
        assert await peer.hear() is None


async def test_half_a_call_is_answered_to_a_client_that_stopped_sending() -> None:
    peer = MemoryPeer()
    async with served(server_with(echo), peer):
        await peer.say(b'{"method"')
        await peer.client.send_eof()
        assert refused(await peer.hear())[0] == "bad-message"
        assert await peer.hear() is None


async def test_a_client_that_stopped_sending_still_gets_its_answer() -> None:
    peer = MemoryPeer()
    async with served(server_with(echo), peer):
        await peer.call("try", {"word": 1})
        await peer.client.send_eof()
        assert await peer.hear() == {"success": True, "result": 1}
        assert await peer.hear() is None


@pytest.mark.parametrize("beginning", [b"", b'{"method": "try", '])
async def test_a_client_that_does_not_finish_its_call_is_sent_away(
    beginning: bytes, autojump_clock: MockClock
) -> None:
    peer = MemoryPeer()
    async with served(server_with(echo), peer):
        await peer.say(beginning)
        assert refused(await peer.hear()) == ("bad-message", "no complete message within 60 s")
        assert await peer.hear() is None
    assert trio.current_time() == pytest.approx(60)


async def test_bytes_now_and_then_do_not_buy_time(autojump_clock: MockClock) -> None:
    peer = MemoryPeer()
    async with served(server_with(echo), peer):
        for _ in range(7):
            await peer.say(b" ")
            await trio.sleep(9)
        assert refused(await peer.hear())[0] == "bad-message"
        assert await peer.hear() is None


async def test_a_client_that_does_not_read_is_dropped(autojump_clock: MockClock) -> None:
    peer, server = MemoryPeer(lockstep=True), server_with(echo)
    async with served(server, peer):
        await peer.call("try")
    assert trio.current_time() == pytest.approx(10)
    assert server.connections == 0


async def test_one_client_too_many_is_told_so_and_may_come_back_later() -> None:
    server = server_with(echo)
    first, second, third = MemoryPeer(), MemoryPeer(), MemoryPeer()
    async with served(server, second):
        async with served(server, first):
            await trio.testing.wait_all_tasks_blocked()
            assert server.connections == 2
            async with served(server, third):
                assert refused(await third.hear()) == ("busy", "all 2 connections are in use")
                assert await third.hear() is None
            await first.leave()
        third = MemoryPeer()
        async with served(server, third):
            await third.call("try", {"word": 3})
            assert (await third.hear())["result"] == 3
            await third.leave()
        await second.leave()


async def test_a_refusal_and_a_defect_are_answered_and_the_defect_is_logged() -> None:
    async def run(args: Args, _file: File) -> object:
        if args["word"] == "refuse":
            raise RefusalError(Kind.FILE, "not so")
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


async def test_a_result_that_cannot_be_sent_is_a_defect_like_others() -> None:
    async def run(_args: Args, _file: File) -> object:
        return {1, 2}

    peer = MemoryPeer()
    async with served(server_with(run), peer):
        await peer.call("try")
        assert refused(await peer.hear())[0] == "internal"
        await peer.leave()


async def test_a_call_is_given_up_when_its_client_vanishes() -> None:
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


async def test_stopping_finishes_what_is_under_way_and_refuses_the_rest() -> None:
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


async def test_a_passed_file_is_there_for_its_call_and_closed_after_it(tmp_path: Path) -> None:
    seen = []

    async def run(_args: Args, file: File) -> object:
        seen.append(file is not None)
        return None

    peer, passed = MemoryPeer(), open_file(tmp_path / "request")
    async with served(server_with(run), peer):
        peer.pass_along(passed)
        await peer.call("try")
        await peer.hear()
        assert not is_open(passed)
        await peer.call("try")
        await peer.hear()
        await peer.leave()
    assert seen == [True, False]


@pytest.mark.parametrize("together", [True, False])
async def test_more_than_one_file_is_refused_and_all_are_closed(tmp_path: Path, together: bool) -> None:
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
    assert not any(is_open(descriptor) for descriptor in passed[: 3 if together else 2])


async def test_files_are_closed_whatever_happens_to_their_client(tmp_path: Path) -> None:
    async def never(_args: Args, _file: File) -> object:
        await trio.sleep_forever()

    leaver, babbler, waiter = MemoryPeer(), MemoryPeer(), MemoryPeer()
    passed = [open_file(tmp_path / str(n)) for n in range(3)]
    for peer, descriptor in zip((leaver, babbler, waiter), passed, strict=True):
        peer.pass_along(descriptor)
    server = server_with(never, Limits(connections=3, message=1000, idle=60, write=10))
    async with served(server, leaver), served(server, babbler), served(server, waiter):
        await leaver.say(b'{"half')
        await babbler.say(b"nonsense\x03")
        await waiter.call("try")
        await trio.testing.wait_all_tasks_blocked()
        await leaver.leave()
        await waiter.leave()
    assert not any(map(is_open, passed))
