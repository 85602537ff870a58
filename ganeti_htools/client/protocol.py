"""The protocol of htoolsd's socket: one call, one answer, each a framed JSON message.

A call is ``{"method": str, "args": {...}, "version": 1}``. An answer is ``{"success": true, "result":
...}`` or ``{"success": false, "result": {"error": KIND, "message": one line}}``. A client waits for the
answer before its next call.
"""

import json
from dataclasses import dataclass
from enum import StrEnum

from ganeti_htools.luxi.framing import END, FramingError
from ganeti_htools.model.errors import on_one_line

# The directory is the daemon's own (systemd's RuntimeDirectory), so that it can make and remove the
# socket without being root. iallocator/htoolsd imports nothing of ours and repeats this path.
DEFAULT_SOCKET = "/run/htoolsd/htoolsd.sock"

# The name of the file beside the socket that a running daemon touches now and then, after the socket's name.
SIGN_OF_LIFE = ".lock"
# The name of a datagram socket beside the socket, which is open while a daemon starts on a kept socket.
# Nobody sends anything there: the kernel refuses connections as soon as the process has ended.
STARTING = ".starting"

VERSION = 1


class Refusal(StrEnum):
    """Reasons why a call was not carried out."""

    MESSAGE = "bad-message"
    VERSION = "wrong-version"
    METHOD = "unknown-method"
    ROLE = "not-allowed"
    ARGUMENTS = "bad-arguments"
    FILE = "bad-file"
    BUSY = "busy"
    CLUSTER = "no-cluster"
    PLAN = "bad-plan"
    CONFLICT = "conflict"  # somebody else was first: what is asked rests on a generation that has passed
    CAPACITY = "no-capacity"
    LEDGER = "no-ledger"
    LOAD = "no-load"
    STOPPING = "stopping"
    INTERNAL = "internal"


class RefusalError(Exception):
    """A refused call; the text is the message to the client."""

    def __init__(self, kind: Refusal, message: str) -> None:
        super().__init__(on_one_line(message))
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Call:
    """A client's call: a method and its arguments."""

    method: str
    args: dict[str, object]


def encode_call(call: Call) -> bytes:
    """Encode a call. Raises FramingError."""
    document = {"method": call.method, "args": call.args, "version": VERSION}
    try:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode() + END
    except (TypeError, ValueError) as err:
        raise FramingError(f"cannot be sent as JSON: {err}") from None
