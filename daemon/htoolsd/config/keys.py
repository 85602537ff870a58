"""Keys of the configuration file: their meaning, their defaults, and the checks of their values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, field, fields
from typing import Any

from ganeti_htools.model.errors import DataError, on_one_line

# From the name of a key and the value in the file to the checked value; raises DataError.
Reader = Callable[[str, object], Any]

_BEYOND = 1_000_000_000  # numbers are smaller: 31 years, 953 TiB


def key(default: Any, doc: str, fixed: bool = False, read: Reader | None = None) -> Any:
    """Declare a key. A change of a ``fixed`` key needs a restart of the daemon.

    Without ``read`` the value must have the type of the default. Numbers are greater than 0; a dataclass
    declares the keys of a table.
    """
    checks = read or _READERS.get(type(default)) or _table(type(default))
    return field(default=default, metadata={"doc": doc, "fixed": fixed, "read": checks})


def key_with_default(cls: type[Any], name: str, default: Any) -> Any:
    """Declare a key of table ``cls`` with another default."""
    (known,) = (each for each in fields(cls) if each.name == name)
    return field(default=default, metadata=known.metadata)


class ConfigError(DataError):
    """Errors of a configuration, a line each. The text has the first, ``valid`` the right values."""

    def __init__(self, lines: Sequence[str], valid: Mapping[str, Any]) -> None:
        more = f"; errors in all: {len(lines)} (--check-config lists them)" if len(lines) > 1 else ""
        super().__init__(lines[0] + more)
        self.lines = lines
        self.valid = valid


def check_table(cls: type[Any], where: str, found: Mapping[str, object]) -> dict[str, Any]:
    """Return the checked values of a table. Raises ConfigError."""
    known: Mapping[str, Field[Any]] = {each.name: each for each in fields(cls)}
    values, errors = dict[str, Any](), list[str]()
    for name, value in found.items():
        if name not in known:
            errors.append(on_one_line(f"{where}: unknown key '{name}'; expected one of {', '.join(known)}"))
            continue
        try:
            values[name] = known[name].metadata["read"](f"{where}: {name}", value)
        except ConfigError as error:
            errors += error.lines
        except DataError as error:
            errors.append(str(error))
    if errors:
        raise ConfigError(errors, values)
    return values


def text(name: str, value: object) -> str:
    """Check that a value is a string. Raises DataError."""
    if not isinstance(value, str):
        raise DataError(f"{name}: expected a string")
    return value


def checked(check: Callable[[str], object]) -> Reader:
    """Return a reader of strings; ``check`` raises DataError for a bad one. The empty string is accepted."""

    def read(name: str, value: object) -> str:
        found = text(name, value)
        try:
            if found:
                check(found)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
        return found

    return read


def one_of(*choices: str) -> Reader:
    """Return a reader that accepts these strings."""

    def read(name: str, value: object) -> str:
        if text(name, value) not in choices:
            raise DataError(f"{name}: expected one of {', '.join(choices)}, not '{value}'")
        return text(name, value)

    return read


def texts(*choices: str) -> Reader:
    """Return a reader that accepts lists of strings, of ``choices`` if there are any."""

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
        values = check_table(cls, name, value)
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
