"""Settings of the HTTP listener, and its token."""

import os
import re
import stat
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated

from ganeti_htools.files import read_regular_file
from ganeti_htools.model.errors import DataError
from htoolsd.config.keys import checked

_UNIX = "unix:"
_EXPECTED = "unix:/PATH, or a loopback address and a port like 127.0.0.1:9719 or [::1]:9719"
_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):([0-9]{1,5})")
_TOKEN = re.compile(rb"[!-~]{16,}")
_LARGEST = 4096  # bytes of the token's file


@dataclass(frozen=True, slots=True)
class Address:
    """The place to listen: a Unix socket at ``path``, or otherwise a loopback address."""

    path: str = ""
    host: str = ""
    port: int = 0


def address(listen: str) -> Address:
    """Parse the key ``listen``. Raises DataError."""
    if listen.startswith(f"{_UNIX}/"):
        return Address(listen.removeprefix(_UNIX))
    found = _ADDRESS.fullmatch(listen)
    host, port = (found[1] or found[2], int(found[3])) if found else ("", 0)
    try:
        loopback = ip_address(host).is_loopback
    except ValueError:
        raise DataError(f"expected {_EXPECTED}, not '{listen}'") from None
    if not loopback or not 0 < port < 1 << 16:
        raise DataError(f"expected {_EXPECTED}, not '{listen}'")
    return Address(host=host, port=port)


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The table ``[http]``."""

    listen: Annotated[
        str, checked(address), "unix:/PATH, or a loopback address like 127.0.0.1:9719; empty: off"
    ] = ""
    token_file: Annotated[str, "file with the token that clients of a loopback address must send"] = ""
    hosts: Annotated[
        tuple[str, ...], "further names by which clients may ask, besides localhost and the address"
    ] = ()

    exporter_names: Annotated[bool, "add the metrics of prometheus-ganeti-exporter to /metrics"] = False

    def __post_init__(self) -> None:
        """Raises DataError for an address without token, and for a token without address."""
        loopback = bool(self.listen) and not self.listen.startswith(_UNIX)
        if loopback and not self.token_file:
            raise DataError("token_file: expected a file, because a loopback address is open to all users")
        if self.token_file and not loopback:
            raise DataError("token_file: expected only with a loopback address in listen")


def read_token(path: str) -> bytes:
    """Return the token in a file that only its owner may read. Raises DataError."""
    try:
        mode = os.stat(path).st_mode
        content = read_regular_file(path, _LARGEST).strip()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise DataError(f"{path}: other users may have access; expected mode 0600")
    if not _TOKEN.fullmatch(content):
        raise DataError(f"{path}: expected a token of 16 or more printable characters without spaces")
    return content
