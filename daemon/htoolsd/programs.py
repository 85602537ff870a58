"""Programs of the administrator: run without a shell, within limits of time and of output."""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from subprocess import DEVNULL, PIPE
from typing import Any, NamedTuple

import trio

from ganeti_htools import machine
from ganeti_htools.model.errors import DataError, on_one_line
from ganeti_htools.nursery import open_nursery


class ProgramOutput(NamedTuple):
    """The output of a program that has ended, and its exit status (negative: the signal that ended it)."""

    stdout: bytes
    stderr: bytes
    status: int


class LateError(DataError):
    """A program did not end in time."""


async def run_program(
    command: Sequence[str], patience: float, largest: int, expected: str, **options: Any
) -> ProgramOutput:
    """Run a program to its end; ``options`` as for ``trio.run_process``.

    After ``patience`` seconds, or more than ``largest`` bytes of one output, it is killed with its process
    group. ``expected`` describes its output. Raises DataError, LateError.
    """
    printed, complaint = bytearray(), bytearray()
    process: trio.Process | None = None
    with trio.move_on_after(patience) as waiting:
        try:
            async with open_nursery() as nursery:
                run = partial(
                    machine.run_process,
                    command,
                    **({"stdin": DEVNULL} | options),
                    stdout=PIPE,
                    stderr=PIPE,
                    check=False,
                    start_new_session=True,
                    deliver_cancel=_kill,
                )
                process = await nursery.start(run)
                assert process is not None
                for stream, output in ((process.stdout, printed), (process.stderr, complaint)):
                    assert stream is not None
                    nursery.start_soon(_collect, stream, output, largest, nursery.cancel_scope)
        except OSError as error:
            raise DataError(f"{command[0]}: {error.strerror}") from None
    if waiting.cancelled_caught:
        if process is not None:  # it may have ended, with children that keep its output open
            await _kill(process)
        raise LateError(f"{command[0]}: no end within {patience:g} s")
    assert process is not None
    if max(len(printed), len(complaint)) > largest:
        raise DataError(f"{command[0]}: expected {expected}, got more than {largest} bytes")
    assert process.returncode is not None
    return ProgramOutput(bytes(printed), bytes(complaint), process.returncode)


async def output_of(command: Sequence[str], patience: float, largest: int, expected: str) -> bytes:
    """Return what a program prints on standard output, as :func:`run_program`. Raises DataError."""
    printed, complaint, status = await run_program(command, patience, largest, expected)
    if status:
        why = complaint.decode(errors="replace").strip().partition("\n")[0]
        raise DataError(on_one_line(f"{command[0]}: exit status {status}{': ' * bool(why)}{why}"))
    return printed


async def _kill(process: trio.Process) -> None:
    """Kill a process with its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _collect(
    stream: trio.abc.ReceiveStream, output: bytearray, largest: int, enough: trio.CancelScope
) -> None:
    """Collect what a program prints; end it when that is too long."""
    async for part in stream:
        output += part
        if len(output) > largest:
            enough.cancel()
