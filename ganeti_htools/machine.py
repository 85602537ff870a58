"""The machine below the daemon: its clock, source of chance, threads and processes.

All code that the daemon runs uses these, and ``trio.current_time`` as the clock of the event loop. So
tests/world can put a machine of its own there.
"""

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

if TYPE_CHECKING:  # many programs that use files do without
    import trio

Result = TypeVar("Result")


def now() -> float:
    """Return the time in seconds of the epoch; it may jump."""
    return time.time()


def now_ns() -> int:
    """Return the time in nanoseconds of the epoch; it may jump."""
    return time.time_ns()


def local_time(form: str) -> str:
    """Return the time in the form of ``strftime``."""
    return time.strftime(form, time.localtime(now()))


def steady() -> float:
    """Return seconds since some moment, also in threads; they never jump."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    """Sleep in a thread."""
    time.sleep(seconds)


def random_bytes(count: int) -> bytes:
    """Return so many random bytes."""
    return os.urandom(count)


def new_uuid() -> str:
    """Return a random UUID."""
    return str(UUID(bytes=random_bytes(16), version=4))


async def run_sync(
    work: Callable[..., Result],
    *args: Any,
    abandon_on_cancel: bool = False,
    limiter: "trio.CapacityLimiter | None" = None,
) -> Result:
    """Return the result of work in a thread, as ``trio.to_thread.run_sync`` does."""
    import trio

    return await trio.to_thread.run_sync(work, *args, abandon_on_cancel=abandon_on_cancel, limiter=limiter)


def check_cancelled() -> None:
    """Raise trio.Cancelled in a thread whose caller is cancelled."""
    import trio

    trio.from_thread.check_cancelled()


def run_in_loop(work: Callable[[], Awaitable[Result]]) -> Result:
    """Return the result of work on the event loop, for a thread that waits meanwhile."""
    import trio

    return trio.from_thread.run(work)


def start_thread(work: Callable[[], None]) -> None:
    """Start a thread that nobody waits for."""
    import trio

    trio.lowlevel.start_thread_soon(work, lambda _: None)


async def run_process(command: Sequence[str], **options: Any) -> CompletedProcess[bytes]:
    """Run a program to its end, as ``trio.run_process`` does."""
    import trio

    return await trio.run_process(command, **options)


async def open_process(command: Sequence[str], **options: Any) -> "trio.Process":
    """Start a program, as ``trio.lowlevel.open_process`` does."""
    import trio

    process: trio.Process = await trio.lowlevel.open_process(command, **options)
    return process
