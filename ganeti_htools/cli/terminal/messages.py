"""Messages on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


def warn(message: str) -> None:
    """Print a line on standard error."""
    print(message, file=sys.stderr)


def say(text: str) -> None:
    """Write text on standard error as it is. If that is closed or full, the text is dropped."""
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
            say(f"\r\x1b[K{text}")
            shown = bool(text)

    try:
        yield show
    finally:
        show("")
