"""A defect ends no task for good."""

import pytest
import structlog
import trio
from trio.testing import MockClock

from htoolsd import tasks
from htoolsd.tasks import keep_running


@pytest.fixture(autouse=True)
def _no_defects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_found", {})


async def test_task_begins_again_later_each_time(autojump_clock: MockClock) -> None:
    begun = []

    async def fail() -> None:
        begun.append(trio.current_time())
        if len(begun) < 10:
            raise KeyError("pnode\n of inst7")

    start = trio.current_time()
    with structlog.testing.capture_logs() as log:
        await keep_running("sync", fail)
    assert [round(each - start) for each in begun] == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]
    assert [(line["event"], line["task"]) for line in log] == [("task failed", "sync")] * 9
    (found,) = tasks.status()
    assert (found["task"], found["count"]) == ("sync", 9)
    assert found["error"].startswith("KeyError: ")
    assert "\n" not in found["error"]


async def test_pause_is_short_after_sound_work(autojump_clock: MockClock) -> None:
    begun = []

    async def fail() -> None:
        begun.append(trio.current_time())
        if len(begun) < 5:
            await trio.sleep(1000 if len(begun) == 4 else 0)
            raise KeyError

    await keep_running("sync", fail)
    assert round(begun[4] - begun[3]) == 1001


async def test_defect_counts_as_start(autojump_clock: MockClock) -> None:
    async def fail(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        if not tasks.status():
            raise KeyError
        task_status.started()
        ended.set()

    ended = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(keep_running, "claims", fail)
        assert not ended.is_set()
    assert ended.is_set()


async def test_task_that_has_started_starts_once(autojump_clock: MockClock) -> None:
    async def fail(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        if not tasks.status():
            raise KeyError

    async with trio.open_nursery() as nursery:
        await nursery.start(keep_running, "claims", fail)
    assert len(tasks.status()) == 1


async def test_cancellation_is_no_defect(autojump_clock: MockClock) -> None:
    with trio.move_on_after(1):
        await keep_running("sync", trio.sleep_forever)
    assert tasks.status() == []
