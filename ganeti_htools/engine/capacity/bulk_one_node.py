"""Bulk allocation of instances with one node."""

from typing import Any

import numpy as np

from ganeti_htools.engine.capacity.bulk_search import BulkSearch, InstanceNodes
from ganeti_htools.engine.rules import choice
from ganeti_htools.engine.rules.components import COUNT, SPREAD
from ganeti_htools.engine.rules.deviation import Deviation
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.score import weighted
from ganeti_htools.model.columns import Bools, Columns, Floats, Ints
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail

# How many values are looked at in one go when candidates that lie close together are scored afresh.
BATCH = 1 << 20


class OneNodeSearch(BulkSearch):
    """Instances with one node: Ganeti's htools compute the score of every candidate from nothing.

    ``further`` are the figures of candidates with two more instances, ``ahead`` the table then. They are
    computed for many candidates at a time; ``stale`` marks those for which they are out of date.
    """

    def __init__(self, state: State, asked: RequestedInstance, nodes: Ints) -> None:
        super().__init__(state, asked, nodes)
        self.further, self.ahead = self.after.copy(), np.empty_like(self.table)
        self.stale = np.ones(len(nodes), np.bool_)

    @property
    def candidates(self) -> int:
        return len(self.nodes)

    def best(self, allowed: Bools | None = None) -> InstanceNodes | None:
        """The best ``allowed`` place for the next instance, None without any; all unless given."""
        fits = self.codes == FITS
        fits = np.flatnonzero(fits if allowed is None else fits & allowed)
        if not len(fits):
            return None
        _, *now = Deviation.of(self.now, self.looked)
        before = Deviation(*(each[:, np.newaxis] for each in (self.sizes, *now)))
        _, sums, variances = before.after(self.primary.change[:, fits], self.primary.squares[:, fits])
        scores = self._scores(sums, np.maximum(variances, 0.0))
        near = fits[choice.near_best(scores)]
        if len(near) > 1:
            fresh = self.afresh(near)
            # Ganeti's htools take the first if no score is a number.
            near = near[[0]] if np.isnan(fresh).all() else near[fresh == np.fmin.reduce(fresh)]
        return InstanceNodes(int(self.nodes[near[-1]]))

    def settle(self, nodes: InstanceNodes) -> None:
        """Carry out a placement but for the list of instances."""
        at = int(np.searchsorted(self.nodes, nodes.primary))
        if self.stale[at]:
            self._look_ahead(np.flatnonzero(self.stale))
        self.write(at)
        self.after.put(at, self.further, at)
        self.now[:, self.position[at]] = self.primary.then[:, at]
        self.table[:, at], self.stale[at] = self.ahead[:, at], True

    def _look_ahead(self, candidates: Ints) -> None:
        """Find the outcomes of some candidates that have the next instance already."""
        old, x = self.after.take(candidates), self.primary.then[:, candidates]
        new, self.ahead[:, candidates] = self.outcomes(candidates, old, x)
        self.after, self.further = (each.apart(new.aliases) for each in (self.after, self.further))
        self.further.put(candidates, new, slice(None))
        self.stale[candidates] = False

    def restore(self, columns: Columns, nodes: Ints) -> None:
        """Give some nodes (rows) the figures that they had before."""
        self.state.columns, candidates = columns, np.searchsorted(self.nodes, nodes)
        self.look(candidates)
        self.stale[candidates] = True

    def afresh(self, candidates: Ints) -> Floats:
        """The scores of some candidates, computed from nothing."""
        scores = np.empty(len(candidates))
        number = max(1, BATCH // self.now.size)
        for start in range(0, len(candidates), number):
            some = candidates[start : start + number]
            values = np.repeat(self.now[:, np.newaxis], len(some), axis=1)
            values[:, np.arange(len(some)), self.position[some]] = self.primary.then[:, some]
            looked = None if self.looked is None else self.looked[:, np.newaxis]
            _, sums, variances = Deviation.of(values, looked)
            scores[start : start + number] = self._scores(sums, variances)
        return scores

    def _scores(self, sums: Floats, variances: Floats) -> Any:
        """The scores of candidates, from sums and variances of each row of ``now`` (rows by candidates)."""
        roots = np.sqrt(variances)
        values = [
            roots[row] if aggregate is SPREAD else sums[row] if aggregate is COUNT else steady
            for aggregate, row, steady in zip(
                self.score_table.aggregates, self.row_of, self.steady, strict=True
            )
        ]
        return weighted(self.weights, values, roots.shape[1:])

    def failures(self) -> dict[Fail, int]:
        return self.tally(self.codes)
