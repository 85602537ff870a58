"""How messages are cut out of a stream: JSON, then the byte 0x03.

LUXI frames its messages so, and so does htoolsd's own socket. The byte cannot stand inside a message,
because JSON escapes control characters. Nothing here does I/O: feed what was received, send what
:func:`encode` returns.
"""

import orjson

from ganeti_htools.model.errors import HtoolsError

END = b"\x03"


class FramingError(HtoolsError):
    """Bytes that are not a message, or a value that cannot be encoded as one."""


def encode(value: object) -> bytes:
    """One framed message. Raises FramingError for what JSON, UTF-8 or 64 bits cannot express."""
    try:
        return orjson.dumps(value) + END
    except TypeError as err:
        raise FramingError(f"cannot be sent as JSON: {err}") from None


def decode(message: bytes) -> object:
    """The value of one message, as :class:`Decoder` returned it. Raises FramingError."""
    try:
        return orjson.loads(message)
    except orjson.JSONDecodeError as err:
        raise FramingError(f"message is not JSON: {err}") from None


class Decoder:
    """Cuts a stream, fed in pieces of any size, into messages of at most ``limit`` bytes.

    After a FramingError message boundaries are unknown, and the stream cannot be used any more.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that ``data`` completes, without their end bytes, in order.

        Raises FramingError as soon as a message is longer than allowed, before it is complete.
        """
        *ends, rest = data.split(END)
        messages = []
        for piece in ends:
            self._grow(piece)
            messages.append(bytes(self._rest))
            self._rest.clear()
        self._grow(rest)
        return messages

    def finish(self) -> None:
        """The stream has ended. Raises FramingError if it did so inside a message."""
        if self._rest:
            raise FramingError(f"the stream ended inside a message, after {len(self._rest)} bytes of it")

    def _grow(self, piece: bytes) -> None:
        if len(self._rest) + len(piece) > self._limit:
            raise FramingError(f"message is longer than {self._limit} bytes")
        self._rest += piece
