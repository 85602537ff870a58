"""Errors and warnings for users; an exception's text is a single line."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

LONGEST = 1000  # characters of a message that quotes foreign text
MAX_NAMES = 3  # names in a message

Error = TypeVar("Error", bound=BaseException)


def on_one_line(text: str) -> str:
    """Return foreign text as printable text of one line and limited length."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
    return printable(text)


def printable(text: str) -> str:
    """Return foreign text without characters that a terminal or a reader of lines obeys: they are escaped."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )


def first_names(names: Sequence[str]) -> str:
    """List the first names, and the number of the others."""
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + f" and {more} more" * (more > 0)


def printable_lines(text: str) -> str:
    """Return text of several lines, each of them :func:`printable`."""
    return "\n".join(map(printable, text.split("\n")))


def inconsistency_warning(lines: Iterable[str]) -> str:
    """Return the warning that lists inconsistent figures, one line each; empty if there are none."""
    listed = "".join(f"  - {line}\n" for line in lines)
    return f"Warning: cluster has inconsistent data:\n{listed}\n" if listed else ""


class HtoolsError(Exception):
    """An error that a user can act on; its text is one line. Programs exit with status 1.

    ``hint`` is a line about what to do, which programs print after an error whose text is Debian's. With
    ``exact`` scripts may compare standard error with that text: about a text file the hint is printed only
    with ``-v`` or on a terminal.
    """

    def __init__(self, text: str, hint: str = "", exact: bool = False) -> None:
        super().__init__(text)
        self.hint, self.exact = hint, exact


class DataError(HtoolsError):
    """Invalid input: the text names the object, the field and the expectation."""

    def __init__(self, text: str) -> None:
        super().__init__(on_one_line(text))


class UsageError(HtoolsError):
    """An invalid command line. Programs exit with status 2."""


class RequestFailed(HtoolsError):
    """A well-formed iallocator request that cannot be satisfied; answered with ``success: false``."""


@contextmanager
def during(task: str) -> Iterator[None]:
    """Prefix the text of an HtoolsError with the task. Raises HtoolsError."""
    try:
        yield
    except HtoolsError as error:
        raise HtoolsError(f"{task}: {error}", error.hint, error.exact) from error


def untraced(error: Error) -> Error:
    """Return the error without traceback and causes.

    A traceback keeps large objects alive. An error passed between threads is part of a reference cycle (its
    frames' ``f_back``) that only the garbage collector breaks; with millions of values, collection stops
    the process for a second.
    """
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
