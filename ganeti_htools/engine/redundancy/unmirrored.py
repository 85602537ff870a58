"""Redundancy where an instance only gets a secondary: it counts as what it still is without."""

from dataclasses import dataclass, replace

import numpy as np

from ganeti_htools.engine.redundancy.global_n1 import Check, Redundancy
from ganeti_htools.engine.redundancy.node_loss import all_can_be_lost, can_be_lost
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import Bools, Ints
from ganeti_htools.model.state import RequestedInstance


@dataclass(frozen=True, slots=True)
class Unmirrored(Check):
    """A :class:`.global_n1.Check`; ``before`` is of the state in which the instance has no secondary."""

    before: Redundancy

    def admits(self, asked: RequestedInstance, primaries: Ints, secondaries: Ints | None) -> Bools:
        """As :class:`.global_n1.Check` says."""
        assert secondaries is not None
        return np.full((len(primaries), len(secondaries)), not self.before.missing)

    def confirms(self, trial: Trial, suspects: list[int]) -> bool:
        """As :class:`.global_n1.Check` says: nodes have the figures they get, the instance is what it was."""
        asked, primary, secondary = trial.asked, int(trial.pnode[0]), int(trial.snode[0])
        unsettled = self.before.unsettled(replace(asked, record_mem=0), primary).tolist()
        state = self.before.state.copy()
        for node in trial.changes:
            state.columns.put(int(node.rows[0]), node.new)
        if not asked.forthcoming:
            state.peers[primary, secondary] += asked.secondary_mem
            for peers, kept in zip(state.class_peers, asked.secondary_classes, strict=True):
                peers[primary, secondary] += kept
        known = self.before
        return all_can_be_lost(
            lambda node: can_be_lost(state, node, known.scope, known.arrivals), unsettled, suspects
        )

    def hopeless(self, suspects: list[int]) -> bool:
        """As :class:`.global_n1.Check` says."""
        return self.before.hopeless(suspects)
