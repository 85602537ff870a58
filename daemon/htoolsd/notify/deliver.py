"""One call of a notification: the program that is run, or the address that is posted to."""

import os
import signal
from contextlib import suppress
from importlib import import_module
from subprocess import DEVNULL, PIPE
from typing import NamedTuple

import trio

from ganeti_htools import machine
from ganeti_htools.model.errors import on_one_line
from ganeti_htools.nursery import open_nursery
from htoolsd.config.notify import NotifySettings
from htoolsd.threads import effect

_STDERR_BYTES = 4096  # bytes of what a program prints on standard error
_PRINTED_BYTES = 1 << 20  # bytes that it may print, since reading them takes time of the event loop
_GRACE = 0.5  # seconds for the rest of it, when children of the program still have it open
_DYING = 5.0  # seconds for a killed program to end


class Delivery(NamedTuple):
    """The outcome of a call: exit status or HTTP status, and the first line of the program's standard error.

    ``error`` is None if the events were delivered.
    """

    status: int | None = None
    line: str = ""
    error: str | None = None


async def deliver(settings: NotifySettings, message: bytes) -> Delivery:
    """Hand a message, JSON, to the program or the address of the settings. Raises nothing."""
    if settings.program:
        return await _run(settings.program, message, settings.timeout_seconds)
    # httpx takes long to import, and TLS to read its certificates.
    webhook = await effect(import_module, "htoolsd.notify.webhook")
    found: Delivery = await webhook.post(settings.url, message, settings.timeout_seconds)
    return found


async def _run(program: str, message: bytes, patience: float) -> Delivery:
    """Run a program without a shell.

    At the deadline, or when it prints too much, it is killed with its process group.
    """
    printed = bytearray()
    try:
        process = await machine.open_process(
            [program], stdin=PIPE, stdout=DEVNULL, stderr=PIPE, start_new_session=True, cwd="/"
        )
    except OSError as error:
        return Delivery(error=f"{program}: {error.strerror}")
    assert process.stdin is not None
    assert process.stderr is not None
    try:
        with trio.move_on_after(patience) as deadline:
            async with open_nursery() as nursery:
                nursery.start_soon(_feed, process.stdin, message)
                nursery.start_soon(_collect, process.stderr, printed, nursery.cancel_scope)
                await process.wait()
                nursery.cancel_scope.deadline = trio.current_time() + _GRACE
    finally:
        ended = process.returncode is not None
        await _end(process)
    line = on_one_line(printed.decode(errors="replace").strip().partition("\n")[0])
    if not ended:
        late, much = (
            f"no end within {patience:g} s",
            f"more than {_PRINTED_BYTES >> 20} MiB on standard error",
        )
        why = f"{program}: {late if deadline.cancelled_caught else much}; it was killed"
        return Delivery(None, line, why)
    if process.returncode:
        why = f"{program}: exit status {process.returncode}{': ' * bool(line)}{line}"
        return Delivery(process.returncode, line, why)
    return Delivery(process.returncode, line)


async def _feed(stream: trio.abc.SendStream, message: bytes) -> None:
    with suppress(trio.BrokenResourceError):  # a program need not read it
        async with stream:
            await stream.send_all(message)


async def _collect(stream: trio.abc.ReceiveStream, printed: bytearray, scope: trio.CancelScope) -> None:
    """Read what a program prints, and keep the beginning. Cancel the scope if it is too much."""
    size = 0
    async for part in stream:
        printed += part[: _STDERR_BYTES - len(printed)]
        size += len(part)
        if size > _PRINTED_BYTES:
            scope.cancel()


async def _end(process: trio.Process) -> None:
    """Kill a program that still runs, with its process group, and close the pipes."""
    with trio.move_on_after(_DYING, shield=True):
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        for stream in (process.stdin, process.stderr):
            if stream is not None:
                await stream.aclose()
