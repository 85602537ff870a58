"""Turns of plans that are made: one at a time. Callers who may act go before others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio

from ganeti_htools import machine
from ganeti_htools.client.protocol import Refusal, RefusalError
from htoolsd.plans.plan import Caller
from htoolsd.threads import after_thread


@dataclass(slots=True, eq=False)
class PlanAttempt:
    """One plan that takes a turn: the limiter of its thread, and its scope.

    ``since`` is seconds of the epoch.
    """

    tool: str
    by: Caller
    may_act: bool
    since: float = field(default_factory=machine.now)
    begun: trio.Event = field(default_factory=trio.Event)
    thread: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(1))
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        return {"tool": self.tool, "by": dict(self.by), "since": self.since}


class PlanTurn:
    """The turn to make a plan. It ends with its thread, even when nobody waits for the plan."""

    def __init__(self) -> None:
        self._queue: list[PlanAttempt] = []  # the first one is being made
        self._stopped = False

    def stop(self) -> None:
        """Cancel all attempts, also later ones."""
        self._stopped = True
        for attempt in self._queue:
            attempt.scope.cancel()

    def status(self) -> list[dict[str, Any]]:
        """Return the plan that is being made, and those that wait, in their order."""
        told = [each.to_json() for each in self._queue]
        return [{**each, "behind": ahead} for each, ahead in zip(told, [None, *told], strict=False)]

    @asynccontextmanager
    async def taken(self, tool: str, by: Caller, may_act: bool) -> AsyncIterator[trio.CapacityLimiter]:
        """Have the turn within a block, whose threads have the limiter.

        Raises RefusalError when plans stop, which cancels the block.
        """
        attempt = PlanAttempt(tool, by, may_act)
        if self._stopped:
            attempt.scope.cancel()
        ahead = [each for each in self._queue[1:] if each.may_act or not may_act]
        self._queue.insert(len(self._queue[:1]) + len(ahead), attempt)
        try:
            with attempt.scope:
                if self._queue[0] is not attempt:
                    await attempt.begun.wait()
                yield attempt.thread
        finally:
            after_thread(attempt.thread, partial(self._end, attempt))
        if attempt.scope.cancelled_caught:
            raise RefusalError(Refusal.STOPPING, "htoolsd is stopping")

    def _end(self, attempt: PlanAttempt) -> None:
        """End the turn or the wait of an attempt."""
        self._queue.remove(attempt)
        if self._queue:
            self._queue[0].begun.set()
