"""JSON documents of strangers: what there is of them is looked at before they are parsed.

What a parser does to nested or to many values costs far more than their text, and it cannot be interrupted.
That a name stands twice in an object is noticed: parsers do not agree on what it means, and do not tell.
"""

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import orjson

DEEPEST = 100  # objects and lists within each other; Ganeti's have six

_CHUNK = 1 << 20
_MARKS = b'"[]{},'
_OTHERS = bytes(set(range(256)) - set(_MARKS))
_NESTING = np.zeros(256, np.int8)
_NESTING[list(b"[{")], _NESTING[list(b"]}")] = 1, -1


class DocumentError(Exception):
    """Text that is not taken for a document; the exception's text says why."""


class RepeatedError(DocumentError):
    """A name stands twice in an object."""


class Repeating(dict[str, Any]):
    """An object in which ``name`` stands twice; the first is there."""

    name = ""


def parsed(text: bytes) -> Any:
    """The value of a document in which no name stands twice in an object. Raises DocumentError."""
    if text.count(b"[") + text.count(b"{") > DEEPEST and measured(text)[1] > DEEPEST:
        raise DocumentError(f"more than {DEEPEST} objects and lists within each other")
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise DocumentError(str(error)) from None
    if _quotes(text) != _quotes(orjson.dumps(value)):  # less was kept than there is
        raise RepeatedError("a name stands twice in an object")
    return value


def parsed_as_repeating(text: bytes) -> Any:
    """The value of a document that :func:`parsed` found to be repeating: the first of a name counts."""
    return json.loads(text, object_pairs_hook=_first, parse_int=orjson.loads, parse_float=orjson.loads)


def _first(members: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(members)
    if len(values) == len(members):
        return values
    repeating = Repeating()
    for name, value in members:
        if name in repeating:
            repeating.name = name
        else:
            repeating[name] = value
    return repeating


def has_at_most(text: bytes, most: int) -> bool:
    """Whether a document has no more values than ``most``: objects, lists, what is in them."""
    quickly = sum(text.count(mark) for mark in (b",", b"[", b"{")) + 1  # those in strings counted as well
    return quickly <= most or measured(text)[0] <= most


def measured(text: bytes) -> tuple[int, int]:
    """The most values that a document can have, and how many are within each other.

    Of text that is no document these hold as far as a parser would come.
    """
    values, deepest, depth, quoted, escape = 1, 0, 0, 0, b""
    for start in range(0, len(text), _CHUNK):
        chunk = escape + text[start : start + _CHUNK]
        escape = b"\\" * ((len(chunk) - len(chunk.rstrip(b"\\"))) % 2)  # of what the next chunk begins with
        chunk = _unescaped(chunk[: len(chunk) - len(escape)])
        marks = np.frombuffer(chunk.translate(None, _OTHERS), np.uint8)
        quotes = np.cumsum(marks == ord('"'), dtype=np.int32) + quoted
        outside = marks[quotes % 2 == 0]
        levels = np.cumsum(_NESTING[outside], dtype=np.int32) + depth
        values += int(np.count_nonzero((outside == ord(",")) | (_NESTING[outside] > 0)))
        if len(levels):
            deepest, depth = max(deepest, int(levels.max())), int(levels[-1])
        if len(quotes):
            quoted = int(quotes[-1]) % 2
    return values, deepest


def _quotes(text: bytes) -> int:
    """How many quotation marks there are: two for each string, names among them."""
    return _unescaped(text).count(b'"')


def _unescaped(text: bytes) -> bytes:
    """Without the backslashes and quotation marks that stand escaped in strings."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text


@contextmanager
def uncollected() -> Iterator[None]:
    """Without looking for garbage meanwhile, which takes longer the more there is that is none.

    In several threads at once: for as long as the first to begin needs.
    """
    collecting = gc.isenabled()
    if collecting:
        gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
