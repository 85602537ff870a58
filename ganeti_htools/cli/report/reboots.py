"""Report of ``hroller`` about nodes that can be rebooted together, as text and as JSON."""

from collections.abc import Mapping, Sequence

from ganeti_htools.engine.maintenance.rolling import Classes, NodeGraph, RebootGroup, Relocation
from ganeti_htools.model.columns import existing
from ganeti_htools.model.state import State


def graph(nodes: NodeGraph) -> str:
    """Format the graph of nodes (rows) that cannot be rebooted together as Ganeti's tools do."""
    last = nodes.first + len(nodes.neighbours) - 1
    rows = (
        f"({row},[{','.join(str(nodes.first + other) for other in others)}])"
        for row, others in enumerate(nodes.neighbours, nodes.first)
    )
    return f"array ({nodes.first},{last}) [{','.join(rows)}]"


def comparison(colourings: Mapping[str, Classes]) -> str:
    """List the number and sizes of the groups of each algorithm; the best algorithm first."""
    ordered = sorted(colourings.items(), key=lambda item: -len(item[1]))[::-1]
    text, before = "", 0
    for name, classes in ordered:
        if text:
            text += " TIE " if len(classes) == before else " LOOSE "
        text += f"{name}: {len(classes)} ({','.join(str(len(rows)) for rows in classes)})"
        before = len(classes)
    return text


def text(state: State, groups: Sequence[RebootGroup], one_a_line: bool, moves: bool) -> str:
    """List the nodes of each group, one a line if ``one_a_line``.

    With ``moves``, add a line for each instance that moves, with its new nodes.
    """
    lines: list[str] = []
    for group in groups:
        names = state.names(group.nodes)
        lines += names if one_a_line else [",".join(names)]
        if moves:
            lines += ("  " + " ".join(_relocated(state, relocation)) for relocation in group.relocations)
    return "".join(f"{line}\n" for line in lines)


def _relocated(state: State, relocation: Relocation) -> list[str]:
    nodes = state.names(existing(relocation.pnode, relocation.snode))
    return [state.cluster.instances[relocation.instance].name, *nodes]


def group_json(state: State, group: RebootGroup) -> dict[str, object]:
    return {
        "nodes": state.names(group.nodes),
        "moves": [
            dict(zip(("instance", "primary", "secondary"), _relocated(state, relocation), strict=False))
            for relocation in group.relocations
        ],
    }
