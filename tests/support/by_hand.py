"""Small clusters described by hand. Sizes are MiB."""

from collections.abc import Mapping, Sequence

from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Node
from ganeti_htools.model.types import DiskTemplate


def node(name: str, mem: int = 10_000, used: int = 0, group: str = "uuid-1", **facts: object) -> Node:
    """A node of which instances use some memory; all else is plenty."""
    figures = {"t_dsk": 900_000.0, "f_dsk": 900_000, "t_cpu": 64.0, "t_spindles": 64}
    return Node(name, group, t_mem=float(mem), f_mem=mem - used, **(figures | facts))  # type: ignore[arg-type]


def instance(
    name: str,
    template: DiskTemplate,
    pnode: str,
    snode: str | None = None,
    mem: int = 1000,
    **facts: object,
) -> Instance:
    """A running instance with one disk."""
    return Instance(
        name,
        mem,
        1024,
        (Disk(1024),),
        1,
        pnode=pnode,
        snode=snode,
        template=template,
        **facts,  # type: ignore[arg-type]
    )


def cluster(
    sizes: Mapping[str, int], instances: Sequence[Instance], group: str = "uuid-1", **facts: object
) -> Cluster:
    """One node group: the nodes' memory by name, and what is on them."""
    used = {
        name: sum(each.mem for each in instances if each.pnode == name and each.uses_memory) for name in sizes
    }
    nodes = tuple(node(name, mem, used[name], group, **facts) for name, mem in sizes.items())
    return Cluster((Group("group1", group),), nodes, tuple(instances))
