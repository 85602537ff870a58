"""Reading luxid's answer to Query when a similar one has been read before.

Luxid writes answers compactly, rows last, so the text can be cut between rows without parsing it, and a row
that has been seen before is the same object again. As with requests
(:mod:`ganeti_htools.backends.incremental`) a cut is only accepted if each piece parses as one row and the
text around them, with a number in their place, parses with that number as the rows: then the pieces put
together are the answer. In any other case the whole is read the plain way.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from ganeti_htools.luxi import queries
from ganeti_htools.luxi.framing import decode
from ganeti_htools.luxi.queries import Row

_START, _BETWEEN, _END = b'"data":[[[', b"]],[[", b"]]]"


class Unusual(Exception):
    """The text is not as luxid writes it."""


class Rereader:
    """Reads answers about ``fields`` of objects of a kind. Not to be used by two readers at once."""

    def __init__(self, what: str, fields: Sequence[str]) -> None:
        self._what = what
        self._fields = fields
        self._known: Mapping[bytes, Row] = {}

    def read(self, message: bytes) -> object:
        """The answer; of a success the result are the rows. Raises FramingError, AnswerError."""
        try:
            return {"success": True, "result": self._reread(message)}
        except Unusual:
            answer = decode(message)
        match answer:
            case {"success": True, "result": result}:
                return {"success": True, "result": queries.rows(self._what, self._fields, result)}
        return answer

    def _reread(self, message: bytes) -> list[Row]:
        start, end = message.find(_START), message.rfind(_END)
        if not 0 <= start < end:
            raise Unusual
        around = _parsed(message[:start] + b'"data":0' + message[end + len(_END) :])
        match around:
            case {"success": True, "result": {"data": 0}}:
                pieces = message[start + len(_START) : end].split(_BETWEEN)
            case _:
                raise Unusual
        rows = [self._known.get(piece) or self._row(piece) for piece in pieces]
        self._known = dict(zip(pieces, rows, strict=True))
        return rows

    def _row(self, piece: bytes) -> Row:
        return queries.rows(self._what, self._fields, {"data": [_parsed(b"[[" + piece + b"]]")]})[0]


def _parsed(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        raise Unusual from None
