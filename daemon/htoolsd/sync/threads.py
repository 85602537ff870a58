"""Long work beside the event loop."""

from collections.abc import Callable
from typing import TypeVar

import trio

ROW_BYTES = 500  # of an object in an answer, about
_LONG = 50_000  # bytes; more are worked on in a thread, so that the event loop stays free

Result = TypeVar("Result")


async def run_by_size(size: int, work: Callable[[], Result], abandon: bool = False) -> Result:
    """Return the result of work on so many bytes, computed in a thread if they are many.

    With ``abandon``, a cancelled caller does not wait for the thread.
    """
    return await trio.to_thread.run_sync(work, abandon_on_cancel=abandon) if size > _LONG else work()
