"""The standard streams of a program, whatever they are, and the signal that its terminal is gone."""

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


def hangup() -> tuple[signal.Signals, ...]:
    """SIGHUP, unless the program was started to outlast its terminal (``nohup(1)``)."""
    return () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)


def _open(descriptor: int, mode: Literal["r", "w"]) -> TextIO:
    return open(descriptor, mode)
