"""A placement tried on all candidates at once: reasons against each, and the nodes afterwards."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ganeti_htools.engine.rules.node_rules import Codes
from ganeti_htools.engine.rules.score import Statistics, node_values
from ganeti_htools.model.columns import Columns, Floats, Ints, existing
from ganeti_htools.model.state import RequestedInstance

# Elements in a block of pairs, so that its arrays stay in the processor's cache.
BLOCK = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class NodeChange:
    """The change of a node: of one node (``rows`` has one row), or of another node for each candidate.

    ``old`` and ``new`` are the columns of ``rows`` before and after. Several placements may share a change.
    """

    rows: Ints
    old: Columns
    new: Columns


def updated(base: Statistics, changes: Iterable[NodeChange], exclusion: Any) -> Statistics:
    """Update the statistics by changes of nodes, and of the location exclusion score, for each candidate."""
    sums = list(base.sums)
    sums[base.table.location_exclusion] = sums[base.table.location_exclusion] + exclusion
    base = replace(base, sums=tuple(sums))
    with np.errstate(invalid="ignore", over="ignore"):  # nodes that report nothing
        for node in changes:
            old = node_values(node.old)
            base = base.replaced(old, node_values(node.new, (node.old, old)), node.old.offline)
    return base


@dataclass(frozen=True, slots=True)
class Trial:
    """An instance tried with ``pnode`` and ``snode``: rows, one for all candidates or one for each.

    * ``codes``: for each candidate the reason against it, FITS if there is none.
    * ``changes``: the changes of the nodes concerned.
    * ``location_exclusion``: the change of the location exclusion score.
    """

    asked: RequestedInstance
    codes: Codes
    pnode: Ints
    snode: Ints
    changes: tuple[NodeChange, ...]
    location_exclusion: Any = 0.0

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes of the first candidate, primary first."""
        return existing(self.pnode[0], self.snode[0])

    def scores(self, base: Statistics) -> Floats:
        """Compute the score of each candidate, whether it fits or not."""
        *first, last = self.changes
        base = updated(base, first, self.location_exclusion)
        with np.errstate(invalid="ignore", over="ignore"):  # nodes that report nothing
            old, offline = node_values(last.old), last.old.offline
            new = node_values(last.new, (last.old, old))
            if self.codes.ndim < 2:
                return np.broadcast_to(base.replaced(old, new, offline).score(), self.codes.shape)
            scores = np.empty(self.codes.shape)
            rows = max(1, BLOCK * len(scores) // max(1, scores.size))
            for start in range(0, len(scores), rows):
                block = slice(start, start + rows)
                changed = base.rows(block).replaced(old, new.rows(block), offline)
                scores[block] = changed.score()
            return scores

    def only(self, candidate: int) -> "Trial":
        """Select one candidate, ready to be settled."""
        return self if self.codes.size == 1 else self.take(slice(candidate, candidate + 1))

    def take(self, which: Any) -> "Trial":
        def pick(values: Any) -> Any:
            return values[which] if len(values) > 1 else values

        return Trial(
            self.asked,
            pick(self.codes),
            pick(self.pnode),
            pick(self.snode),
            tuple(
                NodeChange(pick(node.rows), node.old.map(pick), node.new.map(pick)) for node in self.changes
            ),
            pick(np.atleast_1d(self.location_exclusion)),
        )
