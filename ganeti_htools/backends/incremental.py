"""Reads an iallocator request with the parsed parts of the request before.

Ganeti writes every request alike: on one line; groups, nodes and instances before the request itself. Only
one field of a node, and none of an instance, is an object. So the text of nodes and instances can be cut
between members without parsing it, and known members need no parsing.

No request is misread, however it was written. A cut is only accepted if

* the text before the sections would be a whole object if it were closed: so the sections belong to the
  request itself, not to an object within it;
* each piece parses as exactly one member, and the text around the sections parses with numbers in their
  places: then the pieces put together are the document;
* no name appears twice in any of these objects: so nothing replaces a section or a member.

In any other case the whole text is read the plain way. A parsed member depends on its text alone (a node
also on the hypervisor), and the whole text is its cache key.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from ganeti_htools.backends import documents, iallocator
from ganeti_htools.backends.documents import DocumentError
from ganeti_htools.backends.fields import Fields
from ganeti_htools.backends.iallocator import Message
from ganeti_htools.model.cluster import Group, Instance, Node
from ganeti_htools.model.errors import DataError, untraced

Row = TypeVar("Row")

# How Ganeti's master starts each section, and the request that ends the last one.
STARTS = (b'"nodegroups": {', b'}, "nodes": {', b'}, "instances": {', b'}, "request": {')
SECTIONS = ("nodegroups", "nodes", "instances")
END, START = b"}", b'"'
# Between two members: behind an object, before one with its name.
BETWEEN = re.compile(rb'\}, "(?=[^"]*": \{)')


class UnusualRequest(Exception):
    """A text in another form than Ganeti's."""


class RequestReader:
    """Reads requests one after the other, and keeps the members of the last one by their text.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self.groups: tuple[bytes, list[Group]] = (b"", [])
        self.nodes: dict[bytes, tuple[Node, tuple[str, ...]]] = {}
        self.instances: dict[bytes, Instance] = {}
        self.hypervisor: str | None = None

    def read(self, data: bytes) -> Message:
        """Parse a message like :func:`.iallocator.read`; only unknown text is parsed. Raises DataError."""
        with documents.without_garbage_collection():
            with suppress(UnusualRequest, DataError):
                return self._read(data)
            try:
                return iallocator.read(data)
            except DataError as error:
                raise untraced(error) from None  # what was parsed is gone before garbage is collected again

    def _read(self, data: bytes) -> Message:
        around, sections = _cut(data)
        hypervisor = iallocator.default_hypervisor(around)
        if hypervisor != self.hypervisor:
            self.nodes, self.hypervisor = {}, hypervisor
        if sections[0] != self.groups[0]:
            self.groups = sections[0], _groups(sections[0])
        self.nodes, nodes = _members(sections[1], self.nodes, self._node)
        self.instances, instances = _members(sections[2], self.instances, iallocator.instance)
        warnings = [line for _, lines in nodes for line in lines]
        return iallocator.assemble(around, self.groups[1], (row for row, _ in nodes), instances, warnings)

    def _node(self, name: str, values: Any) -> tuple[Node, tuple[str, ...]]:
        warnings: list[str] = []
        return iallocator.node(name, values, self.hypervisor, warnings), tuple(warnings)


def _cut(data: bytes) -> tuple[Fields, list[bytes]]:
    """The text around the sections, and the text within each section."""
    positions, end = [], 0
    for start in STARTS:
        begin = data.find(start, end) if start is not STARTS[-1] else data.rfind(start, end)
        if begin < 0:
            raise UnusualRequest
        positions.append((begin, end := begin + len(start)))
    before, after = data[: positions[0][0]], data[positions[-1][0] + 1 :]
    _parsed(before.rstrip(b", ") + b"}")
    numbers = b", ".join(b'"%s": %d' % (name.encode(), number) for number, name in enumerate(SECTIONS))
    around = _parsed(before + numbers + after)
    ends = [begin for begin, _ in positions[1:]]
    return (
        Fields("invalid iallocator message", around),
        [data[begin:end] for (_, begin), end in zip(positions, ends, strict=False)],
    )


def _groups(text: bytes) -> list[Group]:
    return iallocator.groups(_parsed(b"{" + text + b"}"))


def _members(
    text: bytes, known: dict[bytes, Row], make: Callable[[str, Any], Row]
) -> tuple[dict[bytes, Row], list[Row]]:
    """Return the members of an object by text and in order; only unknown ones are parsed."""
    if not text:
        return {}, []
    if text[:1] != START or text[-1:] != END:
        raise UnusualRequest
    pieces = BETWEEN.split(text[1:-1])
    rows = [known.get(piece) or make(*_member(piece)) for piece in pieces]
    return dict(zip(pieces, rows, strict=True)), rows


def _member(piece: bytes) -> tuple[str, Any]:
    parsed = _parsed(b'{"' + piece + b"}}")
    if len(parsed) != 1:
        raise UnusualRequest
    ((name, values),) = parsed.items()
    return name, values


def _parsed(text: bytes) -> Any:
    try:
        return documents.parse_document(text)
    except DocumentError:
        raise UnusualRequest from None
