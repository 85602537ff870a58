"""Forecasts in the daemon, by real processes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
import trio

from ganeti_htools import machine
from htoolsd.helper.helper import HelperResult
from htoolsd.history.database import Sample
from htoolsd.history.history import History
from htoolsd.metrics import forecast
from htoolsd.metrics.declarations import METRICS
from htoolsd.metrics.forecast import CapacityForecast
from tests.support.schemas import complaint
from tests.support.settings import settings
from tests.unit.daemon.metrics.test_count import sample

DAY = 86400.0


@pytest.fixture
def today(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list with the number of the day."""
    days = [100]
    monkeypatch.setattr(forecast, "_EVERY", 0.01)
    monkeypatch.setattr(machine, "now", lambda: (days[0] + 0.5) * DAY)
    return days


@asynccontextmanager
async def forecasting(history: History, sync: Any = None, **of_sync: Any) -> AsyncIterator[CapacityForecast]:
    sync = sync or SimpleNamespace()
    vars(sync).update({"led_cluster": sample("storage.data"), "master": True} | of_sync)
    part = CapacityForecast(sync, history)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(part.run)
        yield part
        nursery.cancel_scope.cancel()


async def known(part: CapacityForecast) -> dict[str, Any]:
    with trio.fail_after(60):
        while not part.status():
            await trio.sleep(0.01)
    return {each["resource"]: each for each in part.status()}


async def test_samples_of_each_day_are_kept_and_forecast(tmp_path: Path, today: list[int]) -> None:
    history = History(str(tmp_path / "history"), settings())
    free = [Sample(day, "rack1", "memory", (438.0 - 2 * day) * 1024, 262144.0) for day in range(60, 100)]
    await history.add_samples([*free, Sample(-631, "rack1", "memory", 1.0, 1.0)], -700)
    async with forecasting(history) as part:
        found = await known(part)
    assert complaint("htoolsctl-forecast", part.status()) is None
    assert found["memory"]["earliest"] == found["memory"]["latest"] == pytest.approx(219 * DAY)
    kept = await history.samples()
    assert kept is not None
    assert (kept[0].day, len(kept)) == (60, 45)
    async with forecasting(history) as again:  # a restart on the same day
        assert await known(again) == found
    assert await history.samples() == kept
    today[0] += 1
    async with forecasting(history) as next_day:
        assert (await known(next_day))["cpus"]["days"] == 2


async def test_only_the_master_samples_and_only_when_the_history_can_be_read(
    tmp_path: Path, today: list[int]
) -> None:
    (tmp_path / "directory").mkdir()
    for path, cluster in (("directory", sample("idle.data")), ("history", None)):
        history = History(str(tmp_path / path), settings())
        async with forecasting(history, led_cluster=cluster) as part:
            await trio.sleep(0.1)
            assert part.status() == []
        assert not await history.samples()


async def test_what_was_reached_in_time_is_forecast(
    tmp_path: Path, today: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = SimpleNamespace()
    answer = HelperResult(b'[[100, "a", "cpus", 0.0, 9.0], ["full", 1, null, null]]\n', "60 s")

    async def run_helper(*_args: object) -> HelperResult:
        return answer

    monkeypatch.setattr(forecast, "run_helper", run_helper)
    with structlog.testing.capture_logs() as logs:
        async with forecasting(History(str(tmp_path / "history"), settings()), sync) as part:
            assert (await known(part)).keys() == {"cpus"}
            await trio.sleep(0.1)
    assert [line["error"] for line in logs] == ["given up after 60 s"]
    sync.master = False
    assert part.status() == []


@pytest.mark.parametrize(
    ("outcome", "earliest", "rows"),
    [
        ("growing", 9000.0, [("a", "cpus", 1999.5)]),
        ("growing", 6000.0, [("a", "cpus", 0)]),
        ("full", None, [("a", "cpus", 0)]),
        ("not growing", None, []),
        ("too little history", None, []),
    ],
)
def test_metric_is_the_time_to_the_earlier_end(outcome: str, earliest: float | None, rows: object) -> None:
    (metric,) = (each for each in METRICS if each.name == "htoolsd_seconds_until_full")
    found = {"group": "a", "resource": "cpus", "outcome": outcome, "earliest": earliest}
    assert list(metric.rows({"started": 7000.0, "uptime_s": 0.5, "forecast": [found]})) == rows
