"""Requests to luxid for the tables of the model. Only the changed rows of an answer are parsed.

Luxid writes answers compactly, rows last. The text can therefore be cut between rows without parsing it, and
the text of a known row gives the same object again. As with iallocator requests
(:mod:`ganeti_htools.backends.incremental`), a cut is accepted on two conditions: each piece parses as one
row, and the rest, with a number in place of the rows, parses with that number. Any other answer is parsed as
a whole.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from ganeti_htools.luxi import queries
from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.luxi.framing import decode
from ganeti_htools.luxi.queries import INFO_KEYS, QueryRow
from htoolsd.sync.model import CONFIGURATION, LIVE
from htoolsd.threads import run_by_size

# In the order of the queries. An object is read before the objects that it names, so these are known unless
# they were removed in between.
_CONFIGURATION = {
    "instances": ("instance", queries.INSTANCE_CONFIG_FIELDS),
    "networks": ("network", queries.NETWORK_FIELDS),
    "nodes": ("node", queries.NODE_CONFIG_FIELDS),
    "groups": ("group", queries.GROUP_FIELDS),
}
_LIVE = {
    "live_nodes": ("node", queries.NODE_LIVE_FIELDS),
    "live_instances": ("instance", queries.INSTANCE_LIVE_FIELDS),
}
_START, _BETWEEN, _END = b'"data":[[[', b"]],[[", b"]]]"


class RepeatedRequest:
    """A request that is repeated. The same bytes in the answer give the same object.

    ``read`` parses an answer. Two tasks must not use a request at the same time.
    """

    def __init__(self, method: str, args: Sequence[object], read: Callable[[bytes], object]) -> None:
        self._method = method
        self._args = args
        self._read = read
        self._message = b""
        self._answer: object = None

    async def ask(self, client: LuxiClient, patience: float) -> Any:
        """Ask, and return the parsed answer. Raises LuxiError."""
        return await client.call(self._method, self._args, patience, self._parse)

    async def _parse(self, message: bytes) -> object:
        if message != self._message:
            self._answer = await run_by_size(len(message), lambda: self._read(message))
            self._message = message
        return self._answer


class AnswerReader:
    """Reads answers about ``fields`` of objects of a kind.

    Two tasks must not use a reader at the same time.
    """

    def __init__(self, kind: str, fields: Sequence[str]) -> None:
        self._kind = kind
        self._fields = fields
        self._known: Mapping[bytes, QueryRow] = {}

    def read(self, message: bytes) -> object:
        """Return the answer; the result of a success are rows. Raises FramingError, AnswerError."""
        try:
            return {"success": True, "result": self._read_rows(message)}
        except UnusualAnswerError:
            answer = decode(message)
        match answer:
            case {"success": True, "result": result}:
                return {"success": True, "result": queries.rows(self._kind, self._fields, result)}
        return answer

    def _read_rows(self, message: bytes) -> list[QueryRow]:
        start, end = message.find(_START), message.rfind(_END)
        if not 0 <= start < end:
            raise UnusualAnswerError
        rest = _parsed(message[:start] + b'"data":0' + message[end + len(_END) :])
        match rest:
            case {"success": True, "result": {"data": 0}}:
                pieces = message[start + len(_START) : end].split(_BETWEEN)
            case _:
                raise UnusualAnswerError
        rows = [self._known.get(piece) or self._row(piece) for piece in pieces]
        self._known = dict(zip(pieces, rows, strict=True))
        return rows

    def _row(self, piece: bytes) -> QueryRow:
        return queries.rows(self._kind, self._fields, {"data": [_parsed(b"[[" + piece + b"]]")]})[0]


class UnusualAnswerError(Exception):
    """An answer that cannot be cut into rows."""


def table_requests() -> dict[str, dict[str, RepeatedRequest]]:
    """Return new requests for all tables, by the kind of data and the table's name."""
    return {
        CONFIGURATION: {
            **{name: _query(*what) for name, what in _CONFIGURATION.items()},
            "cluster": RepeatedRequest("QueryClusterInfo", (), _cluster_row),
        },
        LIVE: {name: _query(*what) for name, what in _LIVE.items()},
    }


def _query(kind: str, fields: Sequence[str]) -> RepeatedRequest:
    return RepeatedRequest("Query", [kind, fields, None], AnswerReader(kind, fields).read)


def _cluster_row(message: bytes) -> object:
    """Return an answer to QueryClusterInfo as one row with the keys that the model uses."""
    answer = decode(message)
    match answer:
        case {"success": True, "result": result}:
            info = queries.info(result)
            row = QueryRow({key: info[key] for key in INFO_KEYS if key in info}, {})
            return {"success": True, "result": [row]}
    return answer


def _parsed(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        raise UnusualAnswerError from None
