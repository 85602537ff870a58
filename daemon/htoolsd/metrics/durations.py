"""Durations counted by size, as a histogram of Prometheus has them."""

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)  # seconds


@dataclass(slots=True)
class Durations:
    """Numbers of durations up to each of ``BOUNDS``, and of longer ones; ``total`` seconds in all."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def to_json(self) -> dict[str, Any]:
        """Return the number in all, their sum, and how many are at most as long as each bound."""
        upto = list(accumulate(self.counts))
        buckets = [list(each) for each in zip(BOUNDS, upto, strict=False)]
        return {"count": upto[-1], "sum_s": round(self.total, 6), "buckets": buckets}
