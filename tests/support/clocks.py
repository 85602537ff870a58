"""A clock that jumps."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any
from unittest.mock import patch

import trio
from trio.testing import MockClock

_THRESHOLD: Any = MockClock.autojump_threshold  # the property


@contextmanager
def jumping() -> Iterator[MockClock]:
    """Time passes as soon as nothing else happens. What threads do takes none, however long it takes them.

    A threshold that a test sets holds from when no thread works.
    """
    clock, run_sync = MockClock(autojump_threshold=0), trio.to_thread.run_sync
    at_work, threshold = 0, 0.0

    def set_threshold(_clock: MockClock, seconds: float) -> None:
        nonlocal threshold
        threshold = seconds
        _THRESHOLD.fset(clock, inf if at_work else threshold)

    async def run_in_no_time(*args: Any, **options: Any) -> Any:
        nonlocal at_work
        at_work += 1
        set_threshold(clock, threshold)
        try:
            return await run_sync(*args, **options)
        finally:
            at_work -= 1
            set_threshold(clock, threshold)

    with (
        patch("trio.to_thread.run_sync", run_in_no_time),
        patch.object(MockClock, "autojump_threshold", property(_THRESHOLD.fget, set_threshold)),
    ):
        yield clock
