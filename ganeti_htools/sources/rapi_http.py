"""Queries Ganeti's remote API over HTTP (``ganeti-rapi(8)``). Runs under trio."""

import netrc
import os
import ssl
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress

import httpx
import trio

from ganeti_htools.backends.rapi import OPTIONAL, RESOURCES
from ganeti_htools.model.errors import HtoolsError

PORT = 5080
CONNECTING, PATIENCE = 15.0, 60.0  # seconds to connect, and for each resource

_MOST = 1 << 28  # bytes of a document


class MissingDocumentError(HtoolsError):
    """The server does not have a document."""


async def fetch(address: str, ca: str | None = None, credentials: str | None = None) -> dict[str, bytes]:
    """Return the documents of RESOURCES from a server: ``HOST``, ``HOST:PORT`` or a URL.

    OPTIONAL ones may be missing. ``ca`` names a file of certificates that verify the server (see
    :func:`tls`), ``credentials`` a file with user and password (``netrc(5)``). Raises HtoolsError, one line
    that names the resource or the file.
    """
    timeout = httpx.Timeout(PATIENCE, connect=CONNECTING)
    auth = None if credentials is None else login(_base(address), credentials)
    async with httpx.AsyncClient(verify=tls(ca), auth=auth, timeout=timeout) as client:
        documents = {}
        for name, path in RESOURCES.items():
            try:
                documents[name] = await get_document(client, _base(address) + path, PATIENCE, _MOST)
            except MissingDocumentError:
                if name not in OPTIONAL:
                    raise
        return documents


def warnings(address: str, ca: str | None, credentials: str | None) -> Iterator[str]:
    """Yield what is not safe about how a server is asked. Arguments as for :func:`fetch`."""
    url = _base(address)
    with suppress(httpx.InvalidURL):  # fetch complains
        if ca is None and url.startswith("https:"):
            yield f"{_shown(url)}: its certificate is not verified; --rapi-ca=FILE verifies it"
    with suppress(OSError):
        if credentials is not None and os.stat(credentials).st_mode & (stat.S_IRGRP | stat.S_IROTH):
            yield f"{credentials}: other users can read the password; expected mode 0600"


def login(url: str, path: str) -> httpx.BasicAuth:
    """Find user and password for a server in a file (``netrc(5)``). Raises HtoolsError."""
    try:
        parsed, entries = httpx.URL(url), netrc.netrc(path)
    except netrc.NetrcParseError as error:
        raise HtoolsError(f"{path}: line {error.lineno}: expected the format of netrc(5)") from None
    except (OSError, ValueError, httpx.InvalidURL) as error:
        raise HtoolsError(f"{path}: cannot be read: {_reason(error)}") from error
    if parsed.userinfo:
        raise HtoolsError(f"{_shown(url)}: has a user; expected it here or in {path}, not in both")
    host, found = parsed.host, entries.authenticators(parsed.host)
    if not (found and found[0] and found[2]):
        raise HtoolsError(
            f"{path}: no login for {host}; expected machine {host} login USER password PASSWORD"
        )
    return httpx.BasicAuth(found[0], found[2])


def _shown(url: str) -> str:
    """Return a URL without user and password."""
    return str(httpx.URL(url).copy_with(userinfo=b""))


def _base(address: str) -> str:
    if "://" in address:
        return address.rstrip("/")
    return f"https://{address}" if ":" in address else f"https://{address}:{PORT}"


def tls(ca: str | None) -> ssl.SSLContext:
    """Return the TLS settings: no verification, as in Ganeti's tools, or with the certificates in ``ca``.

    With ``ca`` the host's name must match, unless all certificates in the file are servers' own: the one
    that Ganeti makes for a new cluster has no host name. Raises HtoolsError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if ca is None:
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        context.load_verify_locations(ca)
    except OSError as error:  # SSLError is one
        raise HtoolsError(f"{ca}: expected certificates in PEM format: {_reason(error)}") from error
    # Ganeti's own are of X.509 version 1, which authorities no longer use.
    context.check_hostname = any(int(str(each["version"])) > 1 for each in context.get_ca_certs())
    return context


async def get_document(
    client: httpx.AsyncClient, url: str, patience: float, most: int, accepted: Collection[int] = ()
) -> bytes:
    """Return a document of at most ``most`` bytes, after at most ``patience`` seconds.

    Its status may be an ``accepted`` one, too. Raises MissingDocumentError; HtoolsError, a line that names
    the document.
    """
    shown, body = url, bytearray()
    try:
        shown = _shown(url)
        with trio.move_on_after(patience) as scope:
            async with client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as response:
                if response.status_code not in (httpx.codes.OK, *accepted):
                    missing = response.status_code == httpx.codes.NOT_FOUND
                    kind = MissingDocumentError if missing else HtoolsError
                    raise kind(f"{shown}: the server answers {_status(response)}")
                async for part in response.aiter_raw():
                    body += part
                    if len(body) > most:
                        # Leaving the loop would leave httpx's generators to the garbage collector.
                        scope.cancel()
                return bytes(body)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        raise HtoolsError(f"{shown}: {_reason(error)}") from error
    if len(body) > most:
        raise HtoolsError(f"{shown}: the answer is larger than {most >> 20} MiB")
    raise HtoolsError(f"{shown}: no complete answer within {patience:.0f} seconds")


def _status(response: httpx.Response) -> str:
    return " ".join(f"{response.status_code} {response.reason_phrase}".split())


def _reason(error: Exception) -> str:
    """Return an error's reason on one line, taken from its cause if the error has none."""
    cause: BaseException | None = error
    while cause is not None:
        text = " ".join((getattr(cause, "strerror", None) or str(cause)).split())
        if text:
            return text
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__
