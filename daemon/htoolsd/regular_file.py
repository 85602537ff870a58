"""Safe reading of regular files that others write: no file makes the reader wait."""

import errno
import os
import stat

_PIECE = 1 << 20


def read(path: str, largest: int) -> bytes:
    """Return the content of a regular file.

    Raises OSError, also for a file that is not regular or has more than ``largest`` bytes.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        return read_descriptor(descriptor, largest)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        os.close(descriptor)


def read_descriptor(descriptor: int, largest: int) -> bytes:
    """Return the content of an open regular file; its position is neither used nor moved. Raises OSError.

    Nothing is read beyond the file's stated length: kernel files that wait for news (``/proc/kmsg``) claim to
    be regular and empty.
    """
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    if found.st_size > largest:
        raise OSError(errno.EFBIG, f"longer than {largest} bytes")
    data = bytearray()
    while piece := os.pread(descriptor, min(_PIECE, found.st_size - len(data)), len(data)):
        data += piece
    return bytes(data)
