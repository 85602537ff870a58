"""Report of ``--explain``: the effect of each possible move or place of an instance, or why it is refused.

Tables list the best first, and refused places last.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.report import layout
from ganeti_htools.cli.terminal.program import print_json
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.plans import view_of
from ganeti_htools.engine.explaining.explanation import Explanation, explained
from ganeti_htools.engine.explaining.places import ExplainedPlace
from ganeti_htools.engine.explaining.possible_moves import PossibleMove, possible_moves
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.model.columns import Bools, existing
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.moves import Move
from ganeti_htools.model.options import BalancingOptions, PlacementOptions
from ganeti_htools.model.request import NodeEvacuate, Relocate, Request
from ganeti_htools.model.state import State
from ganeti_htools.model.types import Fail
from ganeti_htools.model.wording import size
from ganeti_htools.planning import view
from ganeti_htools.planning.balancing.stranded import reason_to_stay
from ganeti_htools.planning.jobsets import Names

COMPONENTS_CHANGED = "By component, weighted"


def tell_moves(
    state: State, scope: Bools, line: CommandLine, options: BalancingOptions, before: Statistics, score: float
) -> None:
    """Print the effect of each possible move of the instance of ``--explain``. Raises HtoolsError."""
    index = view.instance(state, line.explain or "")
    if not scope[state.pnode[index]]:
        raise HtoolsError(f"{state.cluster.instances[index].name} is not in this node group")
    found = possible_moves(state, scope, np.arange(len(state.pnode)) == index, options)[index]
    why = reason_to_stay(state, index, view.movable(state, view_of(line), sets=True))
    if line.json:
        if why is not None:
            found = [replace(each, place=replace(each.place, why=why, lacks="")) for each in found]
        document = [_document(state, each, score, before) for each in found]
        print_json(document)
        return
    row, nodes = state.cluster.instances[index], ", ".join(state.names(state.nodes_of(index)))
    print(layout.wrapped(f"Moves of {row.name}, {row.template.value}, on {nodes}:"))
    if not found or why is not None:
        print(f"  none: {why or 'it cannot be moved'}")
        return
    rows = []
    for each in sorted(found, key=lambda each: (each.place.why != "", each.place.score)):
        place = each.place
        made = Move(index, each.kind.parts(each.node), existing(place.pnode, place.snode))
        move = Names(state).move(made)
        rows.append((":".join(move.now), move.summary, *_figures(place, score, before)))
    header = ("Nodes", "Moves", "Score", "Change", COMPONENTS_CHANGED)
    print(layout.noted_table(header, rows, (False, False, True, True, False)), end="")


def tell_places(state: State, request: Request, options: PlacementOptions, json: bool) -> None:
    """Print the effect of each place of the instances of a request. Raises HtoolsError."""
    placed = isinstance(request, Relocate | NodeEvacuate)
    tell_explanations(state, explained(state, request, options), "now" if placed else "without it", json)


def tell_explanations(state: State, found: Iterable[Explanation], about: str, json: bool) -> None:
    """Print explanations. ``about`` says of which state the score before is."""
    documents = []
    for number, each in enumerate(found):
        if json:
            documents.append(_explanation_json(state, each))
        else:
            print("\n" * (number > 0), end="")
            _print_explanation(state, each, about)
    if json:
        print_json(documents)


def _print_explanation(state: State, each: Explanation, about: str) -> None:
    row, places = each.asked.row, _best_first(each.places)
    names = [":".join(state.names(existing(place.pnode, place.snode))) for place in places]
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    if each.before is None:
        by, header = "by lost allocations", ("Nodes", "Lost allocations", "Disk left")
        rows = [(name, *_losses(place)) for name, place in zip(names, places, strict=True)]
    else:
        before, score = each.before, float(each.before.score())
        by, header = f"score {about} {fixed(score, 8)}", ("Nodes", "Score", "Change", COMPONENTS_CHANGED)
        rows = [(name, *_figures(place, score, before)) for name, place in zip(names, places, strict=True)]
    print(layout.wrapped(f"Places for {row.name}, {row.template.value}, {by}:"))
    if places:
        print(layout.noted_table(header, rows, [False, True, True, False][: len(header)]), end="")
    chosen = f"Chosen: {', '.join(state.names(each.nodes))}" if each.nodes else f"No place: {each.why}"
    print(layout.wrapped(chosen))


def _losses(place: ExplainedPlace) -> tuple[str, str]:
    """Format the cost of a place, or why it is refused."""
    return (place.why, place.lacks) if place.why else (",".join(map(str, place.lost)), size(place.disk))


def _figures(place: ExplainedPlace, score: float, before: Statistics) -> tuple[str, str, str]:
    """Format the effect of a place on the score and its components, or why it is refused."""
    if place.why:
        return place.why, "", place.lacks
    return (fixed(place.score, 8), _gain(score, place.score), " ".join(_changes(place.components, before)))


def _gain(before: float, after: float) -> str:
    """Format the change of a score; empty if a score is not finite, as for a node that reports no CPUs."""
    return f"{after - before:+.8f}" if math.isfinite(after - before) else ""


def _best_first(places: Sequence[ExplainedPlace]) -> list[ExplainedPlace]:
    """Sort places: the best first, refused places last. Of equal places the last one is chosen."""
    possible = [place for place in reversed(places) if not place.why]
    return [*sorted(possible, key=lambda place: place.rank), *(place for place in places if place.why)]


def _explanation_json(state: State, each: Explanation) -> dict[str, object]:
    return {
        "instance": each.asked.row.name,
        "disk_template": each.asked.row.template.value,
        "score": None if each.before is None else float(each.before.score()),
        "places": [_place_json(state, place, each.before) for place in each.places],
        "chosen": state.names(each.nodes) or None,
        "why": each.why or None,
    }


def _place_json(state: State, place: ExplainedPlace, before: Statistics | None) -> dict[str, object]:
    told: dict[str, object] = {"nodes": state.names(existing(place.pnode, place.snode))}
    if place.why:
        return told | {"why": place.why} | _lacks(place)
    if before is None:
        return told | {"lost": place.lost, "disk_left": place.disk}
    return told | _figures_json(place, float(before.score()), before)


def _changes(after: Sequence[float], before: Statistics) -> list[str]:
    """List the components that change the score, each with its change; the largest change first."""
    changes = [
        (name, weight * (new - float(old)))
        for name, weight, old, new in zip(
            before.names, before.weights, before.components(), after, strict=True
        )
    ]
    changes.sort(key=lambda change: -abs(change[1]))
    return [f"{name}{change:+.6f}" for name, change in changes if abs(change) >= 5e-7]


def _document(state: State, each: PossibleMove, score: float, before: Statistics) -> dict[str, object]:
    place = each.place
    document: dict[str, object] = {
        "move": each.kind.value,
        "to": state.names(existing(place.pnode, place.snode)),
    }
    if place.why:
        return document | {"fail": place.why} | _lacks(place)
    return document | _figures_json(place, score, before)


def _lacks(place: ExplainedPlace) -> dict[str, str]:
    key = {Fail.RESOURCE.value: "resource", Fail.RULE.value: "rules"}.get(place.why, "storage")
    return {key: place.lacks} if place.lacks else {}


def _figures_json(place: ExplainedPlace, score: float, before: Statistics) -> dict[str, object]:
    components = {
        name: {"weight": weight, "before": float(old), "after": new}
        for name, weight, old, new in zip(
            before.names, before.weights, before.components(), place.components, strict=True
        )
        if weight
    }
    return {"score": place.score, "change": place.score - score, "components": components}
