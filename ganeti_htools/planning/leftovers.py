"""What a run of ``hsqueeze`` that was cut off has left: nodes that it drained or marked offline, and no more.

A node has the tag :data:`.SQUEEZING` from the first job on it until the last. Other nodes that are drained or
offline are somebody else's, and stay as they are.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.tags import SQUEEZING, STANDBY_AUTO

if TYPE_CHECKING:
    from ganeti_htools.execution.jobs import Jobsets


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Nodes that were ``drained`` for a plan and are not offline yet, that are ``offline`` and empty, and
    that are ``online`` but still have a tag of nodes that are not.
    """

    drained: tuple[Node, ...]
    offline: tuple[Node, ...]
    online: tuple[Node, ...]

    def __str__(self) -> str:
        """What they are, for people; nothing if there are none."""
        kinds = {"drained": self.drained, "offline": self.offline, "online and still tagged": self.online}
        return ", ".join(f"{node.name} is {kind}" for kind, nodes in kinds.items() for node in nodes)


def leftovers(cluster: Cluster) -> Leftovers:
    """Those of a cluster as Ganeti tells it, or as it is :func:`in_use`."""
    used = {name for row in cluster.instances for name in (row.pnode, row.snode)}
    ours = [node for node in cluster.nodes if SQUEEZING in node.tags]
    return Leftovers(
        tuple(node for node in ours if node.drained),
        tuple(node for node in ours if node.offline and not node.drained and node.name not in used),
        tuple(node for node in cluster.nodes if not (node.offline or node.drained) and _ours(node)),
    )


def _ours(node: Node) -> list[str]:
    return [tag for tag in (SQUEEZING, STANDBY_AUTO) if tag in node.tags]


def in_use(cluster: Cluster) -> Cluster:
    """The cluster as it was before nodes were drained for a plan; it is planned anew what becomes of them."""
    reporting = (node for node in leftovers(cluster).drained if node.t_mem > 0)
    drained = {node.name for node in reporting}
    rows = (replace(node, offline=node.offline and node.name not in drained) for node in cluster.nodes)
    return replace(cluster, nodes=tuple(rows)) if drained else cluster


def settled(left: Leftovers, planned: set[str]) -> "Jobsets":
    """The jobs that finish what was left, but for the nodes that are planned for again."""
    from ganeti_htools.planning import power_jobs  # needed only where jobs are submitted

    drained, offline, online = (
        [node for node in nodes if node.name not in planned]
        for nodes in (left.drained, left.offline, left.online)
    )
    power, last = power_jobs.off(offline)
    back = [power_jobs.undrain(node.name) for node in drained]
    done = [power_jobs.untag(node, _ours(node), "online") for node in online]
    return [[*back, *done, *power], last]
