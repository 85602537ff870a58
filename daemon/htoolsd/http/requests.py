"""Requests and their answers, without a connection. Pure functions."""

import hmac
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"
PATHS = ("/", "/metrics", "/healthz")
_METHODS = ("GET", "HEAD")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: its status, text and further headers."""

    status: int
    text: str
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """The head of a request; names of headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]


def refuse_host(request: Request, names: Collection[str]) -> Answer | None:
    """Refuse a request to another host.

    A page in a browser may give its own name the address of this machine (DNS rebinding), and then ask as
    that host.
    """
    found = _HOST.fullmatch(request.headers.get("host", ""))
    if found and found[1].lower() in names:
        return None
    return Answer(403, "Host: expected localhost, the address, or one of hosts in [http]\n")


def refuse_token(request: Request, token: bytes) -> Answer | None:
    """Refuse a request without the token. The comparison takes the same time for all tokens."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    same = hmac.compare_digest(given.strip().encode("latin-1"), token)
    if scheme.lower() == "bearer" and same:
        return None
    return Answer(
        401,
        "Authorization: expected Bearer and the token in token_file of [http]\n",
        headers={"WWW-Authenticate": 'Bearer realm="htoolsd"'},
    )


def refuse_action(request: Request) -> Answer | None:
    """Refuse everything but reading what there is."""
    if request.path not in PATHS:
        return Answer(404, f"not found; there are {', '.join(PATHS)}\n")
    if request.method not in _METHODS:
        return Answer(405, "nothing can be changed here\n", headers={"Allow": ", ".join(_METHODS)})
    return None
