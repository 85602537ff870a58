"""The score before a step, ready to be computed for many changes at once."""

from typing import Any

import numpy as np

from ganeti_htools.engine.balancing.chords import Chords, Span
from ganeti_htools.engine.balancing.effects import ScoreParts
from ganeti_htools.engine.rules.deviation import Deviation
from ganeti_htools.model.columns import Floats

TINY = 1e-13  # relative rounding error of a sum
TINIEST = float(np.finfo(float).tiny)


class Baseline:
    """The statistics of the nodes in scope before a step.

    Figures of each spread, about its centre: ``deviation``, ``means``, ``numbers`` (of counted nodes),
    ``heights`` (distances of the nodes from the centre) and ``doubts`` (rounding errors of the variance).
    ``rest`` is the weighted sum of all other components, with the location exclusion score ``exclusion``.
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
        """Compute the rounding errors of such scores, those of each spread (spreads by moves)."""
        doubts = self.doubts[:, np.newaxis]
        variances = np.maximum(np.maximum(self._variances(changes, squares), 0.0) + doubts, TINIEST)
        errors: Floats = (self.weights * self.doubts)[:, np.newaxis] / np.sqrt(variances)
        return errors

    def chords(self, own: Span, new: Span) -> Chords:
        """Choose the slopes of chords over the ranges of own and new parts (kinds of moves by spreads)."""
        low, high, _ = self._range(self.means, own, new)
        lowest, highest = low.min(axis=0, initial=np.inf), high.max(axis=0, initial=0.0)
        roots = np.maximum(np.sqrt(lowest) + np.sqrt(highest), np.sqrt(self.doubts))
        slopes = np.where(roots > 0, self.weights / np.where(roots > 0, roots, 1.0), 0.0)
        return Chords(slopes / self.numbers, self.means, self.numbers)

    def starts(self, chords: Chords, own: Span, new: Span) -> Floats:
        """Compute the starts of bounds, for the ranges of own and new parts (kinds of moves by spreads)."""
        low, high, least = self._range(chords.means, own, new)
        slopes = chords.slopes * self.numbers
        ends = (self.weights * np.sqrt(variance) - slopes * variance for variance in (low, high))
        starts: Floats = (np.minimum(*ends) + slopes * least).sum(axis=-1) + self.rest
        return starts

    def _range(self, means: Floats, own: Span, new: Span) -> tuple[Floats, Floats, Floats]:
        """Compute the lowest and highest variance after moves, whose squares are about ``means``.

        Also returns the lowest variance without what belongs to a part alone.
        """
        ends, others = np.stack([own.least, own.most]), np.stack([new.least, new.most])
        products = np.concatenate([ends * others, ends * others[::-1]]) / self.numbers
        drifts = (self.means - means) * (ends + others)
        least, most = (
            self.deviation.variance - 2 / self.numbers * (end(products, axis=0) + end(drifts, axis=0))
            for end in (np.max, np.min)
        )
        low = np.maximum(least + (own.low + new.low) / self.numbers, 0.0)
        return low, np.maximum(most + (own.high + new.high) / self.numbers, low), least
