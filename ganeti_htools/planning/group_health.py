"""Health of the node groups of a cluster, in the words of ``hregroup(1)``."""

from typing import Any

import numpy as np

from ganeti_htools.engine.groups.diagnosis import diagnose, reasons
from ganeti_htools.engine.redundancy import health as redundancy_health
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.planning import view
from ganeti_htools.planning.view import View


def group_health(cluster: Cluster) -> list[dict[str, Any]]:
    """Report each group that has nodes, with its health and the reasons, as JSON."""
    state, found = view.state_of(cluster, View()), []
    for row in redundancy_health.groups(state):
        scope = state.group == row
        fragile = tuple(np.flatnonzero(redundancy_health.fragile_nodes(state, scope)).tolist())
        ill = diagnose(state, scope, fragile)
        why = list(reasons(state, ill))
        found.append({"name": cluster.groups[row].name, "health": ill.word, "why": why})
    return found
