"""Probes of pools: commands of the administrator that print the free and the total space of a pool."""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from subprocess import DEVNULL, PIPE

import trio

from ganeti_htools.backends import values
from ganeti_htools.model.errors import DataError, on_one_line
from ganeti_htools.model.known_storage import UnitSpace
from ganeti_htools.nursery import open_nursery

_PATIENCE = 30.0  # seconds of a command
_LONGEST = 4096  # bytes of each of its outputs


async def probe(command: Sequence[str], patience: float = _PATIENCE) -> UnitSpace:
    """Run a command and return the space that it prints: free and total, MiB or with units.

    At the deadline, or when it prints too much, it is killed with its process group. Raises DataError.
    """
    printed, complaint = bytearray(), bytearray()
    process: trio.Process | None = None
    with trio.move_on_after(patience) as waiting:
        try:
            async with open_nursery() as nursery:
                run = partial(
                    trio.run_process,
                    command,
                    stdin=DEVNULL,
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
                    nursery.start_soon(_collect, stream, output, nursery.cancel_scope)
        except OSError as error:
            raise DataError(f"{command[0]}: {error.strerror}") from None
    if waiting.cancelled_caught:
        if process is not None:  # it may have ended, with children that keep its output open
            await _kill(process)
        raise DataError(f"{command[0]}: no end within {patience:g} s")
    assert process is not None
    if max(len(printed), len(complaint)) > _LONGEST:
        raise DataError(f"{command[0]}: expected free and total space, got more than {_LONGEST} bytes")
    if process.returncode:
        why = complaint.decode(errors="replace").strip().partition("\n")[0]
        raise DataError(on_one_line(f"{command[0]}: exit status {process.returncode}{': ' * bool(why)}{why}"))
    return _read(command[0], printed)


async def _kill(process: trio.Process) -> None:
    """Kill a process with its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _collect(stream: trio.abc.ReceiveStream, output: bytearray, enough: trio.CancelScope) -> None:
    """Collect what a command prints; end it when that is too long."""
    async for part in stream:
        output += part
        if len(output) > _LONGEST:
            enough.cancel()


def _read(name: str, output: bytearray) -> UnitSpace:
    """Read what a command has printed. Raises DataError."""
    text = output.decode(errors="replace")
    words = text.split()
    if len(words) != 2:
        raise DataError(f"{name}: expected free and total space, got {values.quote(text.strip())}")
    free, total = (values.read(values.size, word, name) for word in words)
    if not 0 <= free <= total:
        raise DataError(f"{name}: expected free space from 0 to the total, got {free} of {total} MiB")
    return UnitSpace(total, free)
