"""Requests to luxid that are made again and again, mostly with the same answer."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import trio

from ganeti_htools.luxi.client import Client
from ganeti_htools.luxi.framing import decode

_LONG = 50_000  # bytes that are not worked on while others wait for the event loop

Result = TypeVar("Result")


async def aside(size: int, work: Callable[[], Result]) -> Result:
    """The result of ``work``, which has to do with so many bytes: in a thread if they are many."""
    return await trio.to_thread.run_sync(work) if size > _LONG else work()


class Request:
    """One request, and what ``make`` made of its last answer: the same for an answer of the same bytes.

    Not to be made by two tasks at once.
    """

    def __init__(self, method: str, args: Sequence[object], make: Callable[[Any], object]) -> None:
        self._method = method
        self._args = args
        self._make = make
        self._message = b""
        self._answer: object = None

    async def ask(self, client: Client, patience: float) -> Any:
        """What its answer makes. Raises LuxiError."""
        return await client.call(self._method, self._args, patience, self._read)

    async def _read(self, message: bytes) -> object:
        if message != self._message:
            self._answer = await aside(len(message), lambda: self._understood(message))
            self._message = message
        return self._answer

    def _understood(self, message: bytes) -> object:
        answer = decode(message)
        match answer:
            case {"success": True, "result": result}:
                return {"success": True, "result": self._make(result)}
        return answer
