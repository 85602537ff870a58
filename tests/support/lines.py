"""Reading what a running program says, line by line."""

import os
from typing import IO


def next_line(stream: IO[str] | None) -> str:
    """The next line, and nothing beyond it: ``communicate`` does not look at what a stream has buffered."""
    assert stream is not None
    data = b""
    while not data.endswith(b"\n") and (byte := os.read(stream.fileno(), 1)):
        data += byte
    return data.decode()
