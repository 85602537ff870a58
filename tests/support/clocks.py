"""A clock that jumps."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any
from unittest.mock import patch

import trio
from trio.testing import MockClock


@contextmanager
def jumping() -> Iterator[MockClock]:
    """Time passes as soon as nothing else happens. What threads do takes none, however long it takes them."""
    clock, run_sync = MockClock(autojump_threshold=0), trio.to_thread.run_sync
    at_work, threshold = 0, 0.0

    async def run_in_no_time(*args: Any, **options: Any) -> Any:
        nonlocal at_work, threshold
        if not at_work:
            threshold, clock.autojump_threshold = clock.autojump_threshold, inf
        at_work += 1
        try:
            return await run_sync(*args, **options)
        finally:
            at_work -= 1
            if not at_work and clock.autojump_threshold == inf:  # otherwise the test has set it meanwhile
                clock.autojump_threshold = threshold

    with patch("trio.to_thread.run_sync", run_in_no_time):
        yield clock
