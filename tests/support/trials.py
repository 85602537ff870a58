"""New instances tried wherever they could go."""

import numpy as np

from ganeti_htools.engine.rules import placements
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.state import State


def anew(state: State, new: Instance) -> Trial:
    """A new instance, as the first group makes it, on all nodes or pairs of nodes."""
    asked, rows = state.with_disk_defaults(0, state.requested_instance(new)), np.arange(len(state.group))
    if not asked.mirrored:
        return placements.allocate_one(state, asked, rows, np.ones(len(rows), np.bool_))
    p, s = np.nonzero(rows[:, np.newaxis] != rows)
    return placements.allocate_pairs(state, asked, p, s, state.peers[p, s])
