"""Triggers work that is repeated, at the latest after a time or as soon as somebody asks."""

from math import inf

import trio


class Beat:
    """One task does it: :meth:`begin`, the work, :meth:`end`. Anybody may want it earlier, or wait for it."""

    def __init__(self) -> None:
        self._due = -inf
        self._begun = self._ended = 0
        self._news = trio.Event()

    def by(self, time: float) -> None:
        """Let it be done at ``time`` at the latest (of trio's clock); without regard to one under way."""
        if time < self._due:
            self._due = time
            self._tell()

    async def begin(self) -> None:
        """Wait until it is to be done."""
        while trio.current_time() < self._due:
            with trio.move_on_at(self._due):
                await self._news.wait()
        self._due = inf
        self._begun += 1

    def end(self) -> None:
        """It was done."""
        self._ended = self._begun
        self._tell()

    def give_up(self) -> None:
        """It is not going to be done for those who wait; if it is done again, then at once."""
        self._due = -inf
        self._begun += 1
        self.end()

    async def again(self) -> None:
        """Have it done at once, and wait until one that begins from now on has ended, or was given up."""
        self.by(-inf)
        number = self._begun + 1
        while self._ended < number:
            await self._news.wait()

    def _tell(self) -> None:
        self._news.set()
        self._news = trio.Event()
