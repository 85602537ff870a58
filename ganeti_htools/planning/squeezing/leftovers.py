"""Nodes that an interrupted run of ``hsqueeze`` left drained or offline.

A node has the tag :data:`.SQUEEZING` from the first job on it until the last. Other nodes that are drained or
offline belong to somebody else, and stay as they are.
"""

from dataclasses import dataclass, replace

from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.tags import SQUEEZING, STANDBY_AUTO


@dataclass(frozen=True, slots=True)
class SqueezeLeftovers:
    """Nodes of an interrupted run.

    * ``drained``: drained for the plan, not offline yet.
    * ``offline``: offline and empty.
    * ``online``: online, but still tagged.
    """

    drained: tuple[Node, ...]
    offline: tuple[Node, ...]
    online: tuple[Node, ...]

    def __str__(self) -> str:
        """Describe the nodes; empty if there are none."""
        kinds = {"drained": self.drained, "offline": self.offline, "online and still tagged": self.online}
        return ", ".join(f"{node.name} is {kind}" for kind, nodes in kinds.items() for node in nodes)


def find_leftovers(cluster: Cluster) -> SqueezeLeftovers:
    """Find the nodes of an interrupted run, in a cluster as Ganeti reports it or :func:`before_drain`."""
    used = {name for row in cluster.instances for name in (row.pnode, row.snode)}
    ours = [node for node in cluster.nodes if SQUEEZING in node.tags]
    return SqueezeLeftovers(
        tuple(node for node in ours if node.drained),
        tuple(node for node in ours if node.offline and not node.drained and node.name not in used),
        tuple(node for node in cluster.nodes if not (node.offline or node.drained) and tags_of(node)),
    )


def tags_of(node: Node) -> list[str]:
    """Return the tags of a node that hsqueeze has set."""
    return [tag for tag in (SQUEEZING, STANDBY_AUTO) if tag in node.tags]


def before_drain(cluster: Cluster) -> Cluster:
    """Return the cluster with the drained nodes of an interrupted run in use again."""
    reporting = (node for node in find_leftovers(cluster).drained if node.t_mem > 0)
    drained = {node.name for node in reporting}
    rows = (replace(node, offline=node.offline and node.name not in drained) for node in cluster.nodes)
    return replace(cluster, nodes=tuple(rows)) if drained else cluster
