"""Forecasts of when the resources of node groups are full, from a sample a day."""

import json
from typing import Any

import structlog
import trio

from ganeti_htools import machine
from ganeti_htools.engine.capacity.forecast import HISTORY, Forecast
from htoolsd.helper.helper import run_helper
from htoolsd.history.database import Sample
from htoolsd.history.history import History
from htoolsd.metrics.capacity import CPU_SECONDS
from htoolsd.sync.sync import Sync

_log = structlog.get_logger()

_DAY = 86400  # seconds
_EVERY = 60.0  # seconds until a new day is noticed; also from the start, since storage units are known later
_SECONDS = 300.0  # for samples and forecasts, after which the process is killed


class CapacityForecast:
    """The forecasts of the last day with samples, for the cluster that this node leads."""

    def __init__(self, sync: Sync, history: History) -> None:
        self._sync = sync
        self._history = history
        self._day: int | None = None
        self._forecasts: list[dict[str, Any]] = []

    def status(self) -> list[dict[str, Any]]:
        """Return the forecast of each resource as JSON. Times are seconds of the epoch."""
        return self._forecasts if self._sync.master else []

    async def run(self) -> None:
        """Take samples and compute forecasts once a day (UTC), until cancelled."""
        while True:
            await trio.sleep(_EVERY)
            day, cluster = int(machine.now() // _DAY), self._sync.led_cluster
            if cluster is None or day == self._day or (known := await self._history.samples()) is None:
                continue
            output, limit, error = await run_helper(
                "htoolsd.metrics.samples", CPU_SECONDS, _SECONDS, cluster, day, known
            )
            if limit or error:
                _log.warning("forecasts not complete", error=error or f"given up after {limit}")
            lines = map(json.loads, output.splitlines())
            pairs = [(Sample(*sample), Forecast(*found)) for sample, found in lines]
            await self._history.add_samples([sample for sample, _ in pairs], day - HISTORY)
            self._forecasts = [_to_json(*pair) for pair in sorted(pairs)]
            self._day = day


def _to_json(sample: Sample, found: Forecast) -> dict[str, Any]:
    times = (None if days is None else (sample.day + days) * _DAY for days in found[2:])
    earliest, latest = times
    return {
        "group": sample.group,
        "resource": sample.resource,
        "free": sample.free,
        "total": sample.total,
        "outcome": found.outcome,
        "days": found.days,
        "earliest": earliest,
        "latest": latest,
    }
