"""Bulk allocation of instances with one node."""

from typing import Any

import numpy as np

from ganeti_htools.engine.capacity.bulk_search import (
    STEADY,
    BulkSearch,
    Nodes,
    replaced,
    spread_statistics,
)
from ganeti_htools.engine.rules import choice
from ganeti_htools.engine.rules.components import (
    AGGREGATES,
    COUNT,
    SPREAD,
    WEIGHTS,
)
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.columns import Floats, Ints
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.types import Fail

# How many values are looked at in one go when candidates that lie close together are scored afresh.
BATCH = 1 << 20


class OneNodeSearch(BulkSearch):
    """Instances with one node: Ganeti's htools compute the score of every candidate from nothing."""

    def __init__(self, state: State, asked: Asked, nodes: Ints) -> None:
        super().__init__(state, asked, nodes)
        self.look(range(len(nodes)))

    def best(self) -> Nodes | None:
        """Where the next instance goes, if anywhere."""
        fits = np.flatnonzero(self.codes == FITS)
        if not len(fits):
            return None
        sums, variances = self.statistics()
        _, change, squares = self.later
        column = sums[:, np.newaxis], variances[:, np.newaxis]
        sums, variances = replaced(*column, self.size, change[:, fits], squares[:, fits])
        scores = self._scores(sums, np.maximum(variances, 0.0))
        near = fits[choice.near_best(scores)]
        if len(near) > 1:
            fresh = self._afresh(near)
            # Ganeti's htools take the first if no score is a number.
            near = near[[0]] if np.isnan(fresh).all() else near[fresh == np.fmin.reduce(fresh)]
        return Nodes(int(self.nodes[near[-1]]))

    def _afresh(self, candidates: Ints) -> Floats:
        scores = np.empty(len(candidates))
        number = max(1, BATCH // self.now.size)
        for start in range(0, len(candidates), number):
            some = candidates[start : start + number]
            values = np.repeat(self.now[:, np.newaxis], len(some), axis=1)
            values[:, np.arange(len(some)), self.position[some]] = self.later[0][:, some]
            scores[start : start + number] = self._scores(*spread_statistics(values, self.size))
        return scores

    def _scores(self, sums: Any, variances: Any) -> Any:
        roots = np.sqrt(variances)
        total: Any = 0.0
        for which, (aggregate, weight) in enumerate(zip(AGGREGATES, WEIGHTS, strict=True)):
            row = self.row_of[which]
            if aggregate is SPREAD:
                total = total + weight * roots[row]
            elif aggregate is COUNT and which not in STEADY:
                total = total + weight * sums[row]
            else:
                total = total + weight * self.steady[which]
        return total

    def failures(self) -> dict[Fail, int]:
        """How many candidates each reason rules out."""
        return self.tally(self.codes)
