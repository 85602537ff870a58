"""What a program says on standard error."""

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


def undeterred(say: Callable[..., None]) -> Callable[..., None]:
    """A function that prints like ``say``, but ignores a closed pipe or a full disk: a run has to go on."""

    def tell(*texts: str) -> None:
        with suppress(OSError):
            say(*texts)

    return tell


@contextmanager
def progress(after: float = 1.0) -> Iterator[Callable[[str], None]]:
    """Shows how far long work is, in a line on the terminal, once the work has taken ``after`` seconds.

    Nothing is shown where standard error is no terminal. Each text replaces the one before; an empty text
    removes it.
    """
    start, shown = time.monotonic(), False

    def tell(text: str) -> None:
        nonlocal shown
        if (text or shown) and time.monotonic() - start >= after and sys.stderr and sys.stderr.isatty():
            say(f"\r\x1b[K{text}")
            shown = bool(text)

    try:
        yield tell
    finally:
        tell("")
