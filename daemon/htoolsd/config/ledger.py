"""Addresses of the ledger's database."""

import os
import re
from urllib.parse import unquote

from ganeti_htools.model.errors import DataError

_FILE = "sqlite:///"
_SERVER = "postgresql://"
_USER = re.compile(r"(?<=//)(?P<user>[^:]*):.*@")
_NO_PORT = re.compile(
    r"(?<=//)([^][:/@?]*):(?![0-9]*(?:[/?]|$)|[*]{3}@)[^/?@]*(?=[/?]|$)"
)  # a host is missing
_PARAMETER = re.compile(r"(?<=[?&;])(?P<name>[^=&;]*)=(?P<rest>[^&]*)")
_ADDRESS = re.compile(
    r"postgresql://([^:/@]*(:[^@]*)?@)?(\[[0-9A-Fa-f:.]+\]|[^][/?:@#]*)(:(?P<port>[0-9]+))?(/[^?#]*)?(\?[^#]*)?"
)


def file_url(state_dir: str) -> str:
    """Return the URL of the database that needs no server, a file in the state directory."""
    return _FILE + os.path.join(os.path.abspath(state_dir), "ledger.sqlite")


def is_file(url: str) -> bool:
    """Whether a database is a file, which only one daemon uses."""
    return not url.startswith(_SERVER)


def check_address(url: str) -> None:
    """Check the address of a server, as far as its text tells. Raises DataError, which never quotes it."""
    found = _ADDRESS.fullmatch(url)
    if not url.startswith(_SERVER):
        raise DataError("expected postgresql://USER@HOST/DATABASE or nothing")
    if found is None or not url.isprintable():
        raise DataError(
            "expected postgresql://USER@HOST:PORT/DATABASE, with special characters as %40 (@) or %2F (/)"
        )
    if found["port"] and not 0 < int(found["port"]) < 1 << 16:
        raise DataError(f"port: expected 1 to 65535, not {found['port']}")


def display_url(url: str) -> str:
    """Return a database URL for people: the path of a file; otherwise the URL without its passwords."""
    if url.startswith(_FILE):
        return url.removeprefix(_FILE)
    shown = _PARAMETER.sub(_without_secret, url)
    return _NO_PORT.sub(r"\1:***", _USER.sub(lambda found: f"{found['user']}:***@", shown))


def has_password(url: str) -> bool:
    """Whether a database URL contains a password."""
    return display_url(url) != url and not is_file(url)


def _without_secret(found: re.Match[str]) -> str:
    """Return a parameter of a URL. The name may be written with percent signs, as all of a URL."""
    secret = "pass" in unquote(found["name"]).lower()
    return f"{found['name']}={'***' if secret else _PARAMETER.sub(_without_secret, found['rest'])}"
