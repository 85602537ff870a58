"""The fields that luxid answers queries from, each described as Ganeti describes it (``lib/query.py``).

A field has a value for each object, or none for a reason: Ganeti tells which by a number.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ganeti_htools.simulator.world import World

NORMAL, UNKNOWN, NO_DATA, UNAVAILABLE, OFFLINE = range(5)

Entry = tuple[int, Any]  # one of the numbers above, and a value


class Field(NamedTuple):
    """A column: how Ganeti calls it, and its value for an object of the world, or of the object ``alone``."""

    title: str
    kind: str
    doc: str
    value: Callable[[World, Any], Entry]
    alone: bool = False


@dataclass(frozen=True, slots=True)
class QueryTable:
    """A kind of object: its columns, and the one that names its objects."""

    fields: Mapping[str, Field]
    name: str = "name"


def field(title: str, kind: str, doc: str, value: Callable[[Any], Any]) -> Field:
    """A field that the object alone tells."""
    return Field(title, kind, doc, lambda _world, row: (NORMAL, value(row)), alone=True)


def placed(title: str, kind: str, doc: str, value: Callable[[World, Any], Any]) -> Field:
    """A field that the object tells together with the world."""
    return Field(title, kind, doc, lambda world, row: (NORMAL, value(world, row)))
