"""Programs of the administrator: run without a shell, within limits of time and of output."""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from subprocess import DEVNULL, PIPE
from typing import Any, NamedTuple

import trio

from ganeti_htools import machine
from ganeti_htools.model.errors import DataError, on_one_line
from ganeti_htools.nursery import open_nursery

_DYING = 5.0  # seconds for a killed program to end


class ProgramOutput(NamedTuple):
    """The output of a program that has ended, and its exit status (negative: the signal that ended it)."""

    stdout: bytes
    stderr: bytes
    status: int


class KilledError(DataError):
    """A program was killed because it did not end in time (``late``) or printed too much.

    ``stderr`` is what it had printed there.
    """

    def __init__(self, text: str, late: bool, stderr: bytes) -> None:
        super().__init__(text)
        self.late = late
        self.stderr = stderr


async def run_program(
    command: Sequence[str],
    patience: float,
    largest: int,
    expected: str,
    *,
    stdin: bytes = b"",
    grace: float = inf,
    **options: Any,
) -> ProgramOutput:
    """Run a program to its end; ``options`` as for ``trio.lowlevel.open_process``.

    After ``patience`` seconds, or more than ``largest`` bytes of one output, it is killed with its process
    group. ``expected`` describes its output. Children may keep its output open for ``grace`` seconds after
    its end; then they go on. Raises DataError, KilledError.
    """
    pipes = {"stdin": PIPE if stdin else DEVNULL, "stdout": PIPE, "stderr": PIPE}
    printed, complaint, ended = bytearray(), bytearray(), False
    process: trio.Process | None = None
    try:
        with trio.move_on_after(patience) as waiting:
            process = await machine.open_process(command, start_new_session=True, **(pipes | options))
            async with open_nursery() as nursery:
                if process.stdin is not None:
                    nursery.start_soon(_feed, process.stdin, stdin)
                for stream, output in ((process.stdout, printed), (process.stderr, complaint)):
                    if stream is not None:
                        nursery.start_soon(_collect, stream, output, largest, waiting)
                await process.wait()
                nursery.cancel_scope.deadline = trio.current_time() + grace
            ended = True
    except OSError as error:
        raise DataError(f"{command[0]}: {error.strerror}") from None
    finally:
        if process is not None:
            await _end(process, kill=not ended)
    if max(len(printed), len(complaint)) > largest:
        raise KilledError(
            f"{command[0]}: expected {expected}, got more than {largest} bytes", False, bytes(complaint)
        )
    if not ended or process is None:
        raise KilledError(f"{command[0]}: no end within {patience:g} s", True, bytes(complaint))
    assert process.returncode is not None
    return ProgramOutput(bytes(printed), bytes(complaint), process.returncode)


async def output_of(command: Sequence[str], patience: float, largest: int, expected: str) -> bytes:
    """Return what a program prints on standard output, as :func:`run_program`. Raises DataError."""
    printed, complaint, status = await run_program(command, patience, largest, expected)
    if status:
        why = first_line(complaint)
        raise DataError(f"{on_one_line(command[0])}: exit status {status}{': ' * bool(why)}{why}")
    return printed


def first_line(output: bytes) -> str:
    """Return the first line that a program has printed."""
    return on_one_line(output.decode(errors="replace").strip().partition("\n")[0])


async def _feed(stream: trio.abc.SendStream, message: bytes) -> None:
    with suppress(trio.BrokenResourceError):  # a program need not read it
        async with stream:
            await stream.send_all(message)


async def _collect(
    stream: trio.abc.ReceiveStream, output: bytearray, largest: int, enough: trio.CancelScope
) -> None:
    """Collect what a program prints; end it when that is too long."""
    async for part in stream:
        output += part
        if len(output) > largest:
            enough.cancel()


async def _end(process: trio.Process, kill: bool) -> None:
    """Kill a program with its process group, if it must be, and close the pipes."""
    with trio.CancelScope(shield=True):
        if kill:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with trio.move_on_after(_DYING):
                await process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                await stream.aclose()
