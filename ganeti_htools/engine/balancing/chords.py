"""Linear lower bounds of the scores of moves, which stay valid while other moves are made.

``docs/engine.md`` has an example with numbers.

A move changes the sum of a spread's n values by c, and the sum of their squares about a mean by z. So it
changes the variance by z/n - (c/n)^2. Both c and z are sums of a part of the nodes that are left (own) and a
part of the new node.

The deviation is a concave function of the variance. A line that is not above it at both ends of a range of
variances is not above it in between, whatever its slope. So a bound is linear in the variance, with any
slope: only the closeness of the bound depends on the slope. Slopes are those of the chord over the range, at
the step for which they were chosen.

With fixed slopes, and squares about fixed means, both parts of a bound hold until a move touches their nodes:

* An own part has z - c^2/n of the own nodes, a new part the same of the new node.
* The rest of the square is 2 c c'/n, for own and new part. Its range follows from the ranges of c and c'.
* Where the mean has drifted by d since, z is off by 2 d (c + c'), whose range follows in the same way.

All that a step changes for moves of untouched nodes is thus in one figure for all moves of a kind, the start
of their bounds: it follows from the present variances, means and ranges (:meth:`.Baseline.starts`).
"""

from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.model.columns import Bools, Floats


class Span(NamedTuple):
    """Ranges of parts of moves: of z - c^2/n (``low``, ``high``) and of c (``least``, ``most``).

    The last axis is that of spreads. Without any parts, lows are infinite and highs minus infinite.
    """

    low: Floats
    high: Floats
    least: Floats
    most: Floats

    @classmethod
    def none(cls, *shape: int) -> "Span":
        """Return the ranges of no moves."""
        nothing = np.full(shape, np.inf)
        return cls(nothing, -nothing, nothing, -nothing)

    @classmethod
    def of(cls, squares: Floats, changes: Floats, where: Any = True) -> "Span":
        """Compute the ranges of some parts (spreads by parts)."""
        every = np.all(where)
        return cls(
            *(
                end.reduce(values if every else np.where(where, values, initial), axis=-1, initial=initial)
                for values in (squares, changes)
                for end, initial in ((np.minimum, np.inf), (np.maximum, -np.inf))
            )
        )

    def covering(self, other: "Span") -> "Span":
        return Span(
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            np.minimum(self.least, other.least),
            np.maximum(self.most, other.most),
        )

    def take(self, which: Bools) -> "Span":
        return Span(*(figures[which] for figures in self))


class Chords(NamedTuple):
    """Slopes of weighted deviations by sums of squares, the means that squares are about, and each n."""

    slopes: Floats
    means: Floats
    numbers: Floats

    def squares(self, changes: Floats, squares: Floats) -> Floats:
        """Compute z - c^2/n of parts (spreads by parts), from their squares about the centre."""
        means, numbers = self.means[:, np.newaxis], self.numbers[:, np.newaxis]
        drop: Floats = changes / numbers
        drop += 2 * means
        drop *= changes
        return np.subtract(squares, drop, out=drop)
