"""One call of a notification: the program that is run, or the address that is posted to."""

from importlib import import_module
from subprocess import DEVNULL
from typing import NamedTuple

from ganeti_htools.model.errors import DataError
from ganeti_htools.programs import KilledError, first_line, run_program
from htoolsd.config.notify import NotifySettings
from htoolsd.threads import effect

_PRINTED_BYTES = 1 << 20  # bytes that a program may print there, since reading them takes time
_GRACE = 0.5  # seconds for the rest of its output, when its children still have it open


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
    """Run a program. What it prints on standard output is nobody's concern."""
    try:
        done = await run_program(
            [program],
            patience,
            _PRINTED_BYTES,
            "a line",
            stdin=message,
            grace=_GRACE,
            stdout=DEVNULL,
            cwd="/",
        )
    except KilledError as error:
        much = f"{program}: more than {_PRINTED_BYTES >> 20} MiB on standard error"
        return Delivery(None, first_line(error.stderr), f"{error if error.late else much}; it was killed")
    except DataError as error:
        return Delivery(error=str(error))
    line = first_line(done.stderr)
    why = f"{program}: exit status {done.status}{': ' * bool(line)}{line}"
    return Delivery(done.status, line, why if done.status else None)
