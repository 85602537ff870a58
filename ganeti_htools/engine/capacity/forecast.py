"""A forecast of the time at which a resource is full, from one sample a day of its free amount.

The trend is Theil and Sen's: the median of the slopes between days that are two thirds of the history apart,
and the median level. Both are fitted to the means of whole weeks, so days of the week cancel each other. The
interval comes from a block bootstrap (Künsch 1989): blocks of whole weeks of the residuals are put on the
trend, which is fitted again. So it covers slope and level, and noise that lasts for days. A trend that the
newer half of the history contradicts has ended: then the newer half counts alone.
"""

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from ganeti_htools.model.columns import Floats, Ints

HISTORY = 730  # days of samples that are of use
_LEAST = 28  # days with a sample
_WEEK = 7
_TWO_TRENDS = 12 * _WEEK  # days with which each half has a trend of its own
_STEP = 0.02  # of the total: a larger change of it is another resource
_BLOCK = 3 * _WEEK  # days
_ROUNDS = 400
_WIDENING = 1.3  # measured: the residuals of a fitted trend are smaller than its errors
_COVERED = 0.025, 0.975
_NEVER = 20 * 365.0  # days


class ForecastOutcome(StrEnum):
    """The kind of a forecast."""

    FULL = "full"
    GROWING = "growing"
    NOT_GROWING = "not growing"
    UNKNOWN = "too little history"


class Forecast(NamedTuple):
    """A forecast from the samples of ``days`` days.

    A growing use fills the resource between ``earliest`` and ``latest``, in days after the last sample;
    otherwise both are None.
    """

    outcome: ForecastOutcome
    days: int
    earliest: float | None = None
    latest: float | None = None


def forecast(days: Ints, free: Floats, total: Floats) -> Forecast:
    """Return the forecast of a resource from samples: the days in order, and what was free of which total.

    A total that differs from the last one for more than a week of samples cuts the history. Days with such a
    total (a node was offline, for example) are left out.
    """
    rows = np.flatnonzero(np.abs(total - total[-1]) <= _STEP * total[-1])
    cuts = np.flatnonzero(np.diff(rows) > _WEEK + 1)
    rows = rows[cuts[-1] + 1 if len(cuts) else 0 :]
    count, span = len(rows), int(days[-1] - days[rows[0]]) + 1
    if free[-1] <= 0:
        return Forecast(ForecastOutcome.FULL, count)
    if count < max(_LEAST, span / 2):
        return Forecast(ForecastOutcome.UNKNOWN, count)
    trend = _Trend(np.interp(np.arange(1.0 - span, 1.0), days[rows] - days[-1], free[rows]))
    while len(trend.values) >= _TWO_TRENDS and not (half := _Trend(trend.newer_half)).agrees(trend):
        trend = half
    earliest, latest = np.quantile(trend.days_left(), _COVERED, method="nearest")
    if latest <= _NEVER:
        return Forecast(ForecastOutcome.GROWING, count, float(earliest), float(latest))
    return Forecast(ForecastOutcome.NOT_GROWING if earliest > HISTORY else ForecastOutcome.UNKNOWN, count)


class _Trend:
    """The trend of a daily series of free amounts, and the trends that noise would make of it."""

    def __init__(self, values: Floats) -> None:
        self.values = values
        times = np.arange(1.0 - len(values), 1.0)
        self.slope, self.level = _fit(values)
        line = self.slope * times + self.level
        self.slopes, self.levels = _fit(line + _noise(values - line))

    @property
    def newer_half(self) -> Floats:
        """The values of the last days."""
        return self.values[len(self.values) // 2 :]

    def agrees(self, longer: "_Trend") -> bool:
        """Whether the trend of a longer time is one of those that noise would make of this one."""
        pairs = (self.slopes, longer.slope), (self.levels, longer.level)
        bounds = [(np.quantile(each, _COVERED), value) for each, value in pairs]
        return all(low <= value <= high for (low, high), value in bounds)

    def days_left(self) -> Floats:
        """Return when each of the trends reaches 0; infinity for those that do not."""
        falling = self.slopes < 0
        left: Floats = np.where(falling, self.levels / np.where(falling, -self.slopes, 1.0), np.inf)
        return np.where(self.levels > 0, left, 0.0)


def _fit(values: Floats) -> tuple[Floats, Floats]:
    """Return slope and level on the last day of each series (the last axis)."""
    sums = np.cumsum(values, axis=-1)
    weeks = (sums[..., _WEEK:] - sums[..., :-_WEEK]) / _WEEK
    number = weeks.shape[-1]
    apart = 2 * number // 3
    slope = np.median(weeks[..., apart:] - weeks[..., :-apart], axis=-1) / apart
    times = np.arange(number) + (1 - number - _WEEK // 2)
    return slope, np.median(weeks - slope[..., np.newaxis] * times, axis=-1)


def _noise(residuals: Floats) -> Floats:
    """Return series of blocks of residuals, each on the days of the week on which it was."""
    random, number = np.random.RandomState(0), len(residuals)  # its numbers are the same in all versions
    starts = random.randint((number - _BLOCK) // _WEEK + 1, size=(_ROUNDS, -(-number // _BLOCK))) * _WEEK
    drawn = (starts[..., np.newaxis] + np.arange(_BLOCK)).reshape(_ROUNDS, -1)[:, :number]
    blocks: Floats = _WIDENING * residuals[drawn]
    return blocks
