"""What policies want to know of changes in the cluster: what has moved, which nodes came and went."""

from collections.abc import Iterator

from ganeti_htools.model.cluster import Cluster
from htoolsd.sync.model import Model


def moved(before: Cluster, now: Cluster) -> Iterator[str]:
    """Instances on other nodes than before; those that were not there before have not moved."""
    places = {instance.name: (instance.pnode, instance.snode) for instance in before.instances}
    for instance in now.instances:
        place = instance.pnode, instance.snode
        if places.get(instance.name, place) != place:
            yield instance.name


def drained(model: Model) -> list[str]:
    """Nodes that are drained."""
    nodes = model.answers.nodes if model.answers else ()
    return [str(row.values["name"]) for row in nodes if row.values.get("drained")]


def events(before: Model, now: Model) -> Iterator[str]:
    """Why policies should look at once: nodes that were drained, or are back."""
    then, here = drained(before), drained(now)
    yield from (f"node {name} was drained" for name in here if name not in then)
    if before.cluster is not None and now.cluster is not None:
        away = {node.name for node in before.cluster.nodes if node.offline}
        yield from (
            f"node {node.name} is back"
            for node in now.cluster.nodes
            if not node.offline and node.name in away
        )
