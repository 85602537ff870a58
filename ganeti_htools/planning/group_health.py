"""Health of the node groups of a cluster, in the words of ``hregroup(1)``."""

from collections.abc import Iterable
from typing import Any

from ganeti_htools.engine.groups.diagnosis import diagnose, reasons, shared_tags
from ganeti_htools.engine.redundancy.health import groups
from ganeti_htools.engine.redundancy.recoverability import unrecoverable
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.planning import view
from ganeti_htools.planning.view import View


def group_health(cluster: Cluster) -> list[dict[str, Any]]:
    """Report each group that has nodes, with its health and the reasons, as JSON."""
    state, found = view.state_of(cluster, View()), []

    def instance_names(rows: Iterable[int]) -> list[str]:
        return [cluster.instances[row].name for row in rows]

    for row in groups(state):
        scope = state.group == row
        ill = diagnose(state, scope, unrecoverable(state, scope))
        found.append(
            {
                "name": cluster.groups[row].name,
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
            }
        )
    return found
