"""The cluster as options show it: nodes set offline, exclusion tags, limits, and instances that stay."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Cluster, Instance, Load, with_loads, without_loads
from ganeti_htools.model.columns import NOWHERE, Bools, by_unit
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.model.figures import TEMPLATE_CODE, Figures
from ganeti_htools.model.load import LoadMode
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.model.wording import did_you_mean

_DISKLESS = TEMPLATE_CODE[DiskTemplate.DISKLESS]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Options that change the cluster before planning. A name may be cut off at a dot if it stays unique.

    * ``offline``: nodes to treat as offline.
    * ``exclusion_tags``: prefixes of tags that keep instances apart, in addition to the cluster's own.
    * ``min_disk``: share of each node's disk that must stay free.
    * ``max_cpu``: virtual CPUs per physical CPU; None for the limits of the instance policies.
    * ``static_kvm_node_memory``: MiB that a KVM node needs for itself; 0 uses the reported value.
    * ``select_instances``: the only instances that may move, if any are given.
    * ``exclude_instances``: instances that may not move.
    * ``move_diskless``: instances without disks may move too.
    * ``ignore_dynu``: take the utilisation of all instances for 0.
    * ``load``: what measured load is: nothing, utilisation of instances (``upstream``; the mean is 1), or the
      use of nodes in their worst hours, instead of utilisation (``real``).
    """

    offline: tuple[str, ...] = ()
    exclusion_tags: tuple[str, ...] = ()
    min_disk: float = 0.0
    max_cpu: float | None = None
    static_kvm_node_memory: int = 4096
    select_instances: tuple[str, ...] = ()
    exclude_instances: tuple[str, ...] = ()
    move_diskless: bool = False
    ignore_dynu: bool = False
    load: LoadMode = "none"

    def __post_init__(self) -> None:
        """Raises DataError for a ratio of 0."""
        if self.max_cpu == 0:
            raise DataError("max_cpu: expected a ratio above 0, got 0")


def state_of(
    cluster: Cluster, view: View, known: Figures | None = None, asked: Sequence[Instance] = ()
) -> State:
    """Derive the state of the cluster as the view shows it. Raises HtoolsError for unknown names.

    ``known`` are figures of a cluster that shares rows with this one; no other thread uses them. ``asked``
    are new instances, whose storage units the state has too.
    """
    named_instances(cluster, view)  # complain about unknown names first
    excluding = tuple(f"{tags.EXCLUSION}{tag}:" for tag in view.exclusion_tags)
    offline = set(
        _complete((node.name for node in cluster.nodes), view.offline, "wrong node name(s) set as offline")
    )
    shown = replace(
        with_measured_load(without_loads(cluster) if view.ignore_dynu else cluster, view.load),
        tags=(*cluster.tags, *excluding),
        nodes=tuple(replace(node, offline=True) if node.name in offline else node for node in cluster.nodes),
    )
    state = derive(shown, tuple(asked), static_kvm_node_memory=view.static_kvm_node_memory, known=known)
    columns = state.columns
    for reserved, total in zip(by_unit(columns, "lo_dsk"), by_unit(columns, "t_dsk"), strict=True):
        reserved[:] = np.floor(view.min_disk * total)
    if view.max_cpu is not None:
        columns.vcpu_ratio[:] = view.max_cpu
    return state


def with_measured_load(cluster: Cluster, mode: LoadMode) -> Cluster:
    """Return the cluster with its measured load as it counts. Raises HtoolsError if no load is known."""
    if mode == "none":
        if cluster.load_profiles is None and cluster.present_load is None:
            return cluster
        return replace(cluster, load_profiles=None, present_load=None)
    if not cluster.load_profiles:
        raise HtoolsError(
            f"--load={mode}: no measured load is known; expected [load] in htoolsd.conf, and -D"
        )
    if mode == "real":
        return without_loads(cluster)
    profiles = cluster.load_profiles
    used = np.array([profile.mean.mean(axis=1) for profile in profiles.values()])
    mean = used.mean(axis=0)
    shares = np.divide(used, mean, out=np.zeros_like(used), where=mean > 0)
    loads = dict(zip(profiles, (Load(*each) for each in shares.tolist()), strict=True))
    return replace(with_loads(cluster, loads), load_profiles=None)


def without_options(state: State, cluster: Cluster) -> Cluster:
    """Return the cluster of a state for saving: without the offline nodes and tags that options added.

    KVM nodes keep the memory that they are taken to need for themselves.
    """
    settled = state.to_cluster()
    pairs = zip(settled.nodes, cluster.nodes, strict=True)
    nodes = tuple(replace(node, offline=read.offline) for node, read in pairs)
    return replace(settled, nodes=nodes, tags=cluster.tags)


def movable(state: State, view: View, sets: bool = False) -> Bools:
    """Return which instances balancing may move: selected, with both nodes in one group.

    Ganeti's tools balance no diskless instances. With ``sets`` also those that stay together with others.
    Raises HtoolsError for unknown names.
    """
    found = selected(state, view, sets) & ~across_groups(state)
    return found if view.move_diskless else found & (state.template != _DISKLESS)


def selected(state: State, view: View, sets: bool = False) -> Bools:
    """Return which instances the view selects and their tags let move; with ``sets`` also those that stay
    together with others. Raises HtoolsError for unknown names.
    """
    chosen, excluded = named_instances(state.cluster, view)
    names = [instance.name for instance in state.cluster.instances]
    here = np.array([(not chosen or name in chosen) and name not in excluded for name in names], np.bool_)
    return here & ~(placement_rules.fixed(state) if sets else placement_rules.staying(state))


def named_instances(cluster: Cluster, view: View) -> tuple[set[str], set[str]]:
    wanted = (*view.select_instances, *view.exclude_instances)
    names = (instance.name for instance in cluster.instances)
    found = _complete(names, wanted, "failed to load data, aborting: Unknown instance(s)")
    return set(found[: len(view.select_instances)]), set(found[len(view.select_instances) :])


def group(state: State, name: str, problem: str) -> int:
    """Return the row of a group by name or UUID. Raises HtoolsError with ``problem``."""
    rows = [row for row, group in enumerate(state.cluster.groups) if name in (group.name, group.uuid)]
    if len(rows) != 1:
        hint = did_you_mean(name, (group.name for group in state.cluster.groups))
        raise HtoolsError(problem, hint, exact=True)
    return rows[0]


def selected_nodes(state: State, group_name: str | None, node_tags: Iterable[str] | None) -> Bools:
    """Return the nodes of a group that have one of the tags; None stands for any. Raises HtoolsError."""
    found = state.everywhere
    if node_tags is not None:
        wanted = set(node_tags)
        found &= np.array([bool(wanted & set(node.tags)) for node in state.cluster.nodes], np.bool_)
    if group_name is not None:
        found &= state.group == group(state, group_name, "Cannot find target group.")
    return found


def node(state: State, name: str) -> int:
    """Return the row of a node by name, which may be cut off at a dot. Raises HtoolsError."""
    return state.nodes[_complete(state.nodes, [name], "Unknown node")[0]]


def full_node_names(cluster: Cluster, names: Sequence[str]) -> list[str]:
    """Complete names of nodes that may be cut off at a dot. Raises HtoolsError."""
    return _complete((each.name for each in cluster.nodes), names, "Unknown node(s)")


def instance(state: State, name: str) -> int:
    """Return the row of an instance by name, which may be cut off at a dot. Raises HtoolsError."""
    names = [each.name for each in state.cluster.instances]
    return names.index(_complete(names, [name], "Unknown instance")[0])


def across_groups(state: State) -> Bools:
    """Return which instances have their nodes in different groups."""
    group: Bools = (state.snode != NOWHERE) & (state.group[state.pnode] != state.group[state.snode])
    return group


def is_called(name: str, shortened: str) -> bool:
    """Whether a name, or its beginning up to a dot, is this one."""
    return f"{name}.".startswith(f"{shortened}.")


def _complete(names: Iterable[str], wanted: Sequence[str], problem: str) -> list[str]:
    """Complete names that may be cut off at a dot. Raises HtoolsError."""
    known = list(names) if wanted else []
    found, unknown = [], []
    for name in wanted:
        longer = [each for each in known if is_called(each, name)]
        if name in known or len(longer) == 1:
            found.append(name if name in known else longer[0])
        else:
            unknown.append(name)
    if unknown:
        raise HtoolsError(f"{problem}: {', '.join(unknown)}", did_you_mean(unknown[0], known), exact=True)
    return found
