"""The lock of the state directory: only one daemon uses it."""

import os
from pathlib import Path

from htoolsd.socket.listening import StartError, locked


def lock(state_dir: str) -> int:
    """Create the state directory, and lock it until the returned descriptor is closed. Raises StartError.

    The kernel ends the lock with the process, however the process ends.
    """
    path = Path(state_dir, "lock")
    try:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as err:
        raise StartError(f"{err.filename}: {err.strerror}") from None
    if not locked(descriptor):
        os.close(descriptor)
        raise StartError(f"already running: another htoolsd uses {state_dir}")
    return descriptor
