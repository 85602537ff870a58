"""Requests to luxid that are made again and again, mostly with the same answer."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import trio

from ganeti_htools.luxi.client import Client

ROW = 500  # bytes of an object in an answer, about
_LONG = 50_000  # bytes that are not worked on while others wait for the event loop

Result = TypeVar("Result")


async def aside(size: int, work: Callable[[], Result]) -> Result:
    """The result of ``work``, which has to do with so many bytes: in a thread if they are many."""
    return await trio.to_thread.run_sync(work) if size > _LONG else work()


class Request:
    """One request, and what ``read`` made of its last answer: the same object for the same bytes.

    Not to be made by two tasks at once.
    """

    def __init__(self, method: str, args: Sequence[object], read: Callable[[bytes], object]) -> None:
        self._method = method
        self._args = args
        self._read = read
        self._message = b""
        self._answer: object = None

    async def ask(self, client: Client, patience: float) -> Any:
        """What was made of its answer. Raises LuxiError."""
        return await client.call(self._method, self._args, patience, self._reread)

    async def _reread(self, message: bytes) -> object:
        if message != self._message:
            self._answer = await aside(len(message), lambda: self._read(message))
            self._message = message
        return self._answer
