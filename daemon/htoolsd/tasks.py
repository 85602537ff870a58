"""The daemon's tasks, which go on after a defect."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import structlog
import trio

from ganeti_htools import machine
from ganeti_htools.model.errors import on_one_line

_log = structlog.get_logger()

_FIRST_PAUSE, _LAST_PAUSE = 1.0, 60.0  # seconds before a task begins again; doubling
_SOUND = 600.0  # seconds without a defect, after which the pause is the first one again

Task = Callable[..., Awaitable[None]]


@dataclass(slots=True)
class Defects:
    """The number of defects that ended a task, the last one, and its time in seconds of the epoch."""

    task: str
    count: int
    error: str
    time: float


_found: dict[str, Defects] = {}


def status() -> list[dict[str, Any]]:
    """Return the defects of each task that had any since the start of the daemon, as JSON."""
    return [asdict(each) for each in _found.values()]


def note_defect(task: str, defect: Exception) -> None:
    """Log and count a defect of a task."""
    before = _found.get(task)
    text = on_one_line(f"{type(defect).__name__}: {defect}")
    _found[task] = Defects(task, before.count + 1 if before else 1, text, machine.now())
    _log.error("task failed", task=task, exc_info=defect)


async def keep_running(
    name: str, task: Task, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Run a task until it returns. After a defect it begins again, later each time.

    With a ``task_status``, the task reports itself that it has started; a defect counts as that, too.
    """
    pause = _FIRST_PAUSE
    begin: Task = task if task_status is trio.TASK_STATUS_IGNORED else partial(task, task_status=task_status)
    while True:
        began = trio.current_time()
        try:
            await begin()
            return
        except Exception as defect:
            note_defect(name, defect)
        begin = task
        with suppress(RuntimeError):  # it has started before
            task_status.started()
        if trio.current_time() - began > _SOUND:
            pause = _FIRST_PAUSE
        await trio.sleep(pause)
        pause = min(2 * pause, _LAST_PAUSE)
