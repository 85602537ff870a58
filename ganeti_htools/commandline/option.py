"""Options: what a command line may have.

An option is declared once, as an attribute of the class of command lines (:mod:`.line`): its names, its help,
the kind of its argument and its default. The type of its value follows from the kind and the default.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar, overload

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Takes(Enum):
    """Whether an option has an argument."""

    NOTHING = 0
    ARGUMENT = 1
    OPTIONAL = 2


class Heading(str):
    """A heading of ``--help``: the options declared after it, up to the next heading, are listed below it."""


class Kind(NamedTuple, Generic[T_co]):
    """A kind of argument: its reader, its name in help, and its kind in shell completion (in Ganeti's words).

    The reader raises DataError.
    """

    read: Callable[[str], T_co]
    metavar: str
    completion: str


class Values:
    """A command line: arguments that belong to no option, and a value for each option that was given.

    Subclasses declare the options. An option that was not given has its default.
    """

    def __init__(self, arguments: tuple[str, ...] = (), **values: Any) -> None:
        options = vars(type(self))
        self.arguments = arguments
        self.given = {name: value for name, value in values.items() if value != options[name].default}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and (self.arguments, self.given) == (other.arguments, other.given)

    def __hash__(self) -> int:
        return hash(self.arguments)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.arguments}, {self.given})"


class Option(Generic[T]):
    """An option. On a command line its attribute is the value; on the class of the command line, the option.

    ``update`` makes the new value from the old one and the argument, which is empty if it was left out.
    It raises DataError. Two options with the same ``field`` change the same value. ``local``
    options describe data that only the program itself can read.
    """

    def __init__(
        self,
        default: T,
        update: Callable[[T, str], T],
        text: str,
        short: str = "",
        *,
        takes: Takes = Takes.NOTHING,
        metavar: str = "",
        completion: str = "none",
        long: str = "",
        field: str = "",
        local: bool = False,
    ) -> None:
        self.default = default
        self.update = update
        self.help = text
        self.short = short
        self.takes = takes
        self.metavar = metavar
        self.completion = completion
        self.long = long
        self.field = field
        self.local = local

    def __set_name__(self, owner: type[Values], name: str) -> None:
        self.long = self.long or name.replace("_", "-")
        self.field = self.field or name

    @overload
    def __get__(self, line: None, owner: type[Values]) -> "Option[T]": ...

    @overload
    def __get__(self, line: Values, owner: type[Values]) -> T: ...

    def __get__(self, line: Values | None, owner: type[Values]) -> "Option[T] | T":
        if line is None:
            return self
        value: T = line.given.get(self.field, self.default)
        return value


def switch(text: str, short: str = "", **details: Any) -> Option[bool]:
    """An option without argument."""
    return Option(False, lambda _old, _argument: True, text, short, **details)


@overload
def value(kind: Kind[T], default: None, text: str, short: str = "", **details: Any) -> Option[T | None]: ...


@overload
def value(kind: Kind[T], default: T, text: str, short: str = "", **details: Any) -> Option[T]: ...


def value(kind: Kind[Any], default: Any, text: str, short: str = "", **details: Any) -> Option[Any]:
    """An option with an argument; the last one counts.

    With ``takes=Takes.OPTIONAL`` the argument may be left out; the kind reads an empty text then.
    """
    takes: dict[str, Any] = {"takes": Takes.ARGUMENT, "metavar": kind.metavar, "completion": kind.completion}
    return Option(default, lambda _old, argument: kind.read(argument), text, short, **takes | details)


def repeated(kind: Kind[T], text: str, short: str = "", **details: Any) -> Option[tuple[T, ...]]:
    """An option with an argument that may be given several times; all of them count."""
    takes: dict[str, Any] = {"takes": Takes.ARGUMENT, "metavar": kind.metavar, "completion": kind.completion}
    return Option((), lambda old, argument: (*old, kind.read(argument)), text, short, **takes | details)
