"""The waits of a roll of ``hmaintain(1)``: for a program, a person, a time of day."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from types import FrameType

import trio

from ganeti_htools import streams
from ganeti_htools.cli.terminal.messages import say
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.hours import Hours
from ganeti_htools.nursery import open_nursery

_LOOK = 30.0  # seconds between looks at the clock, which may be set meanwhile


def words_of(command: str) -> list[str]:
    """Split a command into words. Raises HtoolsError if it cannot be run."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise HtoolsError(f"--command: {error}") from error
    if not words or shutil.which(words[0]) is None:
        raise HtoolsError(f"--command: {command}: expected a program that can be run")
    return words


def run_program(words: Sequence[str], nodes: Sequence[str], quiet: bool) -> None:
    """Run a program with the names of nodes and wait for its end. Raises HtoolsError if it fails.

    ``quiet`` keeps its output away from standard output.
    """
    command = shlex.join([*words, *nodes])
    say(f"Running {command}\n")
    sys.stdout.flush()
    try:
        ended = subprocess.run([*words, *nodes], stdout=sys.stderr if quiet else None, check=False)
    except OSError as error:
        raise HtoolsError(f"{command}: {error.strerror or error}") from error
    if ended.returncode:
        how = f"ended with status {ended.returncode}" if ended.returncode > 0 else "was killed"
        raise HtoolsError(f"{command}: {how}")


def end_at_signals() -> None:
    """Let SIGTERM and SIGHUP interrupt the program as SIGINT does."""
    if not streams.not_ignored(signal.SIGINT):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # it stays without effect
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt(_number: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)  # trio's, while that runs
        if callable(handler):
            handler(signal.SIGINT, frame)

    for number in streams.not_ignored(signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)


def ignore_early_signal() -> None:
    """Let SIGUSR1 pass until somebody waits for it."""
    signal.signal(signal.SIGUSR1, lambda *_: None)


def pause(nodes: Sequence[str]) -> None:
    """Wait for Enter on the terminal, or for SIGUSR1."""
    trio.run(_pause, nodes)


async def _pause(nodes: Sequence[str]) -> None:
    key = "press Enter, or " if sys.stdin is not None and sys.stdin.isatty() else ""
    with trio.open_signal_receiver(signal.SIGUSR1) as signals:
        say(f"{', '.join(nodes)}: empty; to go on, {key}kill -USR1 {os.getpid()}\n")
        async with open_nursery() as nursery:
            if key:
                nursery.start_soon(_await_enter, nursery.cancel_scope)
            async for _ in signals:
                nursery.cancel_scope.cancel()
                break


async def _await_enter(scope: trio.CancelScope) -> None:
    await trio.lowlevel.wait_readable(sys.stdin)
    sys.stdin.readline()  # a terminal gives whole lines
    scope.cancel()


def await_hours(hours: Hours | None) -> bool:
    """Wait until the hours begin. Returns whether that took time."""
    waited = False
    while hours is not None and (left := _minutes_left(hours)):
        if not waited:
            say(f"Waiting {left // 60} h {left % 60} min for the next batch (--hours)\n")
        waited = True
        time.sleep(_LOOK)
    return waited


def _minutes_left(hours: Hours) -> int:
    now = datetime.now()
    return hours.minutes_until(60 * now.hour + now.minute)
