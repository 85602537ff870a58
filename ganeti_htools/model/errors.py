"""The errors and warnings a user may see; each exception is a single line."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

LONGEST = 1000  # characters of a message that quotes foreign text

Error = TypeVar("Error", bound=BaseException)


def on_one_line(text: str) -> str:
    """Text that may quote anything, made fit to be shown: printable, and not too long."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )


def inconsistency_warning(lines: Iterable[str]) -> str:
    """The warning that figures of a cluster do not add up, a line for each; empty if there are none."""
    listed = "".join(f"  - {line}\n" for line in lines)
    return f"Warning: cluster has inconsistent data:\n{listed}\n" if listed else ""


class HtoolsError(Exception):
    """Something a user can act on; the text is one line. Programs exit with status 1."""


class DataError(HtoolsError):
    """Input that is wrong: the text names the object and the field and what was expected."""

    def __init__(self, text: str) -> None:
        super().__init__(on_one_line(text))


class UsageError(HtoolsError):
    """A command line that cannot be understood. Programs exit with status 2."""


class RequestFailed(HtoolsError):
    """A well-formed iallocator request that cannot be satisfied; answered with ``success: false``."""


@contextmanager
def during(task: str) -> Iterator[None]:
    """Puts the task before the text of an error that ends it. Raises HtoolsError."""
    try:
        yield
    except HtoolsError as error:
        raise HtoolsError(f"{task}: {error}") from error


def untraced(error: Error) -> Error:
    """The error without its traceback and the errors behind it.

    A traceback keeps alive what was worked on. Of an error that a thread hands over it is part of a circle
    (its frames' ``f_back``), which only the garbage collector breaks; with millions of values that takes it a
    second, in which everything stands still.
    """
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
