"""Forecasts of histories whose true end is known. The 200 of the measurement are fixed by their seeds."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from ganeti_htools.engine.capacity.forecast import Forecast, ForecastOutcome, forecast

SHAPES, NOISES = ("linear", "steps", "weekly", "flat", "shrinking"), ("white", "correlated")
TOTAL = 1000.0


def noise(random: np.random.RandomState, kind: str, days: int) -> Any:
    """Return noise of a standard deviation of 0.5 to 3 % of the total; correlated: 0.8 from day to day."""
    white = random.normal(size=days)
    if kind == "correlated":
        for day in range(1, days):
            white[day] = 0.8 * white[day - 1] + 0.6 * white[day]
    return TOTAL * random.uniform(0.005, 0.03) * white


def history(random: np.random.RandomState, shape: str, kind: str) -> tuple[Any, Any, Any, float | None]:
    """Return days, free amounts and totals of 60 to 400 days, and when it is full: after 30 to 700 days."""
    days, left = random.randint(60, 400), float(np.exp(random.uniform(np.log(30), np.log(700))))
    slope = TOTAL * random.uniform(0.3, 1) / (left + days)
    slope *= {"flat": 0, "shrinking": 1}.get(shape, -1)
    before, totals = np.arange(1.0 - days, 1), np.full(days, TOTAL)
    free = slope * before + (-slope * left if slope < 0 else TOTAL * random.uniform(0.1, 0.6))
    if shape == "steps":  # instances come in batches, and a node was added
        every, added = random.randint(5, 21), random.randint(5, days // 2)
        free += slope * (every / 2 - before % every)
        totals[:added] -= TOTAL / 5
        free[:added] -= TOTAL / 5
    if shape == "weekly":
        free += TOTAL * random.uniform(0.01, 0.06) * np.where((before + random.randint(7)) % 7 < 2, 1, -0.4)
    return before + days, free + noise(random, kind, days), totals, left if slope < 0 else None


def test_most_true_dates_are_inside_and_intervals_are_narrow() -> None:
    """Inside of 20: linear 18 (correlated noise: 19), steps 20 (15), weekly 19 (17). Median width: 0.19."""
    found: dict[tuple[str, str], list[int]] = {}
    widths, wrong, promised = list[float](), 0, 0
    for seed, (shape, kind) in enumerate(product(SHAPES, NOISES)):
        random, counts = np.random.RandomState(seed), [0, 0]
        for _ in range(20):
            *samples, left = history(random, shape, kind)
            outcome, _, earliest, latest = forecast(*samples)
            wrong += left is not None and outcome == ForecastOutcome.NOT_GROWING
            promised += left is None and earliest is not None
            if left is not None and earliest is not None and latest is not None:
                counts[0] += earliest <= left <= latest
                counts[1] += 1
                widths.append((latest - earliest) / left)
        found[shape, kind] = counts
    inside, dated = np.array([found[shape, "white"] for shape in ("linear", "steps", "weekly")]).sum(axis=0)
    assert dated >= 57
    assert inside >= 0.85 * dated
    assert np.median(widths) <= 0.5
    assert wrong <= 0.02 * 120
    assert promised <= 0.1 * 80


LINE = 500.0 - 2 * np.arange(100)  # 302 are left, of 1000


def of(free: Any, total: Any = TOTAL, days: Any = None) -> Forecast:
    free = np.asarray(free, np.float64)
    days = np.arange(len(free)) if days is None else days
    return forecast(days, free, np.broadcast_to(np.asarray(total, np.float64), free.shape))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (of(LINE), (ForecastOutcome.GROWING, 100, 151, 151)),
        (
            of(LINE[::2], days=np.arange(0, 100, 2)),
            (ForecastOutcome.GROWING, 50, 152, 152),
        ),  # every other day missed
        (of(LINE[:27]), (ForecastOutcome.UNKNOWN, 27, None, None)),
        (of(LINE[::3], days=np.arange(0, 100, 3)), (ForecastOutcome.UNKNOWN, 34, None, None)),
        (of([0.0]), (ForecastOutcome.FULL, 1, None, None)),
        (of(LINE - 302), (ForecastOutcome.FULL, 100, None, None)),
        (of(np.full(50, 7.0)), (ForecastOutcome.NOT_GROWING, 50, None, None)),
        (of(LINE[::-1]), (ForecastOutcome.NOT_GROWING, 100, None, None)),
    ],
)
def test_forecast(found: Forecast, expected: tuple[object, ...]) -> None:
    assert found[:2] == expected[:2]
    assert found[2:] == pytest.approx(expected[2:])


def test_another_total_cuts_the_history_unless_it_was_for_a_week_only() -> None:
    totals, free = np.full(100, TOTAL), LINE.copy()
    totals[40:47] = free[40:47] = 100.0  # nodes were offline
    assert of(free, totals)[:2] == (ForecastOutcome.GROWING, 93)
    totals[47] = 100.0
    assert of(free, totals)[:2] == (ForecastOutcome.GROWING, 52)
    totals[-1] = 900.0  # a node has gone, perhaps for good
    assert of(free, totals) == (ForecastOutcome.UNKNOWN, 1, None, None)
    assert of(LINE, np.where(np.arange(100) < 50, 990.0, TOTAL))[:2] == (ForecastOutcome.GROWING, 100)


def test_trend_that_has_ended_counts_no_more() -> None:
    """Flat for 200 days, then 5 a day for 80 days: 100 are left for 20 days."""
    free = (
        100.0 + 5 * np.arange(279, -1, -1).clip(max=80) + noise(np.random.RandomState(1), "white", 280) / 10
    )
    outcome, days, earliest, latest = of(free)
    assert (outcome, days) == (ForecastOutcome.GROWING, 280)
    assert earliest is not None
    assert latest is not None
    assert 15 < earliest < 20 < latest < 25
