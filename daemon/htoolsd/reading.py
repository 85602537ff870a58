"""Files that others write, read as if an enemy had written them: nothing in them keeps the reader waiting."""

import errno
import os
import stat

_PIECE = 1 << 20


def whole(path: str, largest: int) -> bytes:
    """All of a regular file. Raises OSError, also if it is not regular or has more than ``largest`` bytes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        return contents(descriptor, largest)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        os.close(descriptor)


def contents(descriptor: int, largest: int) -> bytes:
    """All of an open regular file, whose position is neither used nor moved. Raises OSError.

    Nothing is read beyond the file's stated length: kernel files that wait for news (``/proc/kmsg``) claim to
    be regular and empty.
    """
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "no regular file")
    if found.st_size > largest:
        raise OSError(errno.EFBIG, f"longer than {largest} bytes")
    data = bytearray()
    while piece := os.pread(descriptor, min(_PIECE, found.st_size - len(data)), len(data)):
        data += piece
    return bytes(data)
