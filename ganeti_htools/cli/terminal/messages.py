"""Messages on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ganeti_htools.model.errors import printable, printable_lines


def warn(message: str) -> None:
    """Print a line on standard error. If that is closed or full, the line is dropped."""
    _write(f"{printable(message)}\n")


def say(text: str) -> None:
    """Write lines on standard error. If that is closed or full, they are dropped."""
    _write(printable_lines(text))


def _write(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):
        if text:
            sys.stderr.write(text)
            sys.stderr.flush()


def tolerant(say: Callable[..., None]) -> Callable[..., None]:
    """Return a function like ``say`` that ignores closed pipes and full disks, because runs must continue."""

    def show(*texts: str) -> None:
        with suppress(OSError):
            say(*texts)

    return show


@contextmanager
def progress(after: float = 1.0) -> Iterator[Callable[[str], None]]:
    """Show the progress of long work in a line on the terminal, after some seconds.

    Nothing is shown if standard error is no terminal. Each text replaces the previous text; an empty text
    removes it.
    """
    start, shown = time.monotonic(), False

    def show(text: str) -> None:
        nonlocal shown
        if (text or shown) and time.monotonic() - start >= after and sys.stderr and sys.stderr.isatty():
            _write(f"\r\x1b[K{printable(text)}")
            shown = bool(text)

    try:
        yield show
    finally:
        show("")
