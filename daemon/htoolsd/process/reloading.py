"""The configuration, read again while the daemon runs."""

import time
from collections.abc import Callable

import structlog

from ganeti_htools.model.errors import HtoolsError
from htoolsd.process.config import Config, reloaded
from htoolsd.process.notify import notify

_log = structlog.get_logger()


def reloader(
    config: Config, read: Callable[[], Config], heed: Callable[[Config], None]
) -> Callable[[], None]:
    """A function that reads the configuration again and has it heeded; a wrong one changes nothing.

    ``config`` is the one that the daemon was started with.
    """

    def reload() -> None:
        nonlocal config
        notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        try:
            config, waiting = reloaded(config, read())
        except HtoolsError as error:
            _log.error("configuration not reloaded", error=str(error))
        else:
            heed(config)
            _log.info("configuration reloaded")
            if waiting:
                _log.warning("takes a restart", keys=waiting)
        notify("READY=1")

    return reload
