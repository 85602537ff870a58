"""The standard streams of a program, and the signals that it was not started to ignore."""

import os
import signal
import sys
from io import TextIOWrapper
from typing import Literal, TextIO


def open_missing() -> None:
    """Open standard streams that were closed on ``/dev/null``, so that no other file gets their numbers.

    Characters that the encoding of standard output lacks are printed as escapes from now on.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or _open(0, "r")
    sys.stdout = sys.stdout or _open(1, "w")
    sys.stderr = sys.stderr or _open(2, "w")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as Python has it for standard error


def not_ignored(*signals: signal.Signals) -> tuple[signal.Signals, ...]:
    """Return the signals that were not ignored at start, as by ``nohup(1)`` or for background jobs."""
    return tuple(number for number in signals if signal.getsignal(number) is not signal.SIG_IGN)


_USUAL = 80  # columns of a terminal that does not know its size
_wide = False


def disable_fitting() -> None:
    """Do not fit reports to the terminal from now on (``--wide``)."""
    global _wide
    _wide = True


def width() -> int | None:
    """Return the width in columns that reports must fit; None if they may be as wide as they are."""
    if _wide:
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _USUAL
    except OSError:  # no terminal
        return None


def _open(descriptor: int, mode: Literal["r", "w"]) -> TextIO:
    return open(descriptor, mode)
