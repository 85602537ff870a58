"""Memory that the process keeps."""

import ctypes

_M_ARENA_MAX = -8  # mallopt(3) of glibc
_ARENAS = 2


def share_arenas() -> None:
    """Let all threads take memory from a few arenas, with glibc.

    Otherwise each thread has one of its own, and each grows to the most that any work in a thread ever took.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)
