"""Memory that the process keeps."""

import ctypes
import gc

import trio

_FIRST, _LAST = 10.0, 3600.0  # seconds between two whole collections; doubling
_M_ARENA_MAX = -8  # mallopt(3) of glibc
_ARENAS = 2


def share_arenas() -> None:
    """Let all threads take memory from a few arenas, with glibc.

    Otherwise each thread has one of its own, and each grows to the most that any work in a thread ever took.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)


async def set_aside() -> None:
    """Have collections skip what lives long, such as the model, until cancelled.

    A full collection stops all threads: for 0.2 s with 10,000 instances, every few seconds.
    """
    pause = _FIRST
    while True:
        await trio.sleep(pause)
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        pause = min(2 * pause, _LAST)
