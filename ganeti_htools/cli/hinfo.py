"""``hinfo``: show a cluster (``hinfo(1)``)."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli import clusters
from ganeti_htools.cli.report import tables
from ganeti_htools.cli.report.records import policy_record
from ganeti_htools.cli.terminal.program import execute, print_json
from ganeti_htools.cli.terminal.saying import say
from ganeti_htools.cli.viewing import seen
from ganeti_htools.commandline.programs import HINFO
from ganeti_htools.commandline.reading import CommandLine
from ganeti_htools.engine.redundancy import check
from ganeti_htools.engine.rules.components import COMPONENTS
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.model.cluster import common_suffix
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.state import State
from ganeti_htools.planning import view


@dataclass(frozen=True, slots=True)
class Group:
    """A node group in figures."""

    name: str
    nodes: int
    instances: int
    bad_nodes: int
    bad_instances: int
    n1_happy: bool
    score: float


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; its exit status."""
    return execute(HINFO, run, argv)


def run(line: CommandLine) -> int:
    """Load and show; the exit status. Raises HtoolsError."""
    cluster = clusters.load(line)
    if line.json:
        _report_json(seen(cluster, line))
        return 0
    state = seen(cluster, line)
    print(f"Loaded cluster tags: {','.join(cluster.tags)}")
    if line.verbose > 2:
        print(f"Loaded cluster ipolicy: {policy_record(cluster.ipolicy)}")
    _sizes(state, line.verbose)
    _split(state, line.verbose)
    _groups(groups(state), line.verbose)
    sys.stdout.flush()
    if line.print_instances:
        say(tables.instance_map("Instances", state))
    if line.print_nodes is not None:
        say(tables.node_status("Cluster", state, line.print_nodes))
    figures = _figures(state)
    print(
        f"Cluster coefficients:\n{tables.components(figures)}Cluster score: {fixed(check.score(figures), 8)}"
    )
    return 0


def groups(state: State) -> list[Group]:
    """The node groups that have nodes."""
    return [_group(state, row) for row in check.groups(state)]


def _group(state: State, row: int) -> Group:
    scope: Bools = state.group == row
    bad = int(np.count_nonzero(check.bad_nodes(state, scope)))
    return Group(
        name=state.cluster.groups[row].name,
        nodes=int(np.count_nonzero(scope)),
        instances=int(np.count_nonzero(scope[state.pnode])),
        bad_nodes=bad,
        bad_instances=int(np.count_nonzero(check.bad_instances(state, scope))),
        n1_happy=not bad,
        score=check.score(check.figures(state, scope)),
    )


def _figures(state: State) -> Statistics:
    return check.figures(state, np.ones(len(state.group), np.bool_))


def _sizes(state: State, verbose: int) -> None:
    cluster = state.cluster
    if not cluster.instances and verbose > 1:
        print("Cluster is empty.")
    counts = [
        f"{len(rows)} {kind}{'' if len(rows) == 1 else 's'}"
        for rows, kind in (
            (cluster.nodes, "node"),
            (cluster.instances, "instance"),
            (cluster.groups, "node group"),
        )
    ]
    print(f"Loaded {', '.join(counts)}")
    suffix = common_suffix(cluster)
    if suffix and verbose > 2:
        print(f"Note: Stripping common suffix of '{suffix}' from names")


def _split_names(state: State) -> list[str]:
    return [state.cluster.instances[row].name for row in np.flatnonzero(view.split(state)).tolist()]


def _split(state: State, verbose: int) -> None:
    names = _split_names(state)
    if names:
        print("Found instances belonging to multiple node groups:", flush=True)
        say("".join(f"  {name}\n" for name in names))
    elif verbose > 1:
        print("No split instances found")


_HEADER = ("Group", "Nodes", "Instances", "Bad_Nodes", "Bad_Instances", "N+1", "Score")


def _groups(found: Sequence[Group], verbose: int) -> None:
    if verbose > 1:
        rows = [
            (
                group.name,
                *(str(count) for count in (group.nodes, group.instances, group.bad_nodes)),
                str(group.bad_instances),
                str(group.n1_happy),
                fixed(group.score, 8),
            )
            for group in found
        ]
        numeric = (False, True, True, True, True, False, True)
        print(f"Node group information:\n{tables.table(_HEADER, rows, numeric, '  ')}", end="")
    print(f"Cluster is N+1 {'happy' if all(group.n1_happy for group in found) else 'unhappy'}")


def _nodes_json(state: State) -> Iterator[dict[str, object]]:
    """Each node, with sizes in MiB."""
    instances, columns = state.cluster.instances, state.columns
    primaries: list[list[str]] = [[] for _ in state.cluster.nodes]
    secondaries: list[list[str]] = [[] for _ in state.cluster.nodes]
    for instance, pnode, snode in zip(instances, state.pnode.tolist(), state.snode.tolist(), strict=True):
        primaries[pnode].append(instance.name)
        if snode != NOWHERE:
            secondaries[snode].append(instance.name)
    for row, node in enumerate(state.cluster.nodes):
        yield {
            "name": node.name,
            "group": state.cluster.groups[state.group[row]].name,
            "offline": columns.offline[row],
            "n1_happy": not columns.fail_n1[row],
            "total_memory": int(columns.t_mem[row]),
            "node_memory": columns.n_mem[row],
            "free_memory": node.f_mem,
            "reserved_memory": columns.r_mem[row],
            "total_disk": int(columns.t_dsk[row]),
            "free_disk": columns.f_dsk[row],
            "cpus": int(columns.t_cpu[row]),
            "vcpus": columns.u_cpu[row],
            "primaries": primaries[row],
            "secondaries": secondaries[row],
        }


def _report_json(state: State) -> None:
    found, figures = groups(state), _figures(state)
    report: dict[str, Any] = {
        "tags": state.cluster.tags,
        "nodes": len(state.cluster.nodes),
        "instances": len(state.cluster.instances),
        "groups": [asdict(group) for group in found],
        "node_list": list(_nodes_json(state)),
        "n1_happy": all(group.n1_happy for group in found),
        "split_instances": _split_names(state),
        "coefficients": {
            component.name: {"value": float(value), "weight": component.weight}
            for component, value in zip(COMPONENTS, figures.components(), strict=True)
            if figures.online
        },
        "score": check.score(figures),
    }
    print_json(report)


if __name__ == "__main__":
    sys.exit(main())
