"""What policies want to know of changes in the cluster: what moved, which nodes came and went, lost N+1."""

from collections.abc import Iterator

from ganeti_htools.engine.redundancy.n1 import bad_nodes
from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.tags import SQUEEZING
from ganeti_htools.planning.view import View, state_of
from htoolsd.sync.model import Model


def moved(before: Cluster, now: Cluster) -> Iterator[str]:
    """Instances on other nodes than before; those that were not there before have not moved."""
    places = {instance.name: (instance.pnode, instance.snode) for instance in before.instances}
    for instance in now.instances:
        place = instance.pnode, instance.snode
        if places.get(instance.name, place) != place:
            yield instance.name


def drained(model: Model) -> list[str]:
    """Nodes that somebody has drained: not those that are, or were to be, powered down."""
    nodes = model.cluster.nodes if model.cluster else ()
    return [node.name for node in nodes if node.drained and not _leaving(node)]


def _leaving(node: Node) -> bool:
    return node.drained and SQUEEZING in node.tags


def back(before: Cluster, now: Cluster) -> list[str]:
    """Nodes that were offline or drained, and are not any more; those aside that were drained to be powered
    down and have stayed.
    """
    away = {node.name for node in before.nodes if node.offline and not _leaving(node)}
    return [node.name for node in now.nodes if not node.offline and node.name in away]


def lost(cluster: Cluster) -> set[str]:
    """Names of the node groups in which nodes fail N+1. Raises HtoolsError."""
    state = state_of(cluster, View())
    bad = bad_nodes(state, state.group == state.group)
    return {cluster.groups[row].name for row in state.group[bad].tolist()}


def events(before: Model, now: Model) -> Iterator[str]:
    """Why policies should look at once: nodes that were drained, or are back."""
    then, here = drained(before), drained(now)
    yield from (f"node {name} was drained" for name in here if name not in then)
    if before.cluster is not None and now.cluster is not None:
        yield from (f"node {name} is back" for name in back(before.cluster, now.cluster))
