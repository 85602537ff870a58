"""Work beside the event loop, by class.

A look-up is short; if it is about much data it runs in a thread (:func:`run_by_size`). An effect reads or
writes files (:func:`effect`). A computation for a caller may be long (:class:`Computations`). Each class has
threads of its own, and all share one interpreter with the thread that decides.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Protocol, TypeVar

import orjson
import trio

from ganeti_htools import machine
from ganeti_htools.client.protocol import Refusal, RefusalError

ROW_BYTES = 500  # of an object in an answer, about
CALL_SECONDS = 60.0  # seconds for a caller's computation, with the wait for its turn
_EFFECTS = 8  # threads; a disk that hangs keeps some
_THREAD_BYTES = 50_000  # bytes; more are worked on in a thread, so that the event loop stays free
_PART = 500  # objects that are encoded at a time

Result = TypeVar("Result")
# Long work calls this now and then; it is the place where the work pauses or ends.
Pause = Callable[[str], None]


async def run_by_size(size: int, work: Callable[[], Result], abandon: bool = False) -> Result:
    """Return the result of work on so many bytes, computed in a thread if they are many.

    With ``abandon``, a cancelled caller does not wait for the thread.
    """
    return await machine.run_sync(work, abandon_on_cancel=abandon) if size > _THREAD_BYTES else work()


def encoded(objects: Sequence[object]) -> object:
    """Return a long list as JSON, encoded in parts: the encoder lets no other thread work meanwhile."""
    if len(objects) <= _PART:
        return objects
    parts = (orjson.dumps(objects[start : start + _PART]) for start in range(0, len(objects), _PART))
    return orjson.Fragment(b"[%b]" % b",".join(part[1:-1] for part in parts))


def after_thread(thread: trio.CapacityLimiter, then: Callable[[], None]) -> None:
    """Call ``then`` once the thread with a limiter has ended, which nobody else waits for."""

    async def wait() -> None:
        async with thread:
            pass
        then()

    if thread.borrowed_tokens:
        trio.lowlevel.spawn_system_task(wait)
    else:
        then()


_effects = trio.lowlevel.RunVar[trio.CapacityLimiter]("effects")


async def effect(work: Callable[..., Result], *args: Any, abandon: bool = False) -> Result:
    """Return the result of work on files. With ``abandon``, a cancelled caller does not wait for its end."""
    try:
        limiter = _effects.get()
    except LookupError:
        limiter = trio.CapacityLimiter(_EFFECTS)
        _effects.set(limiter)
    return await machine.run_sync(work, *args, abandon_on_cancel=abandon, limiter=limiter)


class Replacements:
    """Changes of one file as a whole, in their order. A cancelled caller does not wait for the end of one."""

    def __init__(self) -> None:
        self._thread = trio.CapacityLimiter(1)

    async def do(self, work: Callable[..., Result], *args: Any) -> Result:
        """Return the result of a change, made in a thread."""
        return await machine.run_sync(work, *args, abandon_on_cancel=True, limiter=self._thread)


class Occupied(Protocol):
    """Work that goes before computations."""

    async def idle(self) -> None:
        """Return when there is none."""


class Computations:
    """Computations in a thread, one at a time. None begins, or goes on after a pause, while somebody decides.

    ``decisions`` are waited for. A computation ends with its caller, after ``longest`` seconds, and
    when the daemon stops.
    """

    def __init__(self, decisions: Occupied | None = None, longest: float = inf) -> None:
        self._decisions, self._longest = decisions, longest
        self._queue, self._thread = trio.Lock(), trio.CapacityLimiter(1)
        self._stopped = False
        self._scopes = set[trio.CancelScope]()

    def stop(self) -> None:
        """End all computations, and refuse later ones."""
        self._stopped = True
        for scope in self._scopes:
            scope.cancel()

    async def run(self, work: Callable[[Pause], Result]) -> Result:
        """Return the result of work in a thread. Raises RefusalError, and what the work raises."""
        with trio.move_on_after(0 if self._stopped else self._longest) as scope:
            self._scopes.add(scope)
            try:
                async with self._queue:
                    await self._idle()
                    return await machine.run_sync(
                        work, self._pause, abandon_on_cancel=True, limiter=self._thread
                    )
            finally:
                self._scopes.remove(scope)
        if self._stopped:
            raise RefusalError(Refusal.STOPPING, "htoolsd is stopping")
        raise RefusalError(Refusal.BUSY, f"not computed within {self._longest:g} s; ask again")

    async def _idle(self) -> None:
        if self._decisions is not None:
            await self._decisions.idle()

    def _pause(self, _news: str) -> None:
        machine.check_cancelled()
        machine.run_in_loop(self._idle)
