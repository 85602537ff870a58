"""Report of ``hcheck --rules`` about rules that no placement satisfies, as text and as JSON."""

from typing import Any

import numpy as np

from ganeti_htools.cli.report.layout import first_of
from ganeti_htools.engine.rules.contradictions import Contradiction, RuleCheck
from ganeti_htools.model.state import State


def as_text(state: State, found: RuleCheck) -> str:
    """Describe the contradictions, and what was left out."""
    lines = [f"Contradictions in the rules of instances: {len(found.contradictions)}"]
    lines += (f"    {_contradiction(state, each)}" for each in found.contradictions)
    lines += (
        f"Undecided, too many places to try: {first_of(state.instance_names(rows))}"
        for rows in found.undecided
    )
    if found.oversized:
        names = first_of(state.instance_names(found.oversized))
        lines.append(f"Left out, too large for every empty node: {names}")
    if closed := _closed(state):
        lines.append(f"Nodes that take no instances: {first_of(closed)}")
    return "".join(f"{line}\n" for line in lines)


def _contradiction(state: State, each: Contradiction) -> str:
    why = ["too large together"] if each.by_size else []
    if not each.nodes:
        why.append("no primary is left")
    elif len(each.nodes) < np.count_nonzero(~state.columns.offline):
        why.append(f"primaries left: {first_of(state.names(each.nodes))}")
    told = f"{', '.join(each.rules)}: {', '.join(state.instance_names(each.instances))}"
    return f"{told} ({'; '.join(why)})" if why else told


def as_json(state: State, found: RuleCheck) -> dict[str, Any]:
    """Describe the contradictions, and what was left out, as JSON."""
    return {
        "contradictions": [
            {
                "rules": list(each.rules),
                "instances": state.instance_names(each.instances),
                "nodes": state.names(each.nodes),
                "by_size": each.by_size,
            }
            for each in found.contradictions
        ],
        "undecided": [state.instance_names(rows) for rows in found.undecided],
        "oversized": state.instance_names(found.oversized),
        "closed_nodes": _closed(state),
    }


def _closed(state: State) -> list[str]:
    return state.names(np.flatnonzero(state.columns.offline).tolist())
