"""How long balancing searches: a number of steps, or a time, of which a part is kept for making plans."""

import math
import time

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.planning.plan import Progress

KEPT = 0.3  # the part of the time that is kept for plans, at most


class SearchSteps:
    """A search of so many steps. All its plans are made."""

    def __init__(self, steps: int, progress: Progress) -> None:
        self.left, self.progress = steps, progress

    def searches(self, score: float) -> bool:
        """Count a step."""
        _show(self.progress, score)
        self.left -= 1
        return self.left >= 0

    @staticmethod
    def plans() -> bool:
        """Return True."""
        return True


class SearchTime:
    """A search that leaves time for so many plans as long as the last one: ``seconds`` for all."""

    def __init__(self, seconds: float, plans: int, progress: Progress) -> None:
        self.seconds, self.number, self.progress = seconds, plans, progress
        self.end, self.begun, self.last = time.monotonic() + seconds, math.nan, 0.0

    def searches(self, score: float) -> bool:
        """Whether there is time for a step, and for the plans afterwards."""
        _show(self.progress, score)
        now = self._measure()
        self.begun = math.nan
        return now + min(self.number * self.last, KEPT * self.seconds) < self.end

    def plans(self) -> bool:
        """Whether there is time for a plan."""
        self.begun = self._measure()
        return self.begun + self.last < self.end

    def _measure(self) -> float:
        """Measure how long a plan took if one was begun; returns the time."""
        now = time.monotonic()
        if not math.isnan(self.begun):
            self.last = now - self.begun
        return now


def _show(progress: Progress, score: float) -> None:
    progress(f"searching, score {fixed(score, 8)}")
