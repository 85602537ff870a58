"""Mark for the executable: a file beside the socket while the ledger has inventories that are in no tag.

A decision without the daemon does not know these inventories, and says so.
"""

import os
from contextlib import suppress

SUFFIX = ".untagged"  # repeated in iallocator/, which imports nothing of the daemon
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def show(socket: str, untagged: bool) -> None:
    """Create or remove the file. Failures are ignored."""
    with suppress(OSError):
        if untagged:
            os.close(os.open(socket + SUFFIX, _FLAGS, 0o664))
        else:
            os.unlink(socket + SUFFIX)
