"""Settings of notifications: the table ``[notify]`` of the configuration file."""

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from ganeti_htools.model.errors import DataError
from htoolsd.config.keys import check_program, checked, program_problem

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def _check_url(url: str) -> None:
    """Raises DataError."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    secure = parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK) if host else False
    if not secure or not url.isprintable():
        raise DataError("expected a URL like https://host/path; http only for this machine")


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """The keys of ``[notify]``. At most one of ``program`` and ``url`` is set."""

    program: Annotated[
        str, checked(check_program), "program that gets events as JSON on its standard input; empty: none"
    ] = ""
    url: Annotated[
        str, checked(_check_url), "address that events are posted to as JSON, like https://host/path"
    ] = ""
    pause_seconds: Annotated[float, "pause after an event: what comes meanwhile goes with the same call"] = (
        10.0
    )
    every_seconds: Annotated[float, "shortest time between two calls"] = 60.0
    repeat_seconds: Annotated[float, "shortest time until what went and came back is announced again"] = (
        3600.0
    )
    timeout_seconds: Annotated[float, "longest time of a call; then the program is killed"] = 30.0
    retry_seconds: Annotated[
        float, "pause after a failed call; doubled with each further failure, up to an hour"
    ] = 30.0

    def __post_init__(self) -> None:
        """Check that there is one way. Raises DataError."""
        if self.program and self.url:
            raise DataError("program, url: expected one of them")

    @property
    def way(self) -> str | None:
        """The program, or the host of the URL, which itself may be a secret; None without either."""
        return self.program or urlsplit(self.url).hostname

    def problem(self) -> str | None:
        """Return why the program cannot be run, None if it can."""
        return program_problem(self.program)
