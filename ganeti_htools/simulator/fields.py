"""The fields of luxid's queries, each described as Ganeti describes it (``lib/query.py``).

A field has a value for each object, or a number that stands for the reason why it has none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ganeti_htools.simulator.world import World

NORMAL, UNKNOWN, NO_DATA, UNAVAILABLE, OFFLINE = range(5)

Entry = tuple[int, Any]  # one of the numbers above, and a value


class Field(NamedTuple):
    """A column with Ganeti's description.

    ``alone``: its value depends on the object only, not on the world.
    """

    title: str
    kind: str
    doc: str
    value: Callable[[World, Any], Entry]
    alone: bool = False


@dataclass(frozen=True, slots=True)
class QueryTable:
    """The columns of a kind of object. ``name`` is the column with the object's name."""

    fields: Mapping[str, Field]
    name: str = "name"


def field(title: str, kind: str, doc: str, value: Callable[[Any], Any]) -> Field:
    """Return a field whose value depends on the object only."""
    return Field(title, kind, doc, lambda _world, row: (NORMAL, value(row)), alone=True)


def world_field(title: str, kind: str, doc: str, value: Callable[[World, Any], Any]) -> Field:
    """Return a field whose value depends on the object and the world."""
    return Field(title, kind, doc, lambda world, row: (NORMAL, value(world, row)))
