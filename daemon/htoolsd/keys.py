"""Keys of the configuration file: what they mean, their defaults, and how their values are checked."""

from collections.abc import Callable, Mapping
from dataclasses import Field, field, fields
from typing import Any

from ganeti_htools.model.errors import DataError

# From the name of a key and what stands in the file to its value; raises DataError.
Reader = Callable[[str, object], Any]

_BEYOND = 1_000_000_000  # numbers are less: 31 years, 953 TiB


def key(default: Any, doc: str, fixed: bool = False, read: Reader | None = None) -> Any:
    """A key; a ``fixed`` one is read when the daemon starts and needs a restart to change.

    Without ``read`` its value is of the type of its default: numbers are greater than 0, a dataclass declares
    the keys of a table.
    """
    checks = read or _READERS.get(type(default)) or _table(type(default))
    return field(default=default, metadata={"doc": doc, "fixed": fixed, "read": checks})


def again(cls: type[Any], name: str, default: Any) -> Any:
    """A key of another table, with a default of its own."""
    (known,) = (each for each in fields(cls) if each.name == name)
    return field(default=default, metadata=known.metadata)


def checked(cls: type[Any], where: str, found: Mapping[str, object]) -> dict[str, Any]:
    """The values of a table, each checked. Raises DataError."""
    known: Mapping[str, Field[Any]] = {each.name: each for each in fields(cls)}
    values = {}
    for name, value in found.items():
        if name not in known:
            raise DataError(f"{where}: unknown key '{name}'; known are {', '.join(known)}")
        values[name] = known[name].metadata["read"](f"{where}: {name}", value)
    return values


def text(name: str, value: object) -> str:
    """A string."""
    if not isinstance(value, str):
        raise DataError(f"{name}: expected a string")
    return value


def one_of(*choices: str) -> Reader:
    """One of some strings."""

    def read(name: str, value: object) -> str:
        if text(name, value) not in choices:
            raise DataError(f"{name}: expected one of {', '.join(choices)}, not '{value}'")
        return text(name, value)

    return read


def texts(*choices: str) -> Reader:
    """A list of strings; if there are ``choices``, of these."""

    def read(name: str, value: object) -> tuple[str, ...]:
        wanted = f" from {', '.join(choices)}" if choices else ""
        match value:
            case [*found] if all(isinstance(each, str) and each in (choices or [each]) for each in found):
                return tuple(map(str, found))
        raise DataError(f"{name}: expected a list of strings{wanted}")

    return read


def _table(cls: type[Any]) -> Reader:
    def read(name: str, value: object) -> Any:
        if not isinstance(value, dict):
            raise DataError(f"{name}: expected a table, [{name.rpartition(' ')[2]}]")
        values = checked(cls, name, value)
        try:
            return cls(**values)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None

    return read


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise DataError(f"{name}: expected true or false")
    return value


def _number(name: str, value: object) -> float:
    return _positive(name, value, (int, float), "a number")


def _count(name: str, value: object) -> int:
    return int(_positive(name, value, (int,), "a whole number"))


def _positive(name: str, value: object, kinds: tuple[type, ...], expected: str) -> float:
    if type(value) not in kinds or not 0 < value < _BEYOND:  # type: ignore[operator]
        bound = f" and less than {_BEYOND}" if type(value) in kinds and value >= _BEYOND else ""  # type: ignore[operator]
        raise DataError(f"{name}: expected {expected} greater than 0{bound}")
    return value  # type: ignore[return-value]


_READERS: Mapping[type, Reader] = {str: text, bool: _flag, float: _number, int: _count}
