"""Options of plans as JSON, one flat object: written and read by the dataclasses that declare them.

The options of a part, a dataclass within the dataclass, stand with those of the whole. Options that are not
there have their defaults.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ganeti_htools.backends.fields import shown
from ganeti_htools.model.cluster import MAX_MIB
from ganeti_htools.model.errors import DataError

T = TypeVar("T")


def to_json(options: Any) -> dict[str, Any]:
    """The options that differ from their defaults."""
    told: dict[str, Any] = {}
    for field in fields(options):
        value = getattr(options, field.name)
        if is_dataclass(value):
            told |= to_json(value)
        elif value != field.default:
            told[field.name] = list(value) if isinstance(value, tuple) else value
    return told


def names(cls: type[Any]) -> Iterator[str]:
    """The options that a dataclass declares, those of its parts among them."""
    for name, (hint, _) in _declared(cls).items():
        yield from names(hint) if _is_part(hint) else [name]


def from_json(cls: type[T], values: Mapping[str, Any]) -> T:
    """The options of a dataclass. Raises DataError for one that is unknown or not of its type."""
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
    # Where the default is below 0, that stands for no bound.
    low = -MAX_MIB if default is not MISSING and isinstance(default, int | float) and default < 0 else 0
    number = type(value) in (int, float) and low <= value <= MAX_MIB
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        fits, expected = value in choices, " or ".join(choices)
    elif get_origin(hint) is tuple:
        fits, expected = type(value) is list and all(type(each) is str for each in value), "a list of strings"
        value = tuple(value) if fits else value
    elif hint is bool:
        fits, expected = type(value) is bool, "true or false"
    elif hint is int:
        fits, expected = number and type(value) is int, f"a whole number from {low} to {MAX_MIB}"
    elif hint is float:
        fits, expected = number, f"a number from {low} to {MAX_MIB}"
    else:
        fits, expected = type(value) is str, "a string"
    if not fits:
        raise DataError(f"{name}: expected {expected}, got {shown(value)}")
    return value
