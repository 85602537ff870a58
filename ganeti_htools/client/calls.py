"""Calls to the daemon by programs that wait for the answer."""

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress

from ganeti_htools.client.protocol import (
    DEFAULT_SOCKET,
    SIGN_OF_LIFE,
    STARTING,
    Call,
    Refusal,
    encode_call,
)
from ganeti_htools.luxi.framing import Decoder, FramingError, decode
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.sockets import is_open, listener

PATIENCE = 5.0  # seconds for answers that the daemon only has to look up
RECENTLY = 15.0  # seconds after a daemon's last sign of life, in which the next one may be about to start
_LARGEST = 1 << 30  # bytes of an answer
_PAUSE = 0.1  # seconds before a daemon that stops is asked again


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


def ask(
    path: str, method: str, args: Mapping[str, object], file: int | None = None, patience: float = 60.0
) -> object:
    """Call ``method`` of the daemon at the socket ``path`` and return its result.

    ``file`` is an open descriptor to pass along. The whole call may take ``patience`` seconds. A daemon that
    stops carries out nothing, so the next daemon is asked. Raises NoReplyError, CallRefusedError.
    """
    deadline = time.monotonic() + patience
    stopping: CallRefusedError | None = None
    while True:
        try:
            return _ask(path, method, args, file, patience)
        except NoReplyError:
            if stopping is None:
                raise
            raise stopping from None
        except CallRefusedError as refusal:
            patience = deadline - time.monotonic() - _PAUSE
            if refusal.kind != Refusal.STOPPING or patience <= 0:
                raise
            stopping = refusal
        time.sleep(_PAUSE)


def _ask(path: str, method: str, args: Mapping[str, object], file: int | None, patience: float) -> object:
    """Ask once. Raises NoReplyError, CallRefusedError."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            answer = decode(_exchange(sock, path, encode_call(Call(method, dict(args))), file, patience))
    except TimeoutError:
        raise NoReplyError(f"{path}: no answer within {patience:g} s") from None
    except OSError as err:
        raise NoReplyError(f"{path}: {err.strerror or err}{_hint(path, err)}") from None
    except FramingError as err:
        raise NoReplyError(f"{path}: {err}") from None
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


def _exchange(sock: socket.socket, path: str, message: bytes, file: int | None, patience: float) -> bytes:
    """Raises OSError, FramingError, NoAnswerError."""
    deadline = time.monotonic() + patience
    _connect(sock, path, deadline)
    _check_listener(sock, path)
    sent = socket.send_fds(sock, [message], [file]) if file is not None else 0
    _allow(sock, deadline)
    # A daemon that stops reading has already said why.
    with suppress(BrokenPipeError, ConnectionResetError):
        sock.sendall(message[sent:])
    decoder = Decoder(_LARGEST)
    while True:
        _allow(sock, deadline)
        data = sock.recv(1 << 18)
        if messages := decoder.feed(data):
            return messages[0]
        if not data:
            decoder.finish()
            raise NoReplyError(f"{path}: htoolsd closed the connection without an answer")


def _connect(sock: socket.socket, path: str, deadline: float) -> None:
    """Connect once the daemon's queue of new connections has room. Raises OSError."""
    while True:
        _allow(sock, deadline)
        try:
            sock.connect(path)
        except BlockingIOError:
            time.sleep(0.005)
        else:
            return


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


def _allow(sock: socket.socket, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    sock.settimeout(left)
