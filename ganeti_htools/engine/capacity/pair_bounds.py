"""Lower bounds of the scores of pairs: a part of the primary plus a part of the secondary.

With both, a spread has the variance with the primary alone, plus a part of the secondary, less 2 a b / n^2:
a and b are what each adds to the sum of the n values. The last part is small and has a known range. The
deviation is a concave function of the variance. So it is not below the chord over the range of variances,
which is linear.
"""

from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.rules.deviation import Deviation
from ganeti_htools.model.columns import Bools, Floats

ROUNDING = 1e-13  # of a variance, as a share of the squares that it comes from


class PairWeights(NamedTuple):
    """The weights of the parts of a pair's score.

    * ``both``: spreads that both nodes change (a column vector)
    * ``one``: other spreads
    * ``sums``: counts with the primary
    * ``counts``: what the secondary adds to counts

    ``rest`` is the constant part of the score.
    """

    both: Floats
    one: Floats
    sums: Floats
    counts: Floats
    rest: float


class PairBounds(NamedTuple):
    """The parts of primaries and of secondaries."""

    primaries: Floats
    secondaries: Floats

    def within(self, limit: float) -> tuple[Bools, Bools]:
        """The primaries and secondaries of the pairs that may be within a limit; all if it is no number."""
        limit += 1e-9 * max(1.0, abs(limit))
        return (
            ~(self.primaries + self.secondaries.min() > limit),
            ~(self.secondaries + self.primaries.min() > limit),
        )


def pair_bounds(
    weights: PairWeights,
    before: Deviation,
    spreads: list[int],
    sums: Floats,
    variances: Floats,
    change: Floats,
    squares: Floats,
    counts: Floats,
) -> PairBounds:
    """Bound the scores of pairs.

    ``before`` are the present statistics (rows by 1), ``spreads`` the rows that both nodes change. ``sums``
    and ``variances`` (rows by primaries) are those with the primary. The others (by secondaries) are the
    changes by the secondary: of spreads, of their squares, and of counts.
    """
    n, total, with_one = before.number[spreads], before.sum[spreads], variances[spreads]
    more = (squares - change * (2 * total + change) / n) / n
    both = np.abs(sums[spreads] - total).max(axis=1) * np.abs(change).max(axis=1) / n[:, 0] ** 2
    scale = (total / n)[:, 0] ** 2 + with_one.max(axis=1) + np.abs(more).max(axis=1)
    off = (2 * both + ROUNDING * scale)[:, np.newaxis]
    low = np.fmax(with_one.min(axis=1, keepdims=True) + more.min(axis=1, keepdims=True) - off, 0.0)
    high = with_one.max(axis=1, keepdims=True) + more.max(axis=1, keepdims=True) + off
    slopes = weights.both / (np.sqrt(low) + np.sqrt(high))
    start = (weights.both * np.sqrt(low) - slopes * (low + off)).sum() + weights.rest
    slopes = slopes[:, 0]
    primaries = slopes @ with_one + weights.one @ np.sqrt(variances) + weights.sums @ sums
    return PairBounds(primaries + start, slopes @ more + weights.counts @ counts)
