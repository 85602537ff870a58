"""Signals: SIGHUP reloads, SIGTERM and SIGINT stop."""

import signal
from collections.abc import Callable

import structlog
import trio

from ganeti_htools import streams

_log = structlog.get_logger()


async def heed(
    stop: Callable[[], None],
    reload: Callable[[], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Call ``reload`` or ``stop`` whenever a signal asks for it, until cancelled.

    SIGINT is ignored if the daemon was started to ignore it.
    """
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP, *streams.heeded(signal.SIGINT)) as signals:
        task_status.started()
        async for number in signals:
            if number == signal.SIGHUP:
                reload()
            else:
                _log.info("stopping", signal=signal.Signals(number).name)
                stop()
