"""Records: values of JSON or TOML documents, read and checked by the type hints that declare them.

A hint is bool, int, float or str, or several of them; Any; ``X | None``; a Literal; an Enum;
``tuple[X, ...]``, ``list[X]`` or ``Sequence[X]``; ``tuple[X, Y]``; ``Mapping[X, Y]`` or ``dict[X, Y]``; or a
dataclass, NamedTuple or TypedDict. A note of type :class:`Valid` (``Annotated[X, Valid(...)]``) adds a
condition, text the meaning; a function reads the value instead.

A key that is missing has its default, or is null. Whole numbers are numbers; true and false are not. A
NamedTuple may also be written as a list. A TypedDict stays the object that it is, with all its keys.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import orjson

from ganeti_htools.backends.fields import excerpt
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.model.wording import did_you_mean

# From the name of a value, for errors, and the value in the document to the typed value. Raises DataError.
Reader = Callable[[str, Any], Any]


class Valid(NamedTuple):
    """A condition that values must meet, and its words in an error."""

    expected: str
    fits: Callable[[Any], object] = lambda _value: True


class RecordError(DataError):
    """Errors of a record, a line each. The text has the first, ``valid`` the right values."""

    def __init__(self, lines: Sequence[str], valid: Mapping[Any, Any]) -> None:
        super().__init__(lines[0])
        self.lines = lines
        self.valid = valid


# Conditions of the types of JSON. The first has the words for a value of another type.
CONDITIONS: Mapping[Any, Sequence[Valid]] = {
    bool: [Valid("true or false")],
    int: [Valid("a whole number")],
    float: [Valid("a number")],
    str: [Valid("a string")],
    list: [Valid("a list")],
    dict: [Valid("an object")],
}


def choice(names: Iterable[str]) -> Valid:
    """Return the condition that a value is one of these names."""
    names = tuple(names)
    return Valid(" or ".join(names), names.__contains__)


def meaning(hint: Any) -> str:
    """Return the meaning of a value: the last text in its hint, or the words of the last condition."""
    note = [note for note in hint.__metadata__ if isinstance(note, str | Valid)][-1]
    return note.expected if isinstance(note, Valid) else note


@dataclass(frozen=True, eq=False)
class RecordReader:
    """A way to read values.

    ``conditions`` are those of types whose hint has none. ``objects`` are the words for a value that is no
    record, with its name. ``strict``: unknown keys are errors. ``quotes``: errors quote the value.
    """

    conditions: Mapping[Any, Sequence[Valid]]
    objects: str = "an object"
    strict: bool = False
    quotes: bool = False

    def read(self, hint: Any, where: str, value: Any) -> Any:
        """Return a value as its hint declares. Raises DataError; RecordError for all errors of an object."""
        return self._reader(hint)(where, value)

    @cache  # noqa: B019 (there are few of them)
    def _reader(self, hint: Any) -> Reader:
        kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        inner, kind = get_args(kind), get_origin(kind) or kind
        own: list[Reader] = [note for note in notes if callable(note)]
        if own:
            return own[0]
        if kind is NotRequired:
            return self._reader(inner[0])
        if kind in (Any, object):
            return _unchanged
        if NoneType in inner:
            present = self._reader(inner[0])
            return lambda where, value: None if value is None else present(where, value)
        if kind is UnionType:
            return self._checked(
                inner, [Valid(" or ".join(CONDITIONS[each][0].expected for each in inner))], _unchanged
            )
        if is_dataclass(kind) or is_typeddict(kind) or hasattr(kind, "_fields"):
            return self._record(kind)
        conditions = [note for note in notes if isinstance(note, Valid)]
        if kind is Literal:
            return self._checked(str, conditions or [choice(inner)], _unchanged)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return self._checked(str, [choice(each.value for each in kind)], _converted(kind))
        if kind is tuple and inner[-1] is not Ellipsis:
            return self._checked(list, conditions, self._pair(*inner))
        if kind in (list, tuple, Sequence):
            items = list if kind is list else tuple
            if inner[0] is not str:
                return self._checked(list, conditions, self._items(items, inner[0]))
            words = conditions[0].expected if conditions else "a list of strings"
            return self._checked(list, [Valid(words, _are_strings), *conditions], _converted(items))
        if kind in (dict, Mapping):
            return self._checked(dict, conditions, self._entries(*inner))
        return self._checked(kind, conditions, _converted(float) if kind is float else _unchanged)

    def _checked(self, kind: Any, conditions: Sequence[Valid], convert: Reader) -> Reader:
        kinds = kind if type(kind) is tuple else (int, float) if kind is float else (kind,)
        conditions = conditions or self.conditions[kind]

        def read(where: str, value: Any) -> Any:
            if type(value) not in kinds:
                raise self._wrong(where, conditions[0].expected, value)
            for each in conditions:
                if not each.fits(value):
                    raise self._wrong(where, each.expected, value)
            return convert(where, value)

        return read

    def _wrong(self, where: str, expected: str, value: Any) -> DataError:
        got = f", got {excerpt(value)}" if self.quotes else ""
        return DataError(_within(where, f"expected {expected}{got}"))

    def _items(self, kind: Any, hint: Any) -> Reader:
        reader = self._reader(hint)
        return lambda where, value: kind(
            _read_all(
                (place, reader, f"{where} {place}", each) for place, each in enumerate(value, 1)
            ).values()
        )

    def _pair(self, *hints: Any) -> Reader:
        readers = [self._reader(hint) for hint in hints]

        def read(where: str, value: Any) -> Any:
            if len(value) != len(readers):
                raise self._wrong(where, f"{len(readers)} values", value)
            return tuple(one(where, each) for one, each in zip(readers, value, strict=True))

        return read

    def _entries(self, names: Any, hint: Any) -> Reader:
        name, read = self._reader(names), self._reader(hint)
        return lambda where, value: _read_all(
            (name(where, key), read, _within(where, key), each) for key, each in value.items()
        )

    def _record(self, cls: Any) -> Reader:
        readers = {key: self._reader(hint) for key, hint in get_type_hints(cls, include_extras=True).items()}
        needed = {key: None for key in readers if key not in _defaults(cls)}

        def read(where: str, value: Any) -> Any:
            if type(value) is list and hasattr(cls, "_fields") and len(value) <= len(readers):
                value = dict(zip(readers, value, strict=False))
            if type(value) is not dict:
                raise self._wrong(where, self.objects.format(where.rpartition(" ")[2]), value)
            found = _read_all(
                (key, readers[key], _within(where, key), each)
                if key in readers
                else (key, _refuse, _unknown(where, key, readers), each)
                for key, each in (needed | value).items()
                if self.strict or key in readers
            )
            if is_typeddict(cls):
                value |= {key: None for key in needed if key not in value}
                return value
            try:
                return cls(**found)
            except DataError as error:
                raise DataError(_within(where, str(error))) from None

        return read


JSON = RecordReader(CONDITIONS)


def from_bytes(hint: Any, content: bytes | str) -> Any:
    """Return the record in a file of JSON. Raises DataError."""
    try:
        document = orjson.loads(content)
    except ValueError as error:
        raise DataError(f"not JSON: {error}") from None
    return JSON.read(hint, "", document)


def to_text(record: Any, to_json: Callable[[Any], Any] = lambda value: value._asdict()) -> str:
    """Return the content of a file: a record as JSON. ``to_json`` converts what is no JSON, NamedTuples."""
    return orjson.dumps(record, to_json, orjson.OPT_INDENT_2).decode() + "\n"


def refuse_newer(newest: int) -> Reader:
    """Return the reader of the version of a file. It raises HtoolsError for a newer version."""

    known = Annotated[int, Valid(f"at most {newest}", lambda value: value >= 0)]

    def read(where: str, value: Any) -> Any:
        if type(value) is int and value > newest:
            raise HtoolsError("written by a newer htoolsd; upgrade this one")
        return JSON.read(known, where, value)

    return read


def _defaults(cls: Any) -> set[str]:
    """Return the names of the fields that have a default."""
    if is_dataclass(cls):
        none = (MISSING, MISSING)
        return {each.name for each in fields(cls) if (each.default, each.default_factory) != none}
    return {*getattr(cls, "_field_defaults", ()), *getattr(cls, "__optional_keys__", ())}


def _read_all(parts: Iterable[tuple[Any, Reader, str, Any]]) -> dict[Any, Any]:
    """Return values by key; a part has key, reader, name for errors, and value. Raises RecordError."""
    found, errors = dict[Any, Any](), list[str]()
    for key, read, where, value in parts:
        try:
            found[key] = read(where, value)
        except RecordError as error:
            errors += error.lines
        except DataError as error:
            errors.append(str(error))
    if errors:
        raise RecordError(errors, found)
    return found


def _within(where: str, text: str) -> str:
    return f"{where}: {text}" if where else text


def _unknown(where: str, key: str, known: Iterable[str]) -> str:
    expected = did_you_mean(key, known) or f"expected one of {', '.join(known)}"
    return f"{where}: unknown key '{key}'; {expected}"


def _refuse(where: str, _value: Any) -> Any:
    raise DataError(where)


def _unchanged(_where: str, value: Any) -> Any:
    return value


def _converted(kind: Callable[[Any], Any]) -> Reader:
    return lambda _where, value: kind(value)


def _are_strings(value: Sequence[Any]) -> bool:
    return all(type(each) is str for each in value)
