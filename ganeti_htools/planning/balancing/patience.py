"""The length of a search: a number of steps, or a time, of which a part is kept for making plans."""

import math

from ganeti_htools import machine
from ganeti_htools.backends.haskell import fixed
from ganeti_htools.model.wording import duration
from ganeti_htools.planning.plan import Progress

KEPT = 0.3  # the part of the time that is kept for plans, at most


class SearchSteps:
    """A search of so many steps. All its plans are made."""

    def __init__(self, steps: int, progress: Progress) -> None:
        self.left, self.steps, self.progress = steps, steps, progress

    def searches(self, score: float) -> bool:
        """Count a step."""
        done = f"{self.steps - self.left} of {self.steps} steps"
        self.progress(f"{done}, score {fixed(score, 8)}")
        self.left -= 1
        return self.left >= 0

    @staticmethod
    def plans() -> bool:
        return True


class SearchTime:
    """A search that leaves time for so many plans as long as the last one: ``seconds`` for all.

    The longest pause of the search counts too: rounds end with moves by the rules.
    """

    def __init__(self, seconds: float, plans: int, progress: Progress) -> None:
        self.seconds, self.number, self.progress = seconds, plans, progress
        self.end, self.asked, self.planning = machine.steady() + seconds, math.inf, False
        self.plan, self.pause = 0.0, 0.0

    def searches(self, score: float) -> bool:
        """Whether there is time for a step, and for the plans afterwards."""
        left = duration(self.end - machine.steady())
        self.progress(f"searching for {left} more, score {fixed(score, 8)}")
        self._measure(planning=False)
        kept = self.number * self.plan + self.pause
        return self.asked + min(kept, KEPT * self.seconds) < self.end

    def plans(self) -> bool:
        self._measure(planning=True)
        return self.asked + self.plan < self.end

    def _measure(self, planning: bool) -> None:
        """Measure the time since the last question: of a plan if one was begun."""
        now = machine.steady()
        passed = now - self.asked
        if self.planning:
            self.plan = passed
        else:
            self.pause = max(self.pause, passed)
        self.asked, self.planning = now, planning
