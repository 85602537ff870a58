"""Marks beside the socket: files that the executable and the daemon have for each other.

The size of the counter is the number of decisions that the executable made without the daemon: it appends
one byte for each, and the daemon only looks at the file's size and time. The other files are there while the
ledger has inventories that are in no tag, and while decisions count measured load: a decision without the
daemon does not know them, and says so.
"""

import grp
import os
import stat
from contextlib import suppress

# Repeated in iallocator/, which imports nothing of the daemon.
ALONE, UNTAGGED, LOADED = ".alone", ".untagged", ".loaded"
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def provide_counter(socket: str, group: str) -> None:
    """Create the counter, writable for all who may connect. Failures are ignored."""
    with suppress(OSError, KeyError):
        descriptor = os.open(socket + ALONE, _FLAGS, 0o660)
        try:
            os.fchmod(descriptor, 0o660)
            if group:
                os.fchown(descriptor, -1, grp.getgrnam(group).gr_gid)
        finally:
            os.close(descriptor)


def fallbacks(socket: str) -> dict[str, object]:
    """Return the number of decisions without the daemon since the directory was made, and the last time."""
    with suppress(OSError):
        found = os.lstat(socket + ALONE)
        if stat.S_ISREG(found.st_mode) and found.st_size:
            return {"alone": found.st_size, "last_alone": found.st_mtime}
    return {"alone": 0, "last_alone": None}


def show(socket: str, mark: str, present: bool) -> None:
    """Create or remove one of the other files. Failures are ignored."""
    with suppress(OSError):
        if present:
            os.close(os.open(socket + mark, _FLAGS, 0o664))
        else:
            os.unlink(socket + mark)
