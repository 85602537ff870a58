"""Linear bounds of a search for moves, kept from step to step."""

from collections.abc import Mapping, Sequence

import numpy as np

from ganeti_htools.engine.balancing.baseline import Baseline
from ganeti_htools.engine.balancing.chords import Chords, Span
from ganeti_htools.engine.balancing.new_nodes import NewNodes
from ganeti_htools.engine.balancing.own_nodes import OwnNodesByKind
from ganeti_htools.model.columns import Bools

OLDEST = 24  # steps for which slopes are kept
# Slopes are chosen anew when bounds have let pass so many moves for each instance.
PASSED = 2.0


class KeptBounds:
    """Bounds of the moves of all batches: own parts and new parts, each with the nodes' changes."""

    def __init__(
        self, own: Sequence[OwnNodesByKind], new: Sequence[Mapping[bool, NewNodes]], instances: int
    ) -> None:
        self.own, self.new, self.instances = own, new, instances
        self.chords: Chords | None = None
        self.steps = self.passed = 0

    def update(self, baseline: Baseline) -> None:
        """Bring all bounds up to date for the next step."""
        if not self.own:
            return
        self.steps += 1
        if self.chords is None:
            level = Chords(np.zeros_like(baseline.means), baseline.means, baseline.numbers)
            self._update(level, baseline)
            self._renew(baseline)
        else:
            self._update(self.chords, baseline)
            if self.steps > OLDEST or self.passed > PASSED * self.instances:
                self._renew(baseline)
        assert self.chords is not None
        for own, new in zip(self.own, self.new, strict=True):
            own.every.start[:, 0] = baseline.starts(self.chords, *_spans(own, new))

    def _renew(self, baseline: Baseline) -> None:
        """Choose slopes by the present ranges and variances."""
        spans = [_spans(own, new) for own, new in zip(self.own, self.new, strict=True)]
        own, new = (Span(*map(np.concatenate, zip(*each, strict=True))) for each in zip(*spans, strict=True))
        some: Bools = np.isfinite(own.low[..., 0])
        self.chords = baseline.chords(own.take(some), new.take(some))
        self.steps = self.passed = 0
        self._update(self.chords, baseline)

    def _update(self, chords: Chords, baseline: Baseline) -> None:
        for own, new in zip(self.own, self.new, strict=True):
            own.bound(chords, baseline.heights)
            for each in new.values():
                each.bound(chords, baseline.heights)


def _spans(own: OwnNodesByKind, new: Mapping[bool, NewNodes]) -> tuple[Span, Span]:
    """Find the ranges of own and new parts for each kind of moves (kinds by spreads)."""
    nothing = Span(*np.zeros((4, own.span.low.shape[-1])))
    spans = [new[kind.to_primary].span if kind.takes_node and new else nothing for kind in own.kinds]
    return own.span, Span(*np.array(spans).swapaxes(0, 1))
