"""Options of plans as one flat JSON object, by the dataclasses that declare them.

Nested dataclasses are flattened. Missing options have their defaults, objects of strings an empty one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ganeti_htools.backends.fields import excerpt
from ganeti_htools.model.cluster import MAX_MIB
from ganeti_htools.model.errors import DataError

T = TypeVar("T")


def to_json(options: Any) -> dict[str, Any]:
    """Return the options that differ from their defaults."""
    changed: dict[str, Any] = {}
    for field in fields(options):
        value = getattr(options, field.name)
        if is_dataclass(value):
            changed |= to_json(value)
        elif value != (field.default if field.default_factory is MISSING else field.default_factory()):
            changed[field.name] = list(value) if isinstance(value, tuple) else value
    return changed


def names(cls: type[Any]) -> Iterator[str]:
    """Yield the names of the options of a dataclass and its nested dataclasses."""
    for name, (hint, _) in _declared(cls).items():
        yield from names(hint) if _is_part(hint) else [name]


def from_json(cls: type[T], values: Mapping[str, Any]) -> T:
    """Parse the options of a dataclass. Raises DataError for an unknown option or a wrong type."""
    known = set(names(cls))
    for name in values:
        if name not in known:
            raise DataError(f"{name[:40]}: no such option, expected some of {', '.join(sorted(known))}")
    return _read(cls, values)


def _is_part(hint: Any) -> bool:
    return is_dataclass(hint)


def _declared(cls: type[Any]) -> dict[str, tuple[Any, Field[Any]]]:
    hints = get_type_hints(cls)
    return {field.name: (hints[field.name], field) for field in fields(cls)}


def _read(cls: type[T], values: Mapping[str, Any]) -> T:
    parts = {}
    for name, (hint, field) in _declared(cls).items():
        if _is_part(hint):
            parts[name] = _read(hint, values)
        elif name in values:
            parts[name] = _value(name, hint, field.default, values[name])
    return cls(**parts)


def _value(name: str, hint: Any, default: Any, value: Any) -> Any:
    if get_origin(hint) in (Union, UnionType):  # with None
        if value is None:
            return None
        hint = get_args(hint)[0]
    # A negative default means no limit.
    low = -MAX_MIB if default is not MISSING and isinstance(default, int | float) and default < 0 else 0
    number = type(value) in (int, float) and low <= value <= MAX_MIB
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        fits, expected = value in choices, " or ".join(choices)
    elif get_origin(hint) is tuple:
        fits, expected = type(value) is list and all(type(each) is str for each in value), "a list of strings"
        value = tuple(value) if fits else value
    elif get_origin(hint) is Mapping:
        fits = type(value) is dict and all(type(each) is str for each in value.values())
        expected = "an object of strings"
    elif hint is bool:
        fits, expected = type(value) is bool, "true or false"
    elif hint is int:
        fits, expected = number and type(value) is int, f"a whole number from {low} to {MAX_MIB}"
    elif hint is float:
        fits, expected = number, f"a number from {low} to {MAX_MIB}"
    else:
        fits, expected = type(value) is str, "a string"
    if not fits:
        raise DataError(f"{name}: expected {expected}, got {excerpt(value)}")
    return value
