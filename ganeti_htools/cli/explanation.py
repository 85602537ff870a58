"""``--explain``: what each possible move or place of an instance would do, or why it must not be."""

from collections.abc import Sequence

import orjson

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli import states, tables
from ganeti_htools.cli.commandline import CommandLine
from ganeti_htools.cli.jobsets import Names
from ganeti_htools.engine.alternatives import Alternative, alternatives
from ganeti_htools.engine.balance import Balancing, Step
from ganeti_htools.engine.decide import decide, group_row, is_dedicated, restricted
from ganeti_htools.engine.options import Options
from ganeti_htools.engine.prospects import prospects
from ganeti_htools.engine.score import COMPONENTS, Statistics
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.errors import HtoolsError, RequestFailed
from ganeti_htools.model.request import Allocate, Request
from ganeti_htools.model.state import State


def tell(
    state: State, scope: Bools, line: CommandLine, options: Balancing, before: Statistics, score: float
) -> None:
    """Print what can be said of ``--explain INSTANCE``. Raises HtoolsError."""
    index = states.instance(state, line.explain or "")
    if not scope[state.pnode[index]]:
        raise HtoolsError(f"{state.cluster.instances[index].name} is not in this node group")
    figures = tuple(float(value) for value in before.components())
    found = alternatives(state, scope, index, options)
    if line.json:
        document = [_document(state, each, figures, score) for each in found]
        print(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
        return
    row = state.cluster.instances[index]
    print(f"Moves of {row.name}, {row.template.value}, on {', '.join(_places(state, index))}:")
    if not found:
        print("  none: it cannot be moved")
        return
    rows = []
    for each in found:
        step = Step(index, each.kind, each.node, each.pnode, each.snode, each.score)
        move = Names(state).move(step)
        result = each.fail.value if each.fail else fixed(each.score, 8)
        gain = "" if each.fail else f"{each.score - score:+.8f}"
        changes = "" if each.fail else " ".join(_changes(each.components, figures))
        rows.append((":".join(move.now), move.summary, result, gain, changes))
    header = ("Nodes", "Moves", "Score", "Change", "By component, weighted")
    print(tables.table(header, rows, (False, False, True, True, False)), end="")


def tell_places(state: State, request: Request, options: Options) -> None:
    """Print what can be said of each place of the instance that is to be allocated. Raises HtoolsError."""
    if not isinstance(request, Allocate):
        raise HtoolsError("--explain is for requests of type allocate only")
    if is_dedicated(state, request):
        raise HtoolsError("--explain is not for nodes with exclusive storage: no score decides there")
    placement = request.placement
    options = restricted(request, options)
    group = None if placement.group is None else group_row(state, placement.group)
    asked = state.ask(placement.instance)
    base, found = prospects(state, asked, placement.count, group, options)
    before, score = tuple(float(value) for value in base.components()), float(base.score())
    print(f"Places for {asked.row.name}, {asked.row.template.value}, score without it {fixed(score, 8)}:")
    rows = []
    for each in found:
        nodes = ":".join(state.names(node for node in (each.pnode, each.snode) if node != NOWHERE))
        if each.why:
            rows.append((nodes, each.why, "", ""))
        else:
            changes = " ".join(_changes(each.components, before))
            rows.append((nodes, fixed(each.score, 8), f"{each.score - score:+.8f}", changes))
    header = ("Nodes", "Score", "Change", "By component, weighted")
    print(tables.table(header, rows, (False, True, True, False)), end="")
    try:
        result = decide(state, request, options).result
        assert isinstance(result, tuple)
        print(f"Chosen: {', '.join(state.names(result[0].nodes))}")
    except RequestFailed as failure:
        print(f"No place: {failure}")


def _places(state: State, index: int) -> list[str]:
    nodes = (int(state.pnode[index]), int(state.snode[index]))
    return state.names(node for node in nodes if node != NOWHERE)


def _changes(after: Sequence[float], before: Sequence[float]) -> list[str]:
    return [
        f"{name}{change:+.6f}"
        for (name, weight, *_), old, new in zip(COMPONENTS, before, after, strict=True)
        if abs(change := weight * (new - old)) >= 5e-7
    ]


def _document(state: State, each: Alternative, before: tuple[float, ...], score: float) -> dict[str, object]:
    nodes = [node for node in (each.pnode, each.snode) if node != NOWHERE]
    document: dict[str, object] = {"move": each.kind.value, "to": state.names(nodes)}
    if each.fail:
        return document | {"fail": each.fail.value}
    components = {
        name: {"weight": weight, "before": old, "after": new}
        for (name, weight, *_), old, new in zip(COMPONENTS, before, each.components, strict=True)
    }
    return document | {"score": each.score, "change": each.score - score, "components": components}
