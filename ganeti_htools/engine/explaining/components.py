"""Scores of candidates with their components."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.engine.rules.trial import NodeChange, updated
from ganeti_htools.model.columns import Floats


def scored(
    base: Statistics, touched: Iterable[NodeChange], exclusion: Any, shape: tuple[int, ...]
) -> tuple[Floats, list[Floats]]:
    """Compute scores, and their components (unweighted), of candidates that touch some nodes in ``base``.

    ``exclusion`` is the change of the location exclusion score. A component that is no number in ``base``
    stays so.
    """
    after = updated(base, touched, exclusion)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        spreads = zip(after.variances, base.variances, strict=True)
        after = replace(after, variances=tuple(old if np.isnan(old) else new for new, old in spreads))
        parts = [np.broadcast_to(part, shape) for part in after.components()]
        return np.broadcast_to(after.score(), shape), parts
