"""The page: drawn once for all who ask, and kept for a while; so are failures."""

import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from htoolsd.api.report import ReportMethods
from htoolsd.history.history import History
from htoolsd.sync.model import Model
from tests.support.settings import settings


class Drawing(ReportMethods):
    """Pages without a process, which count how often they are drawn."""

    drawn = 0
    found = ("page", "")

    async def _draw(self) -> tuple[str, str]:
        await trio.sleep(1)
        self.drawn += 1
        return self.found


class Status:
    """A daemon that needs no attention."""

    async def report(self) -> dict[str, Any]:
        dates = {"outcome": "growing", "earliest": 8.1e9, "latest": 8.2e9}
        return {
            "attention": [],
            "plans": {"running": 1},
            "cluster": {"unfinished_jobs": 2},
            "forecast": [
                {"group": "a", "resource": "cpus", "outcome": "not growing", "earliest": None},
                {"group": "a", "resource": "disk"} | dates | {"earliest": 8.15e9},
                {"group": "b", "resource": "memory"} | dates,
            ],
        }


def page(tmp_path: Path, kind: type[ReportMethods], cluster: Cluster | None = None) -> Any:
    status: Any = Status()
    sync: Any = SimpleNamespace(model=Model(available=cluster), cluster_name="<name>")
    return kind(status, History(str(tmp_path / "history"), settings()), sync)


async def test_callers_at_the_same_time_share_a_page(tmp_path: Path, autojump_clock: MockClock) -> None:
    drawing = page(tmp_path, Drawing)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(drawing.html)
    assert drawing.drawn == 1
    await trio.sleep(31)
    assert await drawing.html() == "page"
    assert drawing.drawn == 2


async def test_failures_are_kept_too(tmp_path: Path, autojump_clock: MockClock) -> None:
    drawing = page(tmp_path, Drawing)
    drawing.found = "", "no room"
    for _ in range(2):
        with pytest.raises(HtoolsError, match="the report was not drawn: no room"):
            await drawing.html()
    assert drawing.drawn == 1


async def test_caller_who_leaves_does_not_stop_others(tmp_path: Path, autojump_clock: MockClock) -> None:
    drawing = page(tmp_path, Drawing)
    with trio.move_on_after(0.5):
        await drawing.html()
    assert drawing.drawn == 0
    assert await drawing.html() == "page"


async def test_process_draws_the_cluster(tmp_path: Path) -> None:
    before = time.time()
    found = await page(tmp_path, ReportMethods, Cluster()).html()
    assert "Cluster &lt;name&gt;" in found
    assert "<b>1 running</b>" in found
    assert "memory of b: full between 2226-" in found
    assert time.strftime("%Y-%m-%d", time.localtime(before)) in found


async def test_last_words_of_a_process_that_fails_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_command: object, **_options: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess([], 1, b"", b"Traceback\nValueError: no room\n")

    monkeypatch.setattr(trio, "run_process", fail)
    with pytest.raises(HtoolsError, match=r"^the report was not drawn: ValueError: no room$"):
        await page(tmp_path, ReportMethods, Cluster()).html()
