"""Triggers work that is repeated, at the latest after a time or as soon as somebody asks."""

from math import inf

import trio


class Trigger:
    """Tells one task when to work: that calls :meth:`begin`, works and calls :meth:`end`, again and again.

    Others may ask for work earlier, or wait for it.
    """

    def __init__(self) -> None:
        self._due = -inf
        self._begun = self._ended = 0
        self._news = trio.Event()

    def by(self, time: float) -> None:
        """Have work begin at ``time`` (of trio's clock) at the latest; work under way does not count."""
        if time < self._due:
            self._due = time
            self._tell()

    async def begin(self) -> None:
        """Wait until work is due, and count it as begun."""
        while trio.current_time() < self._due:
            with trio.move_on_at(self._due):
                await self._news.wait()
        self._due = inf
        self._begun += 1

    def end(self) -> None:
        """Count the work that was begun as done."""
        self._ended = self._begun
        self._tell()

    def give_up(self) -> None:
        """Let those who wait go on without the work. The next :meth:`begin` returns at once."""
        self._due = -inf
        self._begun += 1
        self.end()

    async def again(self) -> None:
        """Have work begin at once; return when work that begins after this call has ended or was given up."""
        self.by(-inf)
        number = self._begun + 1
        while self._ended < number:
            await self._news.wait()

    def _tell(self) -> None:
        self._news.set()
        self._news = trio.Event()
