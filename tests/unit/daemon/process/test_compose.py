"""The parts of the daemon know only those below them."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from ganeti_htools.sources.ssconf import Ssconf
from htoolsd.api.parts import ReloadStatus
from htoolsd.events import EventStream
from htoolsd.process.compose import Parts
from htoolsd.socket.methods import Methods
from tests.support.settings import settings

UPWARDS = (EventStream, Methods)  # what happened, and calls, go to parts above, which nobody below knows


def held(thing: Any) -> Iterator[Any]:
    """Yield what an object, a container or a function holds."""
    match thing:
        case dict():
            yield from thing.values()
        case list() | tuple() | set() | frozenset():
            yield from thing
        case MethodType():
            yield thing.__self__
        case partial():
            yield from (thing.func, *thing.args, *thing.keywords.values())
        case FunctionType():
            yield from (cell.cell_contents for cell in thing.__closure__ or ())
        case _ if type(thing).__module__.startswith("htoolsd.") and not isinstance(thing, UPWARDS):
            yield from vars(thing).values() if hasattr(thing, "__dict__") else ()
            if is_dataclass(thing):
                yield from (getattr(thing, each.name) for each in fields(thing))


def test_no_part_reaches_itself_through_others(tmp_path: Path) -> None:
    known = settings(state_dir=str(tmp_path), ledger="sqlite://")
    waiting: list[Any] = [Parts(known, Ssconf("node1", str(tmp_path)), ReloadStatus())]
    kept, graph = [], dict[int, set[int]]()
    while waiting:
        thing = waiting.pop()
        if id(thing) not in graph:
            parts = list(held(thing))
            kept.append((thing, parts))  # so that no other object gets its id
            graph[id(thing)] = {id(part) for part in parts} - {id(thing)}
            waiting += parts
    assert len([thing for thing, _ in kept if type(thing).__module__.startswith("htoolsd.")]) > 50
    names = {id(thing): type(thing).__qualname__ for thing, _ in kept}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError([names[each] for each in error.args[1]]) from None
