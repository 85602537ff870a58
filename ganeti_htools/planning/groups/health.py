"""Health and scores of the node groups of a cluster, in the words of ``hregroup(1)``."""

from collections.abc import Iterable
from math import isfinite
from typing import Any

import numpy as np

from ganeti_htools.engine.groups.diagnosis import diagnose, reasons, shared_tags
from ganeti_htools.engine.redundancy.health import groups
from ganeti_htools.engine.redundancy.recoverability import unrecoverable
from ganeti_htools.engine.rules import choice
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.state import State
from ganeti_htools.planning import view
from ganeti_htools.planning.view import View


def group_health(cluster: Cluster) -> list[dict[str, Any]]:
    """Report each group that has nodes, with its size, health with reasons, and score, as JSON."""
    return health_of(view.state_of(cluster, View()))


def health_of(state: State) -> list[dict[str, Any]]:
    """Report each group of a state as :func:`group_health` does."""
    cluster, found = state.cluster, []

    def instance_names(rows: Iterable[int]) -> list[str]:
        return [cluster.instances[row].name for row in rows]

    for row in groups(state):
        scope = state.group == row
        ill = diagnose(state, scope, unrecoverable(state, scope))
        found.append(
            {
                "name": cluster.groups[row].name,
                "nodes": int(np.count_nonzero(scope)),
                "instances": int(np.count_nonzero(scope[state.pnode])),
                "health": ill.word,
                "why": list(reasons(state, ill)),
                "failing": state.names(ill.failing),
                "pressing": instance_names(ill.pressing),
                "unrecoverable": {
                    "nodes": state.names(ill.fragile),
                    "instances": instance_names(
                        each for each in ill.unrecoverable if int(state.pnode[each]) in ill.fragile
                    ),
                },
                "conflicting": {
                    "nodes": state.names(ill.conflicting),
                    "tags": shared_tags(state, ill.conflicting),
                },
                **weighted_score(state, scope),
            }
        )
    return found


def weighted_score(state: State, scope: Bools) -> dict[str, Any]:
    """Return the score and its weighted components; None for what is no number."""
    if not (scope & ~state.columns.offline).any():
        return {"score": None, "components": {}}
    figures = choice.base(state, scope)
    parts = zip(figures.names, figures.weights, figures.components(), strict=True)
    return {
        "score": _finite(float(figures.score())),
        "components": {name: _finite(weight * float(value)) for name, weight, value in parts if weight},
    }


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
