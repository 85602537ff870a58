"""Report of ``hinfo`` about a cluster and its groups, as text and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.report import layout
from ganeti_htools.engine.redundancy import health as redundancy_health
from ganeti_htools.engine.rules import choice
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.model.columns import NOWHERE, Bools, of_class
from ganeti_htools.model.ganeti_version import rules_of
from ganeti_htools.model.state import State
from ganeti_htools.model.wording import counted
from ganeti_htools.planning import view


@dataclass(frozen=True, slots=True)
class GroupFigures:
    name: str
    nodes: int
    instances: int
    bad_nodes: int
    bad_instances: int
    n1_happy: bool
    score: float


def groups(state: State) -> list[GroupFigures]:
    """The node groups that have nodes."""
    return [_group(state, row) for row in redundancy_health.groups(state)]


def _group(state: State, row: int) -> GroupFigures:
    scope: Bools = state.group == row
    bad = int(np.count_nonzero(redundancy_health.bad_nodes(state, scope)))
    return GroupFigures(
        name=state.cluster.groups[row].name,
        nodes=int(np.count_nonzero(scope)),
        instances=int(np.count_nonzero(scope[state.pnode])),
        bad_nodes=bad,
        bad_instances=int(np.count_nonzero(redundancy_health.bad_instances(state, scope))),
        n1_happy=not bad,
        score=float(choice.base(state, scope).score()),
    )


def statistics(state: State) -> Statistics:
    """Compute the components of the whole cluster's score."""
    return choice.base(state, state.everywhere)


def size(state: State) -> str:
    """Count nodes, instances and groups in one line."""
    cluster = state.cluster
    counts = [
        counted(len(rows), kind)
        for rows, kind in (
            (cluster.nodes, "node"),
            (cluster.instances, "instance"),
            (cluster.groups, "node group"),
        )
    ]
    return f"Loaded {', '.join(counts)}"


def split_names(state: State) -> list[str]:
    return state.instance_names(np.flatnonzero(view.across_groups(state)).tolist())


_HEADER = ("Group", "Nodes", "Instances", "Bad_Nodes", "Bad_Instances", "N+1", "Score")


def group_table(found: Sequence[GroupFigures]) -> str:
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
    return layout.table(_HEADER, rows, (False, True, True, True, True, False, True), "  ")


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
            "group": state.group_name(row),
            "offline": columns.offline[row],
            "condition": state.node_state(row).word,
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
            **({"resources": _classes(state, row)} if state.units.classes else {}),
        }


def _classes(state: State, row: int) -> list[dict[str, object]]:
    """Return the inventories of a node's custom resource classes."""

    def of(figure: str, which: int) -> int:
        return int(getattr(state.columns, of_class(figure, which))[row])

    return [
        {"class": name, "total": of("t", which), "free": of("f", which), "kept": of("r", which)}
        for which, name in enumerate(state.units.classes)
    ]


def as_json(state: State) -> dict[str, object]:
    found, figures = groups(state), statistics(state)
    return {
        "tags": state.cluster.tags,
        "nodes": len(state.cluster.nodes),
        "instances": len(state.cluster.instances),
        "groups": [asdict(group) for group in found],
        "node_list": list(_nodes_json(state)),
        "n1_happy": all(group.n1_happy for group in found),
        "split_instances": split_names(state),
        "coefficients": {
            name: {"value": float(value), "weight": weight}
            for name, weight, value in zip(figures.names, figures.weights, figures.components(), strict=True)
            if figures.online and weight
        },
        "score": float(figures.score()),
        "ganeti_rules": rules_of(state.cluster.ganeti).name,
    }
