"""Turns of plans that are made: one at a time. Callers who may act go before others."""

import time
from dataclasses import dataclass, field
from typing import Any

import trio

from htoolsd.plans.plan import Caller


class PlanTurn:
    """The turn to make a plan."""

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

    async def wait(self, attempt: "PlanAttempt") -> None:
        """Return when it is the attempt's turn."""
        if self._stopped:
            attempt.scope.cancel()
        ahead = [each for each in self._queue[1:] if each.may_act or not attempt.may_act]
        self._queue.insert(len(self._queue[:1]) + len(ahead), attempt)
        try:
            if self._queue[0] is not attempt:
                await attempt.begun.wait()
        except BaseException:
            self.end(attempt)
            raise

    def end(self, attempt: "PlanAttempt") -> None:
        """End the turn or the wait of an attempt."""
        self._queue.remove(attempt)
        if self._queue:
            self._queue[0].begun.set()


@dataclass(slots=True, eq=False)
class PlanAttempt:
    """One plan that takes a turn: the limiter of its thread, and the scope of the wait for it.

    ``since`` is seconds of the epoch.
    """

    turn: PlanTurn
    tool: str
    by: Caller
    may_act: bool
    since: float = field(default_factory=time.time)
    begun: trio.Event = field(default_factory=trio.Event)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        return {"tool": self.tool, "by": dict(self.by), "since": self.since}

    async def acquire_on_behalf_of(self, _borrower: object) -> None:
        await self.turn.wait(self)

    def release_on_behalf_of(self, _borrower: object) -> None:
        self.turn.end(self)
