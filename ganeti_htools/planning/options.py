"""Options of plans as one flat JSON object, by the dataclasses that declare them.

Nested dataclasses are flattened. Missing options have their defaults, objects of strings an empty one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from ganeti_htools.model.cluster import MAX_MIB
from ganeti_htools.model.errors import DataError
from ganeti_htools.records import CONDITIONS, RecordReader, Valid

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
            # A negative default means no limit.
            signed = isinstance(field.default, int | float) and field.default < 0
            parts[name] = (_SIGNED if signed else _UNSIGNED).read(hint, name, values[name])
    return cls(**parts)


def _numbers_from(low: int) -> RecordReader:
    def fits(value: float) -> bool:
        return low <= value <= MAX_MIB

    limits = f"from {low} to {MAX_MIB}"
    numbers = {int: [Valid(f"a whole number {limits}", fits)], float: [Valid(f"a number {limits}", fits)]}
    return RecordReader({**CONDITIONS, **numbers}, quotes=True)


_UNSIGNED, _SIGNED = _numbers_from(0), _numbers_from(-MAX_MIB)
