"""A trigger for repeated work, which begins at the latest after a time, or as soon as another task asks for
it.
"""

from math import inf

import trio


class Trigger:
    """Starts the work of one task, which calls :meth:`begin`, works, and calls :meth:`end`, again and again.

    Other tasks may ask for work earlier, or wait for it.
    """

    def __init__(self) -> None:
        self._due = -inf
        self._begun = self._ended = 0
        self._changed = trio.Event()

    def by(self, time: float) -> None:
        """Have work begin at ``time`` (of trio's clock) at the latest.

        Work that runs already does not count.
        """
        if time < self._due:
            self._due = time
            self._wake()

    async def begin(self) -> None:
        """Wait until work is due, and count it as begun."""
        while trio.current_time() < self._due:
            with trio.move_on_at(self._due):
                await self._changed.wait()
        self._due = inf
        self._begun += 1

    def end(self) -> None:
        """Count the work that was begun as done."""
        self._ended = self._begun
        self._wake()

    def give_up(self) -> None:
        """Release the waiting tasks without work. The next :meth:`begin` returns at once."""
        self._due = -inf
        self._begun += 1
        self.end()

    async def rerun(self) -> None:
        """Have work begin at once; return when work that begins after this call has ended or was given up."""
        self.by(-inf)
        number = self._begun + 1
        while self._ended < number:
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
