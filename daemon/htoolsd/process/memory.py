"""Memory that the process keeps."""

import ctypes
import gc
import sys

import trio

from htoolsd.threads import Occupied

_NEVER = 1 << 30  # collections of young objects before a full one
_PAUSE = 60.0  # seconds between two looks at the memory
_GROWTH = 1.25  # of the memory, after which there is a full collection
_M_ARENA_MAX = -8  # mallopt(3) of glibc
_ARENAS = 2


def share_arenas() -> None:
    """Let all threads take memory from a few arenas, with glibc.

    Otherwise each thread has one of its own, and each grows to the most that any work in a thread ever took.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)


def switch_full_collections_off() -> None:
    """Have the interpreter collect young objects only, and never look at what was imported.

    A full collection stops all threads, for 0.2 s with 10,000 instances, and finds next to nothing: the data
    of a cluster has no cycles.
    """
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], _NEVER)


async def collect_garbage(decisions: Occupied) -> None:
    """Collect all garbage when the memory has grown, once nobody decides, until cancelled."""
    await trio.sleep(_PAUSE)  # until the cluster is in memory
    most = _GROWTH * sys.getallocatedblocks()
    while True:
        await trio.sleep(_PAUSE)
        await decisions.idle()
        if sys.getallocatedblocks() > most:
            gc.collect()
            most = _GROWTH * sys.getallocatedblocks()
