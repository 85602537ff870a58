"""Framing of messages in a stream, for LUXI and htoolsd's own socket: JSON, then the byte 0x03.

The byte never occurs inside a message, because JSON escapes control characters. This module does no I/O:
feed received bytes to :class:`Decoder`, send the bytes that :func:`encode` returns.
"""

from ganeti_htools.model.errors import HtoolsError

END = b"\x03"


class FramingError(HtoolsError):
    """Bytes that are not a message, or a value that cannot be encoded as one."""


def encode(value: object) -> bytes:
    """Frame a message. Raises FramingError for a value that JSON, UTF-8 or 64 bits cannot express."""
    import orjson  # clients of htoolsd do without it

    try:
        return orjson.dumps(value) + END
    except TypeError as err:
        raise FramingError(f"cannot be sent as JSON: {err}") from None


def decode(message: bytes) -> object:
    """Parse one message that :class:`Decoder` returned. Raises FramingError."""
    import orjson

    try:
        return orjson.loads(message)
    except orjson.JSONDecodeError as err:
        raise FramingError(f"message is not JSON: {err}") from None


class Decoder:
    """Splits a stream, fed in pieces of any size, into messages of at most ``limit`` bytes.

    After a FramingError the boundaries of messages are unknown and the stream is unusable.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that ``data`` completes, without their end bytes, in order.

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
        """End the stream. Raises FramingError if it ended inside a message."""
        if self._rest:
            raise FramingError(f"the stream ended inside a message, after {len(self._rest)} bytes of it")

    def _grow(self, piece: bytes) -> None:
        if len(self._rest) + len(piece) > self._limit:
            raise FramingError(f"message is longer than {self._limit} bytes")
        self._rest += piece
