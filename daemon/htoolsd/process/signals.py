"""Signals: SIGHUP reloads the configuration, SIGTERM and SIGINT stop the daemon."""

import signal
from collections.abc import Callable

import structlog
import trio

from ganeti_htools import machine, streams
from ganeti_htools.model.errors import HtoolsError
from htoolsd.api.parts import ReloadStatus
from htoolsd.config.config import Config, reloaded
from htoolsd.config.settings import Settings
from htoolsd.process.service_manager import notify

_log = structlog.get_logger()


async def handle_signals(
    stop: Callable[[], None],
    reload: Callable[[], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Call ``reload`` or ``stop`` for each signal, until cancelled.

    SIGINT is ignored if the daemon was started to ignore it.
    """
    with trio.open_signal_receiver(
        signal.SIGTERM, signal.SIGHUP, *streams.not_ignored(signal.SIGINT)
    ) as signals:
        task_status.started()
        async for number in signals:
            if number == signal.SIGHUP:
                reload()
            else:
                _log.info("stopping", signal=signal.Signals(number).name)
                stop()


def reloader(settings: Settings, read: Callable[[], Config], status: ReloadStatus) -> Callable[[], None]:
    """Return a function that reads the configuration anew; an error changes nothing. ``status`` follows."""

    def reload() -> None:
        notify("RELOADING=1", f"MONOTONIC_USEC={int(machine.steady() * 1e6)}")
        try:
            config, status.waiting = reloaded(settings.now, read())
            settings.change(config)
            status.error = None
        except HtoolsError as error:
            status.error = str(error)
            _log.error("configuration not reloaded", error=str(error))
        except Exception as defect:
            status.error = f"{type(defect).__name__}: {defect}"
            _log.exception("configuration not reloaded", error=status.error)
        else:
            _log.info("configuration reloaded")
            if status.waiting:
                _log.warning("changed keys need a restart", keys=status.waiting)
        notify("READY=1")

    return reload
