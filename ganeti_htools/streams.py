"""The standard streams of a program, whatever they are, and the signals of its terminal."""

import os
import signal
import sys
from io import TextIOWrapper
from typing import Literal, TextIO


def complete() -> None:
    """Open those that were closed, to nowhere: no file of ours may take their numbers.

    What the terminal's character set does not have is printed as an escape.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or _open(0, "r")
    sys.stdout = sys.stdout or _open(1, "w")
    sys.stderr = sys.stderr or _open(2, "w")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as Python has it for standard error


def heeded(*signals: signal.Signals) -> tuple[signal.Signals, ...]:
    """Those that the program was not started to ignore, by ``nohup(1)`` or in the background of a script."""
    return tuple(number for number in signals if signal.getsignal(number) is not signal.SIG_IGN)


def width() -> int | None:
    """The width of the terminal (columns) if standard output is one, otherwise None."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except OSError:
        return None


def _open(descriptor: int, mode: Literal["r", "w"]) -> TextIO:
    return open(descriptor, mode)
