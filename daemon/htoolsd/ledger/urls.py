"""Where the ledger's database is: ``sqlite:///PATH`` or ``postgresql://...``."""

import os
import re

_FILE = "sqlite:///"
_PASSWORD = re.compile(r"(?<=//)(?P<user>[^/?:@]*):.*@|(?<=password=)[^&]*")


def of_file(state_dir: str) -> str:
    """The database that needs no server."""
    return _FILE + os.path.join(os.path.abspath(state_dir), "ledger.sqlite")


def shown(url: str) -> str:
    """What people may see of it: the path of a file, and no password."""
    if url.startswith(_FILE):
        return url.removeprefix(_FILE)
    return _PASSWORD.sub(lambda found: f"{found['user']}:***@" if found["user"] else "***", url)
