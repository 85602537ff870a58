"""A standard deviation as running figures: the number of values, their sum and their variance.

A changed value costs the same however many values there are, and one call updates many deviations for many
candidates. The arithmetic and its order are those of Ganeti's htools (``src/Ganeti/HTools/`` and
``Utils/Statistics.hs``), so that scores and ties agree to the last bit.
"""

from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.model.columns import Bools, Floats


class Deviation(NamedTuple):
    """The number of values, their sum and their variance: numbers, or arrays that broadcast.

    Leading dimensions have any meaning: score components, node losses, candidates.
    """

    number: Any
    sum: Any
    variance: Any

    @classmethod
    def of(cls, values: Floats, counted: Bools | None = None) -> "Deviation":
        """The deviation along the last axis, added up from left to right, of the values that are ``counted``.

        Without any value the number is 1, sum and variance are 0.
        """
        n: Any = float(values.shape[-1]) or 1.0
        if counted is not None:
            n, values = np.maximum(np.count_nonzero(counted, axis=-1), 1.0), np.where(counted, values, 0.0)
        sums = sum_in_order(values)
        centred = values - (sums / n)[..., np.newaxis]
        if counted is not None:
            centred *= counted
        centred *= centred
        return cls(n, sums, sum_in_order(centred) / n)

    def after(self, change: Any, squares: Any) -> "Deviation":
        """The deviation after values have changed.

        ``change`` is what that adds to the sum of the values, ``squares`` what it adds to the sum of their
        squares. Rounding may leave the variance a little below 0.
        """
        variance = self.number * squares - 2 * self.sum * change
        variance -= change * change
        variance /= self.number * self.number
        variance += self.variance
        return Deviation(self.number, self.sum + change, variance)

    def replaced(self, x: Any, y: Any) -> "Deviation":
        """The deviation after one value (of each candidate, one) has changed from ``x`` to ``y``.

        The variance is at least 0, also where it is no number: Ganeti's htools do the same.
        """
        number, total, variance = self.after(y - x, y * y - x * x)
        if np.ndim(variance) == 0:
            return Deviation(number, total, max(0.0, variance))
        return Deviation(number, total, np.fmax(variance, 0.0, out=variance))


def sum_in_order(values: Floats) -> Floats:
    """Sums along the last axis, added up from left to right."""
    if not values.shape[-1]:
        return np.zeros(values.shape[:-1])
    total: Floats = np.add.accumulate(values, axis=-1)[..., -1]
    return total
