"""Counter of decisions that the executable makes without the daemon: the size of a file beside the socket.

The executable appends one byte for each such decision. The daemon only looks at the file's size and time.
"""

import grp
import os
import stat
from contextlib import suppress

SUFFIX = ".alone"  # repeated in iallocator/, which imports nothing of the daemon
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def provide(socket: str, group: str) -> None:
    """Create the file, writable for all who may connect. Failures are ignored."""
    with suppress(OSError, KeyError):
        descriptor = os.open(socket + SUFFIX, _FLAGS, 0o660)
        try:
            os.fchmod(descriptor, 0o660)
            if group:
                os.fchown(descriptor, -1, grp.getgrnam(group).gr_gid)
        finally:
            os.close(descriptor)


def status(socket: str) -> dict[str, object]:
    """Return the number of such decisions since the directory was made, and the time of the last one."""
    with suppress(OSError):
        found = os.lstat(socket + SUFFIX)
        if stat.S_ISREG(found.st_mode) and found.st_size:
            return {"alone": found.st_size, "last_alone": found.st_mtime}
    return {"alone": 0, "last_alone": None}
