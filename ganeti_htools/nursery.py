"""Nurseries that errors leave as themselves, never in a group."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def open_nursery() -> AsyncIterator[trio.Nursery]:
    """Open a nursery of trio. Of several errors, the first one leaves it."""
    try:
        async with trio.open_nursery() as nursery:  # noqa: TID251
            yield nursery
    except BaseExceptionGroup as group:
        error = _first(group)
        context = error.__context__
        try:
            raise error
        finally:
            error.__context__ = context


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a group; a cancellation only if there is nothing else."""
    errors = group.split(trio.Cancelled)[1] or group
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
