"""Parse untrusted JSON: size and nesting are checked before parsing.

Parsing nested or many values costs far more than reading their text, and a parser cannot be interrupted.
Repeated names in an object are detected, because parsers differ on them and do not report them.
"""

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

DEEPEST = 100  # levels of objects and lists within each other; Ganeti's messages have six

_CHUNK = 1 << 20
_MARKS = b'"[]{},'
_OTHERS = bytes(set(range(256)) - set(_MARKS))
_NESTING = {**dict.fromkeys(b"[{", 1), **dict.fromkeys(b"]}", -1)}


class DocumentError(Exception):
    """Text that is refused as a document; the exception's text is the reason."""


class RepeatedError(DocumentError):
    """A name appears twice in an object."""


class RepeatingObject(dict[str, Any]):
    """An object in which ``name`` appears twice; it has the first value."""

    name = ""


def parse_document(text: bytes) -> Any:
    """Parse a document without repeated names. Raises DocumentError."""
    if text.count(b"[") + text.count(b"{") > DEEPEST and measure(text)[1] > DEEPEST:
        raise DocumentError(f"more than {DEEPEST} objects and lists within each other")
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise DocumentError(str(error)) from None
    if _quotes(text) != _quotes(orjson.dumps(value)):  # the parser kept fewer names than the text has
        raise RepeatedError("a name stands twice in an object")
    return value


def parse_with_repeats(text: bytes) -> Any:
    """Parse a document in which names repeat; the first value of a name counts."""
    return json.loads(text, object_pairs_hook=_first, parse_int=orjson.loads, parse_float=orjson.loads)


def _first(members: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(members)
    if len(values) == len(members):
        return values
    repeating = RepeatingObject()
    for name, value in members:
        if name in repeating:
            repeating.name = name
        else:
            repeating[name] = value
    return repeating


def has_at_most(text: bytes, most: int) -> bool:
    """Whether a document has at most ``most`` values: objects, lists and their members."""
    quickly = sum(text.count(mark) for mark in (b",", b"[", b"{")) + 1  # an upper bound
    return quickly <= most or measure(text)[0] <= most


def measure(text: bytes) -> tuple[int, int]:
    """Return an upper bound for the number of values in a document, and its nesting depth.

    In text that is not JSON both hold up to the point where a parser stops.
    """
    import numpy as np  # programs that only ask the daemon start without it

    nesting = np.array([_NESTING.get(byte, 0) for byte in range(256)], np.int8)
    values, deepest, depth, quoted, escape = 1, 0, 0, 0, b""
    for start in range(0, len(text), _CHUNK):
        chunk = escape + text[start : start + _CHUNK]
        escape = b"\\" * ((len(chunk) - len(chunk.rstrip(b"\\"))) % 2)  # belongs to the next chunk
        chunk = _unescaped(chunk[: len(chunk) - len(escape)])
        marks = np.frombuffer(chunk.translate(None, _OTHERS), np.uint8)
        quotes = np.cumsum(marks == ord('"'), dtype=np.int32) + quoted
        outside = marks[quotes % 2 == 0]
        levels = np.cumsum(nesting[outside], dtype=np.int32) + depth
        values += int(np.count_nonzero((outside == ord(",")) | (nesting[outside] > 0)))
        if len(levels):
            deepest, depth = max(deepest, int(levels.max())), int(levels[-1])
        if len(quotes):
            quoted = int(quotes[-1]) % 2
    return values, deepest


def _quotes(text: bytes) -> int:
    """Count quotation marks: two for each string, names included."""
    return _unescaped(text).count(b'"')


def _unescaped(text: bytes) -> bytes:
    """Return the text without escaped backslashes and quotation marks."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Run a block without garbage collection, whose time grows with the number of live objects.

    If several threads overlap, collection resumes when the first of them finishes.
    """
    collecting = gc.isenabled()
    if collecting:
        gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
