"""``hroller``: groups of nodes that can be rebooted together (``hroller(1)``)."""

import sys
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ganeti_htools.cli import clusters
from ganeti_htools.cli.terminal.program import execute, print_json
from ganeti_htools.cli.terminal.saying import progress, say, warn
from ganeti_htools.cli.viewing import seen
from ganeti_htools.commandline.programs import HROLLER
from ganeti_htools.commandline.reading import CommandLine
from ganeti_htools.engine.maintenance import rolling
from ganeti_htools.engine.maintenance.rolling import Classes, Maintenance, NodeGraph, RebootGroup, Relocation
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State
from ganeti_htools.planning import view


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; its exit status."""
    return execute(HROLLER, run, argv)


def run(line: CommandLine) -> int:
    """Load, group and print; the exit status. Raises HtoolsError."""
    cluster = clusters.load(line)
    state = seen(cluster, line)
    _look_for_master(cluster, line.force)
    if line.save is not None:
        original = view.loaded(state, cluster)
        say(clusters.save(line.save, "original", "before hroller run", original) + "\n")
    members = _members(state, line)
    graph = rolling.node_graph(state, members, line.offline_maintenance)
    if line.verbose > 2 and not line.json:
        print(f"Node Graph: {_array(graph)}")
    colourings = graph.colourings()
    smallest = min(colourings.values(), key=len)
    maintenance = Maintenance(line.ignore_non_redundant, line.full_evacuation)
    with progress() as tell:
        groups = rolling.reboot_groups(
            state,
            members,
            smallest,
            maintenance,
            lambda node: tell(f"looking for room for the instances of {state.cluster.nodes[node].name}"),
        )
    if line.verbose > 1 and not line.json:
        print(_comparison(colourings))
    if line.one_step_only:
        groups = groups[:1]
    if line.json:
        print_json({"groups": [_as_json(state, group) for group in groups]})
    else:
        _report(state, groups, line)
    return 0


def _look_for_master(cluster: Cluster, force: bool) -> None:
    masters = [node.name for node in cluster.nodes if node.master]
    if len(masters) > 1:
        raise HtoolsError(f"Found more than one master node: {_list(masters)}")
    if not masters:
        problem = "No master node found (maybe not supported by backend)."
        if not force:
            raise HtoolsError(problem)
        warn(f"Warning: {problem}")


def _list(names: Iterable[str]) -> str:
    return "[" + ",".join(f'"{name}"' for name in names) + "]"


def _members(state: State, line: CommandLine) -> Bools:
    """The nodes to be rebooted. Raises HtoolsError."""
    members: Bools = ~state.columns.offline
    if line.skip_non_redundant:
        alone = rolling.without_secondary(state) & ~state.forthcoming
        members[state.pnode[alone]] = False
    if line.node_tags is not None:
        wanted = set(line.node_tags)
        members &= np.array([bool(wanted & set(node.tags)) for node in state.cluster.nodes], np.bool_)
    if line.group is not None:
        members &= state.group == view.group(state, line.group, "Cannot find target group.")
    return members


def _array(graph: NodeGraph) -> str:
    """A graph as Ganeti's tools show it."""
    last = graph.first + len(graph.neighbours) - 1
    rows = (
        f"({row},[{','.join(str(graph.first + other) for other in others)}])"
        for row, others in enumerate(graph.neighbours, graph.first)
    )
    return f"array ({graph.first},{last}) [{','.join(rows)}]"


def _comparison(colourings: Mapping[str, Classes]) -> str:
    """How the algorithms did, the best first."""
    ordered = sorted(colourings.items(), key=lambda item: -len(item[1]))[::-1]
    text, before = "", 0
    for name, classes in ordered:
        if text:
            text += " TIE " if len(classes) == before else " LOOSE "
        text += f"{name}: {len(classes)} ({','.join(str(len(rows)) for rows in classes)})"
        before = len(classes)
    return text


def _report(state: State, groups: Sequence[RebootGroup], line: CommandLine) -> None:
    if not line.no_headers:
        print("'First Reboot Group'" if line.one_step_only else "'Node Reboot Groups'")
    for group in groups:
        names = state.names(group.nodes)
        if not line.one_step_only:
            print(",".join(names))
        elif names:
            print("\n".join(names))
        if line.print_moves:
            for relocation in group.relocations:
                print("  " + " ".join(_names(state, relocation)))


def _names(state: State, relocation: Relocation) -> list[str]:
    """The instance and its nodes."""
    nodes = [node for node in (relocation.pnode, relocation.snode) if node != NOWHERE]
    return [state.cluster.instances[relocation.instance].name, *state.names(nodes)]


def _as_json(state: State, group: RebootGroup) -> dict[str, object]:
    return {
        "nodes": state.names(group.nodes),
        "moves": [
            dict(zip(("instance", "primary", "secondary"), _names(state, relocation), strict=False))
            for relocation in group.relocations
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
