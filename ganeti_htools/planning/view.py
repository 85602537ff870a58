"""A cluster as options show it: what they take for offline, keep apart, limit and leave where it is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Cluster, without_loads
from ganeti_htools.model.columns import NOWHERE, Bools, by_unit
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.model.state import State


@dataclass(frozen=True, slots=True)
class View:
    """How a cluster is seen. Nodes and instances may be named by the beginning of a name, up to a dot.

    ``offline``: nodes taken for offline. ``exclusion_tags``: prefixes of tags that keep instances apart,
    besides those that the cluster's tags name. ``min_disk``: part of each node's disk that has to stay free.
    ``max_cpu``: virtual CPUs for each of a node's CPUs; None for what the policies say.
    ``static_kvm_node_memory``: MiB that a node running KVM is taken to need for itself; 0 to believe what it
    reports. ``select_instances``: the only ones that may be moved, if any are named; ``exclude_instances``:
    those that may not. ``ignore_dynu``: the utilisation of all instances is taken to be 0.
    """

    offline: tuple[str, ...] = ()
    exclusion_tags: tuple[str, ...] = ()
    min_disk: float = 0.0
    max_cpu: float | None = None
    static_kvm_node_memory: int = 4096
    select_instances: tuple[str, ...] = ()
    exclude_instances: tuple[str, ...] = ()
    ignore_dynu: bool = False

    def __post_init__(self) -> None:
        """Raises DataError for a ratio of 0."""
        if self.max_cpu == 0:
            raise DataError("max_cpu: expected a ratio above 0, got 0")


def state_of(cluster: Cluster, view: View) -> State:
    """The cluster as it is seen, with everything derived. Raises HtoolsError for unknown names."""
    _named(cluster, view)  # complain about unknown names first
    excluding = tuple(f"{tags.EXCLUSION}{tag}:" for tag in view.exclusion_tags)
    away = set(
        _found((node.name for node in cluster.nodes), view.offline, "wrong node name(s) set as offline")
    )
    seen = replace(
        without_loads(cluster) if view.ignore_dynu else cluster,
        tags=(*cluster.tags, *excluding),
        nodes=tuple(replace(node, offline=True) if node.name in away else node for node in cluster.nodes),
    )
    state = derive(seen, static_kvm_node_memory=view.static_kvm_node_memory)
    columns = state.columns
    for reserved, total in zip(by_unit(columns, "lo_dsk"), by_unit(columns, "t_dsk"), strict=True):
        reserved[:] = np.floor(view.min_disk * total)
    if view.max_cpu is not None:
        columns.vcpu_ratio[:] = view.max_cpu
    return state


def loaded(state: State, cluster: Cluster) -> Cluster:
    """The cluster from which a state was made, as it is saved before a plan.

    It has the memory that nodes running KVM are taken to use themselves, but neither the nodes taken for
    offline nor the tags that options added.
    """
    settled = state.to_cluster()
    pairs = zip(settled.nodes, cluster.nodes, strict=True)
    nodes = tuple(replace(node, offline=read.offline) for node, read in pairs)
    return replace(settled, nodes=nodes, tags=cluster.tags)


def movable(state: State, view: View) -> Bools:
    """Which instances may be moved: those that the view leaves, with both nodes in one group.

    Raises HtoolsError for unknown names.
    """
    return wanted(state, view) & ~split(state)


def wanted(state: State, view: View) -> Bools:
    """Which instances the view leaves to be moved. Raises HtoolsError for unknown names."""
    chosen, kept = _named(state.cluster, view)
    names = [instance.name for instance in state.cluster.instances]
    return np.array([(not chosen or name in chosen) and name not in kept for name in names], np.bool_)


def _named(cluster: Cluster, view: View) -> tuple[set[str], set[str]]:
    """The instances that are selected, and those that are excluded."""
    wanted = (*view.select_instances, *view.exclude_instances)
    names = (instance.name for instance in cluster.instances)
    found = _found(names, wanted, "failed to load data, aborting: Unknown instance(s)")
    return set(found[: len(view.select_instances)]), set(found[len(view.select_instances) :])


def group(state: State, name: str, problem: str) -> int:
    """The row of the group with that name or UUID. Raises HtoolsError with ``problem``."""
    rows = [row for row, group in enumerate(state.cluster.groups) if name in (group.name, group.uuid)]
    if len(rows) != 1:
        raise HtoolsError(problem)
    return rows[0]


def node(state: State, name: str) -> int:
    """The row of the node with that name, which may end before a dot. Raises HtoolsError."""
    return state.nodes[_found(state.nodes, [name], "Unknown node")[0]]


def instance(state: State, name: str) -> int:
    """The row of an instance, by name or by its beginning, up to a dot. Raises HtoolsError."""
    names = [each.name for each in state.cluster.instances]
    return names.index(_found(names, [name], "Unknown instance")[0])


def full_names(cluster: Cluster, names: Sequence[str]) -> list[str]:
    """The names of instances, each given by name or by its beginning, up to a dot. Raises HtoolsError."""
    return _found((each.name for each in cluster.instances), names, "Unknown instance(s)")


def split(state: State) -> Bools:
    """Instances whose nodes are in different groups."""
    group: Bools = (state.snode != NOWHERE) & (state.group[state.pnode] != state.group[state.snode])
    return group


def _found(names: Iterable[str], wanted: Sequence[str], problem: str) -> list[str]:
    """The full names of those wanted by name or by its beginning, up to a dot. Raises HtoolsError."""
    known = list(names) if wanted else []
    found, unknown = [], []
    for name in wanted:
        longer = [each for each in known if each.startswith(f"{name}.")]
        if name in known or len(longer) == 1:
            found.append(name if name in known else longer[0])
        else:
            unknown.append(name)
    if unknown:
        raise HtoolsError(f"{problem}: {', '.join(unknown)}")
    return found
