"""``hroller``: groups of nodes that can be rebooted together (``hroller(1)``)."""

from collections.abc import Iterable
from functools import partial

import numpy as np

from ganeti_htools.cli.cluster import load, make_state, save
from ganeti_htools.cli.report import reboots
from ganeti_htools.cli.terminal.messages import progress, warn
from ganeti_htools.cli.terminal.program import execute, print_json
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.programs import HROLLER
from ganeti_htools.engine.maintenance import rolling
from ganeti_htools.engine.maintenance.rolling import Maintenance
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State
from ganeti_htools.model.wording import shorten_names
from ganeti_htools.planning import view


def run(line: CommandLine) -> None:
    """Read the cluster, group its nodes, report the groups. Raises HtoolsError."""
    cluster = load(line)
    state = make_state(cluster, line)
    _look_for_master(cluster, line.force)
    save(line, "original", "before hroller run", lambda: view.without_options(state, cluster))
    members = _members(state, line)
    if line.full_evacuation or not line.offline_maintenance:
        stuck = rolling.stuck(state) & members[state.pnode]
        _warn_of(state, stuck)
        members[state.pnode[stuck]] &= not line.json  # Debian's text has them
    graph = rolling.node_graph(state, members, line.offline_maintenance)
    if line.verbose > 2 and not line.json:
        print(f"Node Graph: {reboots.graph(graph)}")
    colourings = graph.colourings()
    smallest = min(colourings.values(), key=len)
    maintenance = Maintenance(line.ignore_non_redundant, line.full_evacuation)
    with progress("grouping nodes") as tell:
        groups = rolling.reboot_groups(
            state,
            members,
            smallest,
            maintenance,
            lambda node: tell(f"looking for room for the instances of {state.cluster.nodes[node].name}"),
        )
    if line.verbose > 1 and not line.json:
        print(reboots.comparison(colourings))
    if line.one_step_only:
        groups = groups[:1]
    if line.json:
        print_json({"groups": [reboots.group_json(state, group) for group in groups]}, cluster)
        return
    if not line.no_headers:
        print("'First Reboot Group'" if line.one_step_only else "'Node Reboot Groups'")
    print(reboots.text(state, groups, line.one_step_only, line.print_moves), end="")


def _look_for_master(cluster: Cluster, force: bool) -> None:
    masters = [node.name for node in cluster.nodes if node.master]
    if len(masters) > 1:
        raise HtoolsError(f"Found more than one master node: {_list(masters)}")
    if not masters:
        problem = "No master node found (maybe not supported by backend)."
        if not force:
            raise HtoolsError(problem)
        warn(f"Warning: {problem}")


def _warn_of(state: State, stuck: Bools) -> None:
    """Warn of instances that cannot fail over while their nodes are rebooted."""
    rows = np.flatnonzero(stuck)
    if len(rows):
        names = shorten_names(state.instance_names(rows))
        nodes = shorten_names(state.names(dict.fromkeys(state.pnode[rows].tolist())))
        which = "its secondary takes" if len(rows) == 1 else "their secondaries take"
        warn(f"Warning: {names} cannot leave {nodes}: {which} no instances")


def _list(names: Iterable[str]) -> str:
    return "[" + ",".join(f'"{name}"' for name in names) + "]"


def _members(state: State, line: CommandLine) -> Bools:
    """The nodes to be rebooted. Raises HtoolsError."""
    members = view.selected_nodes(state, line.group, line.node_tags) & ~state.columns.offline
    if line.skip_non_redundant:
        alone = rolling.without_secondary(state) & ~state.forthcoming
        members[state.pnode[alone]] = False
    return members


main = partial(execute, HROLLER, run)
