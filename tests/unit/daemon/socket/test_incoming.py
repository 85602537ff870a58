"""What a client has sent and not been answered yet."""

from pathlib import Path

import pytest

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.luxi.framing import Decoder
from htoolsd.socket.incoming import MAX_UNANSWERED, Incoming
from htoolsd.socket.peer import PassedFile
from tests.support.memory_peer import is_open, open_file, wait_closed


@pytest.fixture
def incoming() -> Incoming:
    return Incoming(Decoder(100))


def test_counts_bytes_until_they_are_answered(incoming: Incoming) -> None:
    incoming.add(b"one\x03two\x03th", [])
    assert list(incoming.messages) == [b"one", b"two"]
    assert incoming.held == 10
    incoming.answered(incoming.messages.popleft())
    assert incoming.held == 6


def test_closes_the_file_of_an_answered_call(incoming: Incoming, tmp_path: Path) -> None:
    descriptor = open_file(tmp_path / "request", "text")
    incoming.add(b"one\x03", [PassedFile(descriptor, 2)])
    assert is_open(descriptor)
    incoming.answered(b"one")
    wait_closed(descriptor)
    assert incoming.file is None


def test_refuses_a_call_with_several_files(incoming: Incoming, tmp_path: Path) -> None:
    first, second = (open_file(tmp_path / name, "text") for name in ("first", "second"))
    incoming.add(b"o", [PassedFile(first, 2)])
    with pytest.raises(RefusalError) as caught:
        incoming.add(b"ne\x03", [PassedFile(second, 2)])
    assert caught.value.kind is Refusal.FILE
    wait_closed(second)
    incoming.close_file()


@pytest.mark.parametrize("data", [b"x" * 101, b""])
def test_refuses_data_that_cannot_be_a_call(incoming: Incoming, data: bytes) -> None:
    incoming.add(b"x", [])
    with pytest.raises(RefusalError) as caught:
        incoming.add(data, [])
    assert caught.value.kind is Refusal.MESSAGE


def test_refuses_too_many_waiting_calls(incoming: Incoming) -> None:
    incoming.add(b"\x03" * MAX_UNANSWERED, [])
    incoming.answered(incoming.messages.popleft())
    incoming.add(b"\x03", [])
    with pytest.raises(RefusalError) as caught:
        incoming.add(b"\x03", [])
    assert caught.value.kind is Refusal.BUSY
