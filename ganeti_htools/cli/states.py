"""The state of the cluster that a command line describes."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ganeti_htools.cli import files
from ganeti_htools.commandline.reading import CommandLine
from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.derive import derive, missing_resources
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State


def of(cluster: Cluster, line: CommandLine) -> State:
    """The cluster with everything derived, as the options see it: nodes taken for offline
    (``--offline``), exclusion tags (``--exclusion-tags``, in the cluster's tags), limits (``--max-cpu``,
    ``--min-disk``). What does not add up is told on standard error. Raises HtoolsError.
    """
    _named(cluster, line)  # whoever asks for what is not there should be told first
    excluding = tuple(f"{tags.EXCLUSION}{tag}:" for tag in line.exclusion_tags)
    away = set(
        _found((node.name for node in cluster.nodes), line.offline, "wrong node name(s) set as offline")
    )
    seen = replace(
        cluster,
        tags=(*cluster.tags, *excluding),
        nodes=tuple(replace(node, offline=True) if node.name in away else node for node in cluster.nodes),
    )
    state = derive(seen, static_kvm_node_memory=line.static_kvm_node_memory)
    if line.verbose:
        files.say(files.inconsistencies(missing_resources(state)))
    columns = state.columns
    columns.lo_dsk[:] = np.floor(line.min_disk * columns.t_dsk)
    if line.max_cpu is not None:
        columns.vcpu_ratio[:] = line.max_cpu
    return state


def loaded(state: State, cluster: Cluster) -> Cluster:
    """The cluster of which a state has been made, to be saved: with the memory that nodes running KVM are
    taken to use themselves, without nodes taken for offline and tags added.
    """
    settled = state.settled()
    pairs = zip(settled.nodes, cluster.nodes, strict=True)
    nodes = tuple(replace(node, offline=read.offline) for node, read in pairs)
    return replace(settled, nodes=nodes, tags=cluster.tags)


def movable(state: State, line: CommandLine) -> Bools:
    """Which instances may be moved: those that ``--select-instances`` and ``--exclude-instances`` leave,
    with both nodes in one group. Raises HtoolsError for unknown names.
    """
    chosen, kept = _named(state.cluster, line)
    names = [instance.name for instance in state.cluster.instances]
    wanted = np.array([(not chosen or name in chosen) and name not in kept for name in names], np.bool_)
    return wanted & ~split(state)


def _named(cluster: Cluster, line: CommandLine) -> tuple[set[str], set[str]]:
    """The instances that are selected, and those that are excluded."""
    asked = (*line.select_instances, *line.exclude_instances)
    names = (instance.name for instance in cluster.instances)
    found = _found(names, asked, "failed to load data, aborting: Unknown instance(s)")
    return set(found[: len(line.select_instances)]), set(found[len(line.select_instances) :])


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


def split(state: State) -> Bools:
    """Instances whose nodes are in different groups."""
    group: Bools = (state.snode != NOWHERE) & (state.group[state.pnode] != state.group[state.snode])
    return group


def _found(names: Iterable[str], asked: Sequence[str], problem: str) -> list[str]:
    """The full names of those asked for by name or by its beginning, up to a dot. Raises HtoolsError."""
    known = list(names) if asked else []
    found, unknown = [], []
    for name in asked:
        longer = [each for each in known if each.startswith(f"{name}.")]
        if name in known or len(longer) == 1:
            found.append(name if name in known else longer[0])
        else:
            unknown.append(name)
    if unknown:
        raise HtoolsError(f"{problem}: {', '.join(unknown)}")
    return found
