"""Files that programs read and write as a whole."""

import os
from contextlib import suppress

from ganeti_htools.model.errors import DataError, HtoolsError


def read_bytes(path: str) -> bytes:
    """The content of a file, or of standard input if ``path`` is ``-``. Raises HtoolsError."""
    try:
        with open(0 if path == "-" else path, "rb", closefd=path != "-") as file:
            return file.read()
    except (OSError, ValueError) as error:
        raise HtoolsError(f"{path}: cannot be read: {_reason(error)}") from error


def read_text(path: str) -> str:
    """The content of a UTF-8 file, or of standard input if ``path`` is ``-``. Raises HtoolsError."""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected UTF-8 text, but byte {error.start} is not") from error


def write_text(path: str, content: str) -> None:
    """Write a file as a whole; if that fails, what was there before stays. Raises HtoolsError.

    The content goes to a temporary file in the same directory, which is synced and renamed. A pipe or a
    device is written to instead, since it must not be replaced.
    """
    target = os.path.realpath(path)
    temporary = f"{target}.{os.urandom(4).hex()}.tmp"
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


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
