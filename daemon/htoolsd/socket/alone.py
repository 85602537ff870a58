"""Decisions made without the daemon. The executable leaves a byte for each in a file beside the socket.

That costs nothing while there is a daemon, which only ever looks at the file's size and time.
"""

import grp
import os
import stat
from contextlib import suppress

SUFFIX = ".alone"  # iallocator/htoolsd imports nothing of ours and repeats this name
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def provide(socket: str, group: str) -> None:
    """Create the file, writable for those who may connect; failures are ignored."""
    with suppress(OSError, KeyError):
        descriptor = os.open(socket + SUFFIX, _FLAGS, 0o660)
        try:
            os.fchmod(descriptor, 0o660)
            if group:
                os.fchown(descriptor, -1, grp.getgrnam(group).gr_gid)
        finally:
            os.close(descriptor)


def status(socket: str) -> dict[str, object]:
    """How many decisions there were since the directory was made, and when the last one was."""
    with suppress(OSError):
        found = os.lstat(socket + SUFFIX)
        if stat.S_ISREG(found.st_mode) and found.st_size:
            return {"alone": found.st_size, "last_alone": found.st_mtime}
    return {"alone": 0, "last_alone": None}
