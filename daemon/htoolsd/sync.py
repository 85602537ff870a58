"""Ganeti's luxid: whether it can be reached."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

import structlog
import trio

_log = structlog.get_logger()

DEADLINE = 5.0  # seconds to connect
RECHECK = 10.0  # seconds until the next look at a luxid that was there
FIRST_RETRY, LAST_RETRY = 1.0, 60.0  # seconds; doubling while it is not


@dataclass(slots=True)
class Luxi:
    """What is known of luxid. ``since`` is seconds of the epoch."""

    path: str
    state: Literal["not tried yet", "reachable", "unreachable"] = "not tried yet"
    since: float = field(default_factory=time.time)
    error: str | None = None

    def found(self, error: str | None) -> None:
        """Note what a look showed: a reason why it cannot be reached, or None."""
        state: Literal["reachable", "unreachable"] = "reachable" if error is None else "unreachable"
        if (state, error) == (self.state, self.error):
            return
        if state != self.state:
            self.state, self.since = state, time.time()
        self.error = error
        _log.info("luxi", state=state, error=error, path=self.path)


async def connect(path: str) -> None:
    """Connect to the socket and hang up. Raises OSError."""
    async with await trio.open_unix_socket(path) as stream:
        stream.socket.getpeername()  # a listener that accepts nobody lets connect() pass


async def watch(luxi: Luxi, connect: Callable[[str], Awaitable[None]] = connect) -> None:
    """Keep ``luxi`` true, for ever."""
    retry = FIRST_RETRY
    while True:
        luxi.found(await _look(luxi.path, connect))
        if luxi.error is None:
            retry = FIRST_RETRY
            await trio.sleep(RECHECK)
        else:
            await trio.sleep(retry)
            retry = min(2 * retry, LAST_RETRY)


async def _look(path: str, connect: Callable[[str], Awaitable[None]]) -> str | None:
    try:
        with trio.fail_after(DEADLINE):
            await connect(path)
    except OSError as err:
        return err.strerror or str(err)
    except trio.TooSlowError:
        return f"no connection within {DEADLINE:g} s"
    return None
