"""Requests to luxid that are repeated, mostly with the same answer."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import trio

from ganeti_htools.luxi.client import Client

ROW = 500  # bytes of an object in an answer, about
_LONG = 50_000  # bytes; more are worked on in a thread, so that the event loop stays free

Result = TypeVar("Result")


async def aside(size: int, work: Callable[[], Result], abandon: bool = False) -> Result:
    """The result of ``work`` on so many bytes: computed in a thread if they are many.

    With ``abandon``, a cancelled caller does not wait for the thread.
    """
    return await trio.to_thread.run_sync(work, abandon_on_cancel=abandon) if size > _LONG else work()


class Request:
    """One request, and what ``read`` made of its last answer; the same bytes give the same object.

    Not to be made by two tasks at once.
    """

    def __init__(self, method: str, args: Sequence[object], read: Callable[[bytes], object]) -> None:
        self._method = method
        self._args = args
        self._read = read
        self._message = b""
        self._answer: object = None

    async def ask(self, client: Client, patience: float) -> Any:
        """Ask, and return what ``read`` makes of the answer. Raises LuxiError."""
        return await client.call(self._method, self._args, patience, self._reread)

    async def _reread(self, message: bytes) -> object:
        if message != self._message:
            self._answer = await aside(len(message), lambda: self._read(message))
            self._message = message
        return self._answer
