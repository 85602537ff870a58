"""Typed access to JSON objects, with errors that name the object, the field and what was expected."""

from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import islice
from typing import Any, TypeVar

from ganeti_htools.backends.documents import DocumentError, RepeatedError, parse_document, parse_with_repeats
from ganeti_htools.model.cluster import MAX_MIB
from ganeti_htools.model.errors import DataError

Kind = TypeVar("Kind", bound=Enum)

MAX_COUNT = 1 << 31


def parse_json(data: bytes, what: str) -> Any:
    """Parse JSON; of a repeated name the first value counts. Raises DataError naming ``what``."""
    try:
        return parse_document(data)
    except RepeatedError:
        return parse_with_repeats(data)
    except DocumentError as error:
        raise DataError(f"{what}: Invalid JSON: {error}") from None


def excerpt(value: Any) -> str:
    """Return the beginning of a value for an error message, without formatting the rest."""
    text = "".join(islice(_written(value), 40))
    return text if len(text) <= 40 else text[:37] + "..."


def _written(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield repr(value[:40])
        case list():
            yield "["
            for position, item in enumerate(value):
                yield from (", ",) if position else ()
                yield from _written(item)
            yield "]"
        case dict():
            yield "{"
            for position, (name, item) in enumerate(value.items()):
                yield from (", ",) if position else ()
                yield repr(name[:40]) + ": "
                yield from _written(item)
            yield "}"
        case _:
            yield repr(value)


class Fields:
    """One JSON object, and its name in error messages."""

    __slots__ = ("owner", "values")

    def __init__(self, owner: str, values: Any) -> None:
        if not isinstance(values, dict):
            raise DataError(f"{owner}: Unable to read JSObject, expected an object, got {excerpt(values)}")
        self.owner = owner
        self.values: Mapping[str, Any] = values

    def wrong(self, key: str, kind: str, expected: str) -> DataError:
        """Return the error for a value of the wrong type or size."""
        got = excerpt(self.values.get(key))
        return DataError(f"{self.owner}: key '{key}': Unable to read {kind}, expected {expected}, got {got}")

    def value(self, key: str) -> Any:
        try:
            return self.values[key]
        except KeyError:
            names = ", ".join(list(self.values)[:20])
            raise DataError(f"{self.owner}: key '{key}' not found, object contains only [{names}]") from None

    def integer(self, key: str, low: int = 0, high: int = MAX_MIB) -> int:
        """Return a whole number in range; a fraction is rounded."""
        value = self.value(key)
        if type(value) is int and low <= value <= high:
            return value
        if isinstance(value, float) and low <= value <= high:
            return round(value)
        raise self.wrong(key, "Int", f"a whole number from {low} to {high}")

    def count(self, key: str) -> int:
        """A whole number from 0 up."""
        return self.integer(key, 0, MAX_COUNT)

    def free(self, key: str) -> int:
        """Return a free amount (MiB or a count); negative if more is used than exists."""
        return self.integer(key, -MAX_MIB)

    def number(self, key: str) -> float:
        """A number from 0 up."""
        value = self.value(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_MIB:
            return float(value)
        raise self.wrong(key, "Double", f"a number from 0 to {MAX_MIB}")

    def text(self, key: str) -> str:
        value = self.value(key)
        if not isinstance(value, str):
            raise self.wrong(key, "String", "a string")
        return value

    def boolean(self, key: str) -> bool:
        value = self.value(key)
        if not isinstance(value, bool):
            raise self.wrong(key, "Bool", "true or false")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.value(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(key, "[String]", "a list of strings")
        return tuple(value)

    def choice(self, key: str, kind: type[Kind]) -> Kind:
        try:
            return kind(self.value(key))
        except ValueError:
            values = ", ".join(str(each.value) for each in kind)
            raise self.wrong(key, kind.__name__, f"one of {values}") from None

    def choices(self, key: str, kind: type[Kind]) -> tuple[Kind, ...]:
        try:
            return tuple(kind(value) for value in self.texts(key))
        except ValueError:
            values = ", ".join(str(each.value) for each in kind)
            raise self.wrong(key, f"[{kind.__name__}]", f"a list of {values}") from None

    def object(self, key: str) -> "Fields":
        value = self.value(key)
        if not isinstance(value, dict):
            raise self.wrong(key, "JSObject", "an object")
        return Fields(self.owner, value)

    def objects(self, key: str) -> "list[Fields]":
        value = self.value(key)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.wrong(key, "[JSObject]", "a list of objects")
        return [Fields(self.owner, item) for item in value]

    def has(self, key: str) -> bool:
        """Whether the key exists and is not null."""
        return self.values.get(key) is not None
