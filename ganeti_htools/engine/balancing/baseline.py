"""The score before a step, ready to be computed for many changes at once."""

from typing import Any

import numpy as np

from ganeti_htools.engine.balancing.effects import ScoreParts
from ganeti_htools.engine.balancing.new_nodes import NewNodes
from ganeti_htools.engine.balancing.own_nodes import OwnNodes
from ganeti_htools.engine.rules.deviation import Deviation
from ganeti_htools.model.columns import Floats

TINY = 1e-13  # relative rounding error of a sum
TINIEST = float(np.finfo(float).tiny)


class Baseline:
    """The statistics of the nodes in scope before a step.

    Figures of each spread, about its centre: ``deviation``, ``means``, ``numbers`` (of counted nodes),
    ``above`` (twice the distance of each node from the mean) and ``doubts`` (rounding errors of the
    variance). ``rest`` is the weighted sum of all other components, with the location exclusion score
    ``exclusion``.
    """

    def __init__(self, parts: ScoreParts, exclusion: float) -> None:
        totals = parts.totals()
        self.weights, self.numbers = parts.weights, totals.numbers
        self.values, self.heights = totals.values, totals.heights
        score_table = parts.table
        self.location_exclusion, self.rest = (
            exclusion,
            totals.rest + score_table.weights[score_table.location_exclusion] * exclusion,
        )
        self.means, squares = totals.sums / self.numbers, totals.squares / self.numbers
        means = self.means * self.means
        self.deviation = Deviation(self.numbers, totals.sums, squares - means)
        self.above = 2 * (self.heights - self.means[:, np.newaxis])
        self._of_new: dict[NewNodes, tuple[Floats, Floats, Floats]] = {}
        self.doubts = TINY * (squares + means + 0.01 * parts.centre**2)

    @property
    def doubt(self) -> float:
        """The rounding error of the score that follows from the variances."""
        return float((self.weights * np.sqrt(self.doubts)).sum())

    @property
    def score(self) -> float:
        """The score before the step, right to about 1e-8."""
        return float(self.rest + (self.weights * np.sqrt(np.maximum(self.deviation.variance, 0.0))).sum())

    def scores(self, changes: Floats, squares: Floats, rest: Any) -> Floats:
        """Compute scores after changes of sums and sums of squares (spreads by moves), and of the rest."""
        scores: Floats = self.rest + rest + np.zeros(changes.shape[1])
        variances = np.maximum(self._variances(changes, squares), 0.0)
        for weight, deviation in zip(self.weights.tolist(), np.sqrt(variances), strict=True):
            scores += weight * deviation
        return scores

    def _variances(self, changes: Floats, squares: Floats) -> Floats:
        before = Deviation(*(figures[:, np.newaxis] for figures in self.deviation))
        variances: Floats = before.after(changes, squares).variance
        return variances

    def score_doubts(self, changes: Floats, squares: Floats) -> Floats:
        """Compute the rounding errors of such scores."""
        doubts = self.doubts[:, np.newaxis]
        variances = np.maximum(np.maximum(self._variances(changes, squares), 0.0) + doubts, TINIEST)
        weights = (self.weights * self.doubts)[:, np.newaxis]
        total: Floats = (weights / np.sqrt(variances)).sum(axis=0)
        return total

    def chords(self, own: OwnNodes, new: NewNodes) -> tuple[Floats, float]:
        """Compute the slopes of a linear lower bound, in changes of the sums of squares, and its start."""
        low, high, largest = own.bounds(self.means, self.numbers)
        if new not in self._of_new:  # several kinds of moves share new nodes
            self._of_new[new] = new.bounds(self.above, self.numbers)
        low_new, high_new, largest_new = self._of_new[new]
        cross = ((largest + largest_new) / self.numbers) ** 2
        variances = np.maximum(self.deviation.variance, 0.0)
        low, high = np.maximum(low + low_new - cross, -variances), high + high_new
        width = high - low
        rise = np.sqrt(np.maximum(variances + high, 0.0)) - np.sqrt(variances + low)
        slopes = self.weights * np.where(width > 0, rise / np.where(width > 0, width, 1.0), 0.0)
        starts = self.weights * np.sqrt(variances + low) - slopes * (low + cross)
        return slopes / self.numbers, float(starts.sum()) + self.rest
