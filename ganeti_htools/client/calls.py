"""A call to the daemon, as steps: a generator that yields each :class:`Pause`, and returns the answer.

So one piece of code serves programs that wait (:func:`wait_for`) and those on trio (:mod:`.on_trio`).
"""

import json
import os
import select
import socket
import time
from collections.abc import Generator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from ganeti_htools.client.protocol import (
    DEFAULT_SOCKET,
    SIGN_OF_LIFE,
    STARTING,
    Call,
    Refusal,
    encode_call,
)
from ganeti_htools.luxi.framing import Decoder, FramingError
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.sockets import is_open, listener

PATIENCE = 5.0  # seconds for answers that the daemon only has to look up
RECENTLY = 15.0  # seconds after a daemon's last sign of life, in which the next one may be about to start
_LARGEST = 1 << 30  # bytes of an answer
_PAUSE = 0.1  # seconds before a daemon that stops is asked again
_ROOM = 0.005  # seconds before a daemon with a full queue of connections is asked again

Result = TypeVar("Result")


class Pause(NamedTuple):
    """Pause of a step: a socket, to be read or written, at most for some seconds; or these seconds."""

    seconds: float
    on: socket.socket | None = None
    writes: bool = False


Steps = Generator[Pause, None, Result]


class NoReplyError(HtoolsError):
    """The daemon could not be reached, or its reply was no answer."""


class CallRefusedError(HtoolsError):
    """The daemon refused the call; :mod:`.protocol` lists the kinds of refusals."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def default_socket() -> str:
    """Return the daemon's socket path, for programs without an option for it."""
    return os.environ.get("HTOOLSD_SOCKET") or DEFAULT_SOCKET


def wait_for(steps: Steps[Result]) -> Result:
    """Carry out the steps, and wait on this thread between them."""
    try:
        while True:
            seconds, sock, writes = next(steps)
            if sock is None:
                time.sleep(seconds)
            else:
                waiting = select.poll()
                waiting.register(sock, select.POLLOUT if writes else select.POLLIN)
                waiting.poll(seconds * 1000)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        steps.close()


def ask(
    path: str, method: str, args: Mapping[str, object], file: int | None = None, patience: float = 60.0
) -> Any:
    """Carry out :func:`asking`."""
    return wait_for(asking(path, method, args, file, patience))


def asking(
    path: str, method: str, args: Mapping[str, object], file: int | None = None, patience: float = 60.0
) -> Steps[Any]:
    """Call ``method`` of the daemon at the socket ``path`` and return its result.

    ``file`` is an open descriptor to pass along. The whole call may take ``patience`` seconds. A daemon that
    stops carries out nothing, so the next daemon is asked. Raises NoReplyError, CallRefusedError.
    """
    deadline = time.monotonic() + patience
    stopping: CallRefusedError | None = None
    while True:
        try:
            return (yield from ask_once(path, method, args, file, patience))
        except NoReplyError:
            if stopping is None:
                raise
            raise stopping from None
        except CallRefusedError as refusal:
            patience = deadline - time.monotonic() - _PAUSE
            if refusal.kind != Refusal.STOPPING or patience <= 0:
                raise
            stopping = refusal
        yield Pause(_PAUSE)


def ask_once(
    path: str, method: str, args: Mapping[str, object], file: int | None, patience: float
) -> Steps[Any]:
    """Call a method and return its result. Raises NoReplyError, CallRefusedError."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            call = encode_call(Call(method, dict(args)))
            answer = json.loads((yield from _exchange(sock, path, call, file, patience)))
    except TimeoutError:
        raise NoReplyError(f"{path}: no answer within {patience:g} s") from None
    except OSError as err:
        raise NoReplyError(f"{path}: {err.strerror or err}{_hint(path, err)}") from None
    except FramingError as err:
        raise NoReplyError(f"{path}: {err}") from None
    except ValueError as err:
        raise NoReplyError(f"{path}: the answer is not JSON: {err}") from None
    match answer:
        case {"success": True, "result": result}:
            return result
        case {"success": False, "result": {"error": str(kind), "message": str(message)}}:
            raise CallRefusedError(kind, message)
    raise NoReplyError(f"{path}: the answer is none of htoolsd's")


def _hint(path: str, error: OSError) -> str:
    """Return a hint to print after the error."""
    match error:
        case FileNotFoundError() | ConnectionRefusedError():
            return "; is htoolsd running?"
        case PermissionError():
            for shown in (path, os.path.dirname(path)):
                with suppress(OSError):
                    return f"; members of the group {_group(os.stat(shown).st_gid)} may"
    return ""


def _group(number: int) -> str:
    import grp  # seldom needed

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _exchange(
    sock: socket.socket, path: str, message: bytes, file: int | None, patience: float
) -> Steps[bytes]:
    """Raises OSError, FramingError, NoReplyError."""
    deadline = time.monotonic() + patience
    sock.setblocking(False)
    yield from _connect(sock, path, deadline)
    _check_listener(sock, path)
    files, rest = ([] if file is None else [file]), memoryview(message)
    # A daemon that stops reading has already said why.
    with suppress(BrokenPipeError, ConnectionResetError):
        while rest:
            try:
                rest = rest[socket.send_fds(sock, [rest], files) if files else sock.send(rest) :]
                files = []
            except BlockingIOError:
                yield Pause(_left(deadline), sock, writes=True)
    decoder = Decoder(_LARGEST)
    while True:
        yield Pause(_left(deadline), sock)
        with suppress(BlockingIOError):
            data = sock.recv(1 << 18)
            if messages := decoder.feed(data):
                return messages[0]
            if not data:
                decoder.finish()
                raise NoReplyError(f"{path}: htoolsd closed the connection without an answer")


def _connect(sock: socket.socket, path: str, deadline: float) -> Steps[None]:
    """Connect once the daemon's queue of new connections has room. Raises OSError."""
    while True:
        left = _left(deadline)
        try:
            return sock.connect(path)
        except BlockingIOError:
            yield Pause(min(_ROOM, left))


def _check_listener(sock: socket.socket, path: str) -> None:
    """Raise NoReplyError if the daemon has ended some time ago and only its socket is kept; OSError."""
    with suppress(PermissionError):  # it runs, as another user
        try:
            os.kill(listener(sock), 0)
        except ProcessLookupError:
            if is_open(path + STARTING):
                return
            if abs(time.time() - os.stat(path + SIGN_OF_LIFE).st_ctime) > RECENTLY:
                raise NoReplyError(f"{path}: the daemon has ended; is htoolsd running?") from None


def _left(deadline: float) -> float:
    """Return the seconds that are left. Raises TimeoutError."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
