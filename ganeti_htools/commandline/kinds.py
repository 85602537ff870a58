"""The kinds of arguments that options have. All readers raise DataError for a text of another kind."""

from collections.abc import Callable
from enum import Enum
from typing import Literal, TypeVar

from ganeti_htools.backends import units, values
from ganeti_htools.commandline.option import Kind
from ganeti_htools.model import tags
from ganeti_htools.model.cluster import MAX_MIB
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.ganeti_version import parse_version
from ganeti_htools.model.hours import read_hours
from ganeti_htools.model.load import LoadMode
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.types import DiskTemplate

Member = TypeVar("Member", bound=Enum)


def _names(text: str) -> tuple[str, ...]:
    return values.several(text, ",")


def _fields(text: str) -> tuple[str, ...]:
    """Split names of fields; the first is ``+`` if they are added to the usual fields."""
    return ("+", *_names(text[1:])) if text.startswith("+") else _names(text)


def _ratio(text: str) -> float:
    found = values.number(text)
    if not found:
        raise DataError(f"expected a ratio above 0, not {values.quote(text)}")
    return found


_PRIORITIES: dict[str, Literal["low", "normal", "high"]] = {"low": "low", "normal": "normal", "high": "high"}


def _priority(text: str) -> Literal["low", "normal", "high"]:
    if text not in _PRIORITIES:
        raise DataError(f"Unknown priority {values.quote(text)}, expected low, normal or high")
    return _PRIORITIES[text]


def _load(text: str) -> LoadMode:
    return values.choice(text, {"none": "none", "upstream": "upstream", "real": "real"})


def _reaction(text: str) -> Literal["replan", "stop"]:
    return values.choice(text, {"replan": "replan", "stop": "stop"})


def _spec(name: str) -> Callable[[str], tuple[int, ...]]:
    """Make a reader of instance sizes: disk and memory (MiB), CPUs, and spindles (1 if left out)."""
    readers = {"disk": values.size, "memory": values.size, "cpus": values.whole, "spindles": values.whole}

    def read(text: str) -> tuple[int, ...]:
        parts = text.split(",")
        if len(parts) not in (3, 4):
            raise DataError(
                f"Invalid {name} specification: {values.quote(text)}, expected disk,ram,cpu[,spindles]"
            )
        given = [
            values.read(reader, part, f"{name} specs {field}")
            for (field, reader), part in zip(readers.items(), parts, strict=False)
        ]
        return (*given, 1)[:4]

    return read


def _prices(text: str) -> tuple[float, ...]:
    parts = text.split(",")
    if not 1 <= len(parts) <= 3:
        raise DataError(f"expected DISKS[,MEMORY[,FAILOVER]], not {values.quote(text)}")
    return tuple(map(values.number, parts))


def _bandwidth(text: str) -> int:
    found = values.whole(text)
    if not 0 < found <= tags.MAX_SPEED:
        raise DataError(f"expected Mbit/s above 0, not {values.quote(text)}")
    return found


def _plan(text: str) -> int:
    found = values.whole(text)
    if not found:
        raise DataError("expected a number above 0, not 0")
    return found


def _storage_unit(text: str) -> DesiredUnit:
    parts = text.split(",")
    if len(parts) != 2:
        raise DataError(f"expected TYPE,KEY, not {values.quote(text)}")
    return units.parse_named_unit(*parts)


def _disk(text: str) -> tuple[int, DesiredUnit | None]:
    """Read the size (MiB) of a disk, and its storage unit if there is one."""
    size, _, unit = text.partition(",")
    return values.binary_size(size), _storage_unit(unit) if unit else None


def _demand(text: str) -> tuple[str, int]:
    """Read the amount of a custom resource class that an instance demands, in the form of its tags."""
    found = tags.demands([f"{tags.RESOURCE}{text}"])
    if not found:
        raise DataError(f"expected CLASS:AMOUNT such as CUSTOM_GPU:1, not {values.quote(text)}")
    return next(iter(found.items()))


TEXT = Kind(str, "TEXT", "none")
FILE = Kind(str, "FILE", "file")
DIRECTORY = Kind(str, "PATH", "dir")
HOST = Kind(str, "ADDRESS", "host")
GROUP = Kind(str, "GROUP", "onegroup")
NODE = Kind(str, "NODE", "onenode")
INSTANCE = Kind(str, "INSTANCE", "oneinstance")
HOURS = Kind(read_hours, "BEGIN-END", "string")
PROGRAM = Kind(str, "PROGRAM", "file")
NODES = Kind(_names, "NODES", "manynodes")
INSTANCES = Kind(_names, "INSTS", "manyinstances")
TAGS = Kind(_names, "TAG,...", "string")
FIELDS = Kind(_fields, "FIELDS", "none")
COUNT = Kind(values.whole, "N", "integer")
STEPS = Kind(lambda text: values.whole(text, -MAX_MIB), "N", "integer")
NUMBER = Kind(values.number, "FACTOR", "float")
RATIO = Kind(_ratio, "RATIO", "float")
SIZE = Kind(values.size, "SIZE", "integer")
BINARY_SIZE = Kind(values.binary_size, "SIZE", "integer")  # of options that Debian's tools lack
DURATION = Kind(values.duration, "TIME", "float")
PRICES = Kind(_prices, "DISKS[,MEMORY[,FAILOVER]]", "string")
BANDWIDTH = Kind(_bandwidth, "RATE", "integer")
PLANS = Kind(lambda text: _plan(text or "10"), "N", "integer")
PLAN = Kind(_plan, "K", "integer")
CHOICE = Kind(
    lambda text: values.choice(text or "yes", {"yes": True, "no": False}), "CHOICE", "choices=yes,no"
)
LOAD = Kind(_load, "LOAD", "choices=none,upstream,real")
PRIORITY = Kind(_priority, "PRIO", "choices=low,normal,high")
REACTION = Kind(_reaction, "WHAT", "choices=replan,stop")
TEMPLATE = Kind(
    lambda text: values.member(text, DiskTemplate),
    "TEMPLATE",
    f"choices={','.join(template.value for template in DiskTemplate)}",
)
STANDARD_SIZE = Kind(_spec("standard"), "STDSPEC", "string")
TIERED_SIZE = Kind(_spec("tiered"), "TSPEC", "string")
STORAGE_UNIT = Kind(_storage_unit, "UNIT", "string")
DISK = Kind(_disk, "DISK", "string")
VERSION = Kind(parse_version, "VERSION", "string")
DEMAND = Kind(_demand, "DEMAND", "string")
