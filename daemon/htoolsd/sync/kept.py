"""What decisions have to leave of nodes and pools, which Ganeti does not tell: that is known apart."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.inventory import Inventories
from ganeti_htools.model.storage import DesiredUnit, Pool


@dataclass(frozen=True, slots=True)
class Kept:
    """The inventories of nodes, by name, and what is reserved of pools (MiB), besides their own figures.

    ``promised`` is what of that is reserved for instances of other clusters that were promised it, by name.
    ``generation`` is how often that has changed.
    """

    inventories: Mapping[str, Inventories] = field(default_factory=dict)
    pools: Mapping[DesiredUnit, int] = field(default_factory=dict)
    promised: Mapping[str, Mapping[DesiredUnit, int]] = field(default_factory=dict)
    generation: int = 0


def revised(known: Kept, now: Kept) -> Kept:
    """What is known now; of another generation than before if, and only if, something changed."""
    same = replace(now, generation=known.generation)
    return known if same == known else replace(now, generation=known.generation + 1)


def with_kept(cluster: Cluster, known: Kept) -> Cluster:
    """The cluster with what is to be left of it. The same object if that is nothing."""
    if not known.inventories and not known.pools:
        return cluster
    nodes = tuple(_node(node, known.inventories.get(node.name, ())) for node in cluster.nodes)
    return replace(cluster, nodes=nodes, pools=tuple(_pool(pool, known) for pool in cluster.pools))


def _node(node: Node, inventories: Inventories) -> Node:
    return replace(node, inventories=inventories) if inventories else node


def _pool(pool: Pool, known: Kept) -> Pool:
    return pool._replace(reserved=min(pool.total, pool.reserved + known.pools.get(pool.unit, 0)))
