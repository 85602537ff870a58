"""Arguments of calls: types of the parameters that get them, and the parser.

``Annotated[float, Valid("seconds of the epoch"), "only later entries"] = 0.0`` declares type, check, meaning
and default of an argument. ``X | None`` allows null. Contents of a ``Mapping`` are parsed, of a ``dict`` not.
"""

from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from ganeti_htools.client.protocol import Refusal, RefusalError


class Valid(NamedTuple):
    """A condition that values must meet, and its words in a refusal."""

    expected: str
    fits: Callable[[Any], object] = lambda _value: True


def choice(names: Iterable[str]) -> Valid:
    """Return the check that a value is one of these names."""
    names = tuple(names)
    return Valid(" or ".join(names), names.__contains__)


Name = Annotated[str, Valid("a name", lambda name: 0 < len(name) <= 512 and name.isprintable())]

_CHECKS: Mapping[Any, Valid] = {
    bool: Valid("true or false"),
    int: Valid("a whole number"),
    float: Valid("a number"),
    str: Valid("a string"),
    dict: Valid("an object"),
}
_JSON: Mapping[Any, tuple[type, ...]] = {float: (int, float), tuple: (list,), Mapping: (dict,)}


def describe(hint: Any) -> str:
    """Return the meaning of an argument: the last note of its type."""
    note = hint.__metadata__[-1]
    return note.expected if isinstance(note, Valid) else str(note)


def parse(where: str, hint: Any, value: Any) -> Any:
    """Return a value from JSON, of the type of a parameter. Raises RefusalError."""
    kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    inner, kind = get_args(kind), get_origin(kind) or kind
    if NoneType in inner:
        return None if value is None else parse(where, inner[0], value)
    check = next((note for note in notes if isinstance(note, Valid)), None) or _CHECKS[kind]
    if type(value) not in _JSON.get(kind, (kind,)) or not check.fits(value):
        raise RefusalError(Refusal.ARGUMENTS, f"{where}: expected {check.expected}")
    if kind is Mapping:
        return {parse(where, inner[0], key): parse(f"{where}: {key}", inner[1], value[key]) for key in value}
    return kind(value)
