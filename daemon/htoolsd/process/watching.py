"""Signs of life: to the service manager, and to clients that look for the socket."""

from math import inf

import trio

from htoolsd.api.decisions import Decisions
from htoolsd.process.notify import notify, watchdog
from htoolsd.socket.door import Door

SHOW_SECONDS = 5  # a third of what the executable takes for a moment (LATELY)


async def show(door: Door) -> None:
    """Let the socket's file tell that the daemon lives, until cancelled."""
    while True:
        door.show()
        await trio.sleep(SHOW_SECONDS)


async def watch(decisions: Decisions) -> None:
    """Give up decisions that take too long, and let the service manager know as long as all is well.

    It is not told when the event loop is stuck, or when decisions are: then it starts the daemon anew.
    """
    patience = watchdog()
    pause = min(patience / 3, 1.0)
    while True:
        decisions.give_up_late()
        if decisions.healthy and patience < inf:
            notify("WATCHDOG=1")
        await trio.sleep(pause)
