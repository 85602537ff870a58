import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
import trio.testing

from ganeti_htools.luxi import client
from ganeti_htools.luxi.client import LAST_PAUSE, LuxiClient, NoAnswerError, RefusedError
from ganeti_htools.luxi.framing import FramingError
from tests.support.memory_luxid import ABSENT, REFUSED, Connection, MemoryLuxid

Serve = Callable[[Connection], Awaitable[None]]


def new() -> tuple[MemoryLuxid, LuxiClient]:
    luxid = MemoryLuxid()
    return luxid, LuxiClient("/socket", luxid.connect)


async def ask(luxid: MemoryLuxid, asking: LuxiClient, serve: Serve, patience: float = 60.0) -> Any:
    """The result of a request on a new connection that is served so."""
    async with trio.open_nursery() as nursery:

        async def accept() -> None:
            await serve(await luxid.accept())

        nursery.start_soon(accept)
        result = await asking.call("Method", [1], patience)
        nursery.cancel_scope.cancel()
    return result


async def failure(
    luxid: MemoryLuxid, asking: LuxiClient, serve: Serve, patience: float = 60.0
) -> NoAnswerError:
    """Why a request got no answer."""
    caught: list[NoAnswerError] = []

    async def serve_and_catch() -> None:
        try:
            await asking.call("Method", [1], patience)
        except NoAnswerError as error:
            caught.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_and_catch)
        await serve(await luxid.accept())
    (error,) = caught
    assert "\n" not in str(error)
    return error


async def echo(connection: Connection) -> None:
    """Answer every request with its arguments."""
    while message := await connection.hear():
        await connection.answer(orjson.loads(message[:-1])["args"])


async def test_request_is_framed_like_ganetis() -> None:
    luxid, asking = new()

    async def serve(connection: Connection) -> None:
        assert await connection.hear() == b'{"method":"Method","args":[1]}\x03'
        await connection.answer({"a": [1, None]})

    assert await ask(luxid, asking, serve) == {"a": [1, None]}


async def test_an_answer_may_come_in_any_pieces() -> None:
    luxid, asking = new()

    async def serve(connection: Connection) -> None:
        await connection.hear()
        for byte in b'{"success": true, "result": "\xc3\xa4"}\n\x03':
            await connection.say(bytes([byte]))
            await trio.testing.wait_all_tasks_blocked()

    assert await ask(luxid, asking, serve) == "ä"


async def test_tasks_take_turns_on_one_connection() -> None:
    luxid, asking = new()
    results = {}

    async def task(number: int) -> None:
        results[number] = await asking.call("Method", [number])

    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            connection = await luxid.accept()
            for _ in range(20):
                message = await connection.hear()
                # Nobody asks before there is an answer.
                with trio.move_on_after(0.001) as silence:
                    await connection.hear()
                assert silence.cancelled_caught
                await connection.answer(orjson.loads(message[:-1])["args"])

        nursery.start_soon(serve)
        for number in range(20):
            nursery.start_soon(task, number)
    assert results == {number: [number] for number in range(20)}
    assert len(luxid.attempts) == 1


@pytest.mark.parametrize(
    ("number", "reason"), [(ABSENT, "No such file or directory"), (REFUSED, "Connection refused")]
)
async def test_missing_luxid_is_reported_at_once(number: int, reason: str) -> None:
    luxid, asking = new()
    luxid.refusals = [number]
    with pytest.raises(NoAnswerError, match=f"^/socket: Ganeti cannot be reached: {reason}$") as caught:
        await asking.call("Method")
    assert not caught.value.sent


async def test_impossible_path_is_reported() -> None:
    with pytest.raises(NoAnswerError, match="Ganeti cannot be reached: "):
        await LuxiClient("/a\0b").call("Method")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"", "the connection was closed without an answer"),
        (b'{"success":true,', "the stream ended inside a message, after 16 bytes of it"),
        (b"nonsense\x03", "message is not JSON: .*"),
        (b"\x03", "message is not JSON: .*"),
        (b"\xff\x03", "message is not JSON: .*"),
        (b"[]\x03", r"expected an answer, got \[\]"),
        (b'{"success":1,"result":2}\x03', "expected an answer, got .*"),
        (b'{"success":true}\x03', "expected an answer, got .*"),
        (b'{"success":true,"result":1}\x03{"success":true,"result":2}\x03', "several answers to one request"),
        (b'{"success":true,"result":1}\x03{"succ', "the stream ended inside a message, after 6 bytes of it"),
        (b'{"success":true,"result":"' + 100 * b"a", "message is longer than 100 bytes"),
    ],
)
async def test_invalid_answer_ends_the_connection(
    said: bytes, error: str, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setattr(client, "_LARGEST", 100)
    luxid, asking = new()

    async def serve(connection: Connection) -> None:
        await connection.hear()
        with suppress(trio.BrokenResourceError):
            await connection.say(said)
            await connection.close()

    caught = await failure(luxid, asking, serve)
    assert caught.sent
    with pytest.raises(NoAnswerError, match=f"^/socket: Method: {error}$"):
        raise caught
    assert await ask(luxid, asking, echo) == [1]
    assert len(luxid.attempts) == 2


async def test_patience_ends_without_an_answer(autojump_clock: trio.testing.MockClock) -> None:
    luxid, asking = new()
    first = Connection(trio.testing.memory_stream_pair()[0])

    async def serve(connection: Connection) -> None:
        nonlocal first
        first = connection
        await connection.hear()
        await trio.sleep(7)

    caught = await failure(luxid, asking, serve, patience=5)
    assert str(caught) == "/socket: Method: no answer within 5 s"
    assert caught.sent
    # The answer comes too late, and is not taken for that to the next request.
    with pytest.raises(trio.BrokenResourceError):
        await first.answer("late")
    assert await ask(luxid, asking, echo) == [1]


async def test_patience_ends_without_a_connection(autojump_clock: trio.testing.MockClock) -> None:
    async def never(path: str) -> trio.abc.Stream:
        await trio.sleep_forever()

    with pytest.raises(NoAnswerError, match="no answer within 5 s") as caught:
        await LuxiClient("/socket", never).call("Method", patience=5)
    assert not caught.value.sent


async def test_patience_includes_waiting_for_a_turn(autojump_clock: trio.testing.MockClock) -> None:
    luxid, asking = new()
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            connection = await luxid.accept()
            await connection.hear()
            await trio.sleep(20)
            await connection.answer("slow")

        async def first() -> None:
            assert await asking.call("Slow") == "slow"

        nursery.start_soon(serve)
        nursery.start_soon(first)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(NoAnswerError, match="no answer within 5 s") as caught:
            await asking.call("Method", patience=5)
        assert not caught.value.sent


async def test_closed_connection_is_replaced_and_request_arrives_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    luxid, asking = new()
    heard = []

    async def serve(connection: Connection) -> None:
        heard.append(await connection.hear())
        await connection.answer([])
        await connection.close()

    await ask(luxid, asking, serve)
    await trio.sleep(1)
    await ask(luxid, asking, serve)
    assert len(heard) == len(luxid.attempts) == 2
    assert luxid.attempts[1] - luxid.attempts[0] == 1  # no pause


async def test_refusal_has_ganetis_exception_and_keeps_the_connection() -> None:
    luxid, asking = new()
    refusal = ["OpPrereqError", ["Instance name\nnosuch not found", "unknown_entity"]]

    async def serve(connection: Connection) -> None:
        await connection.hear()
        await connection.answer(refusal, success=False)
        await echo(connection)

    async with trio.open_nursery() as nursery:

        async def accept() -> None:
            await serve(await luxid.accept())

        nursery.start_soon(accept)
        with pytest.raises(RefusedError) as caught:
            await asking.call("Method")
        assert (caught.value.kind, list(caught.value.arguments)) == (refusal[0], refusal[1])
        assert str(caught.value) == r"Method: OpPrereqError: Instance name\nnosuch not found (unknown_entity)"
        assert await asking.call("Method", [2]) == [2]
        nursery.cancel_scope.cancel()
    assert len(luxid.attempts) == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "Kind: "),
        (["a"], "Kind: a"),
        ([["a", "b"]], r"Kind: \['a', 'b'\]"),
        ([None, 1], r"Kind: None \(1\)"),
    ],
)
async def test_refusal_describes_any_arguments(arguments: list[object], text: str) -> None:
    luxid, asking = new()

    async def serve(connection: Connection) -> None:
        await connection.hear()
        await connection.answer(["Kind", arguments], success=False)

    with pytest.raises(ExceptionGroup) as caught:
        await ask(luxid, asking, serve)
    (error,) = caught.value.exceptions
    with pytest.raises(RefusedError, match=f"^Method: {text}$"):
        raise error


async def test_unknown_request_ends_the_connection() -> None:
    luxid, asking = new()

    async def serve(connection: Connection) -> None:
        await connection.hear()
        await connection.answer("Failed to parse request: no", success=False)
        assert await connection.hear() == b""

    async with trio.open_nursery() as nursery:

        async def accept() -> None:
            await serve(await luxid.accept())

        nursery.start_soon(accept)
        with pytest.raises(RefusedError, match=r"^Method: Failed to parse request: no$") as caught:
            await asking.call("Method")
        assert caught.value.kind == ""
        assert await ask(luxid, asking, echo) == [1]


async def test_absent_luxid_is_tried_at_growing_intervals(
    autojump_clock: trio.testing.MockClock,
) -> None:
    luxid, asking = new()

    async def until_there(refusals: int) -> list[float]:
        luxid.refusals, luxid.attempts = [REFUSED] * refusals, []
        for _ in range(refusals):
            with pytest.raises(NoAnswerError):
                await asking.call("Method")

        async def serve(connection: Connection) -> None:
            await connection.hear()
            await connection.answer([])
            await connection.close()

        await ask(luxid, asking, serve)
        return [later - before for before, later in zip(luxid.attempts, luxid.attempts[1:], strict=False)]

    assert await until_there(8) == [1, 2, 4, 8, 16, LAST_PAUSE, LAST_PAUSE, LAST_PAUSE]
    assert await until_there(2) == [1, 2]


async def test_pause_may_exceed_the_patience(autojump_clock: trio.testing.MockClock) -> None:
    luxid, asking = new()
    luxid.refusals = [REFUSED] * 5
    for _ in range(5):
        with pytest.raises(NoAnswerError):
            await asking.call("Method")
    with pytest.raises(NoAnswerError, match="no answer within 3 s") as caught:
        await asking.call("Method", patience=3)
    assert not caught.value.sent
    assert len(luxid.attempts) == 5


async def test_short_patience_does_not_delay_the_next_attempt(autojump_clock: trio.testing.MockClock) -> None:
    luxid, asking = new()
    luxid.refusals = [REFUSED] * 4
    for _ in range(4):
        with pytest.raises(NoAnswerError):
            await asking.call("Method")
    for _ in range(2):
        with pytest.raises(NoAnswerError):
            await asking.call("Method", patience=3)
    assert await ask(luxid, asking, echo, patience=3) == [1]
    assert luxid.attempts[4] - luxid.attempts[3] == 8


async def test_full_queue_is_awaited(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        with trio.move_on_after(0.1):
            await LuxiClient(path).call("First")  # never accepted, so the queue stays full
        async with LuxiClient(path) as second, trio.open_nursery() as nursery:
            results = []

            async def task() -> None:
                results.append(await second.call("Second"))

            nursery.start_soon(task)
            await trio.sleep(0.2)
            assert results == []
            listener.setblocking(False)
            listener.accept()[0].close()
            accepting = trio.socket.from_stdlib_socket(listener)
            connection, _ = await accepting.accept()
            with connection:
                assert await connection.recv(100) == b'{"method":"Second","args":[]}\x03'
                await connection.send(b'{"success":true,"result":2}\x03')
        assert results == [2]


async def test_answer_to_a_cancelled_request_is_discarded(autojump_clock: trio.testing.MockClock) -> None:
    luxid, asking = new()
    with trio.move_on_after(2) as scope:
        await asking.call("Method")
    assert scope.cancelled_caught
    assert await ask(luxid, asking, connection_after_the_first(luxid)) == [1]
    assert luxid.attempts[1] - luxid.attempts[0] == 2  # it was nobody's fault: no pause


def connection_after_the_first(luxid: MemoryLuxid) -> Serve:
    async def serve(first: Connection) -> None:
        assert (await first.hear()).endswith(b"\x03")
        assert await first.hear() == b""
        await echo(await luxid.accept())

    return serve


async def test_leaving_the_client_closes_the_connection() -> None:
    luxid, asking = new()

    async def serve() -> None:
        connection = await luxid.accept()
        await connection.hear()
        await connection.answer([])
        assert await connection.hear() == b""

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with asking:
            assert await asking.call("Method") == []


async def test_arguments_that_json_cannot_express_are_refused() -> None:
    luxid, asking = new()
    with pytest.raises(FramingError):
        await asking.call("Method", [object()])
    assert luxid.attempts == []
