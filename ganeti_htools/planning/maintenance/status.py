"""Nodes in maintenance, what is on them, and who would return (``hmaintain(1)``)."""

from typing import Any

import numpy as np

from ganeti_htools.engine.maintenance.following import ways_to
from ganeti_htools.engine.maintenance.returning import lost_now
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.maintenance_tags import maintenance_of
from ganeti_htools.model.state import State
from ganeti_htools.planning.maintenance.hmaintain import homes_on


def nodes_in_maintenance(cluster: Cluster) -> list[dict[str, str]]:
    """Return each node in maintenance, since when, by whom and why, as JSON."""
    facts = {node.name: maintenance_of(node.tags) for node in cluster.nodes if node.in_maintenance}
    return [
        {"name": name, "since": each.since, "by": each.by, "reason": each.reason}
        for name, each in facts.items()
    ]


def rolls(cluster: Cluster) -> list[dict[str, Any]]:
    """Return each unfinished roll: TIME:USER, the nodes on which it is done, and where it works, as JSON."""
    facts = {node.name: maintenance_of(node.tags) for node in cluster.nodes}
    names = sorted({name for each in facts.values() for name in (each.roll, each.rolled) if name})
    return [
        {
            "name": name,
            "done": [node for node, each in facts.items() if each.rolled == name],
            "working": [node for node, each in facts.items() if each.roll == name != each.rolled],
        }
        for name in names
    ]


def maintenance_status(state: State) -> dict[str, Any]:
    """Report the nodes in maintenance, and the online nodes that could not be lost now, as JSON."""
    cluster, lost = state.cluster, lost_now(state)
    hosts = np.isin(np.arange(len(state.group)), state.pnode[lost])
    return {
        "nodes": [
            facts | _node(state, state.nodes[facts["name"]]) for facts in nodes_in_maintenance(cluster)
        ],
        "rolls": rolls(cluster),
        "away": _away(state),
        "fragile": state.names(np.flatnonzero(hosts & ~state.columns.offline).tolist()),
    }


def _away(state: State) -> list[str]:
    """Name the instances that are not at home although no maintenance keeps them away."""
    nodes, rows = state.cluster.nodes, range(len(state.cluster.nodes))
    away = {
        index
        for index, home in homes_on(state, rows).items()
        if not any(node != NOWHERE and nodes[node].in_maintenance for node in home)
        and (home[0] == NOWHERE or ways_to(state, index, home) != [()])
    }
    return state.instance_names(sorted(away))


def _node(state: State, row: int) -> dict[str, Any]:
    node, instances = state.cluster.nodes[row], state.cluster.instances
    facts = maintenance_of(node.tags)
    home = {index: nodes for index, nodes in homes_on(state, [row]).items() if row in nodes}
    away = [
        index
        for index, nodes in home.items()
        if nodes[0] == NOWHERE or ways_to(state, index, nodes) not in ([], [()])
    ]
    return {
        "drained": facts.drained,
        "runs": list(facts.runs),
        "primaries": [each.name for each in instances if each.pnode == node.name],
        "secondaries": [each.name for each in instances if each.snode == node.name],
        "returning": [instances[index].name for index in away],
    }
