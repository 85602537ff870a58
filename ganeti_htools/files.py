"""Files that programs read and write as a whole."""

import errno
import os
import stat
from contextlib import suppress

from ganeti_htools import machine
from ganeti_htools.model.errors import DataError, HtoolsError

_PIECE = 1 << 20  # bytes that one call reads


def read_bytes(path: str) -> bytes:
    """Return the content of a file, or of standard input if ``path`` is ``-``. Raises HtoolsError."""
    try:
        with open(0 if path == "-" else path, "rb", closefd=path != "-") as file:
            return file.read()
    except (OSError, ValueError) as error:
        raise HtoolsError(f"{path}: cannot be read: {_reason(error)}") from error


def read_text(path: str) -> str:
    """Return the content of a UTF-8 file, or of standard input if ``path`` is ``-``. Raises HtoolsError."""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected UTF-8 text, but byte {error.start} is not") from error


def read_regular_file(path: str, largest: int) -> bytes:
    """Return the content of a regular file that another user may have written; never block.

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
    """Return the content of an open regular file, whose position is neither used nor moved. Raises OSError.

    Nothing is read beyond the stated length of the file: kernel files that block (``/proc/kmsg``) claim to be
    regular and empty.
    """
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    if status.st_size > largest:
        raise OSError(errno.EFBIG, f"longer than {largest} bytes")
    data = bytearray()
    while piece := os.pread(descriptor, min(_PIECE, status.st_size - len(data)), len(data)):
        data += piece
    return bytes(data)


def write_text(path: str, content: str) -> None:
    """Write a file as a whole; if that fails, what was there before stays. Raises HtoolsError.

    The content goes to a temporary file in the same directory, which is synced and renamed. A pipe or a
    device is written to instead, since it must not be replaced.
    """
    target = os.path.realpath(path)
    temporary = f"{target}.{machine.random_bytes(4).hex()}.tmp"
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(content)
            return
        try:
            with open(temporary, "x", encoding="utf-8", newline="") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except (OSError, ValueError) as error:
        raise HtoolsError(f"{path}: cannot be written: {_reason(error)}") from error


def make_private_database(path: str) -> None:
    """Have an SQLite file that only its owner can read and write, empty if it is new. Raises OSError."""
    options = os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
    os.close(os.open(path, options | os.O_CREAT, 0o600))
    for name in (path, f"{path}-wal", f"{path}-shm"):
        with suppress(FileNotFoundError):
            if os.stat(name).st_mode & 0o077:
                os.chmod(name, 0o600)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
