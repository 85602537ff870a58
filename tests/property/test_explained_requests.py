"""The explanation of a request of any type agrees with the decision, and does not change it."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import pytest

from ganeti_htools.backends import iallocator
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.parameters import placement_options
from ganeti_htools.commandline.programs import HAIL
from ganeti_htools.commandline.reading import read
from ganeti_htools.deciding.decision import state_for
from ganeti_htools.engine.allocation.evacuate import Evacuation
from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.decide import PlacedInstance, decide
from ganeti_htools.engine.explaining.explanation import Explanation, ExplanationCollector, explained
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import AllocateSecondary, ChangeGroup, Request
from ganeti_htools.model.state import State
from tests.support.cases import case

T = TypeVar("T")

CLOSE = 1e-6
KINDS = ("allocate", "multi-allocate", "allocate-secondary", "relocate", "node-evacuate", "change-group")


def decided(
    state: State, request: Request, options: PlacementOptions, reporter: Reporter = SILENT
) -> dict[str, tuple[int, ...]]:
    """The nodes of each instance after the decision, none if it finds no place."""
    decision = decide(state, request, options, reporter)
    nodes = decision.result
    if isinstance(nodes, Evacuation):
        names = [row.name for row in state.cluster.instances]
        failed = {names[index]: tuple[int, ...]() for index, _ in nodes.failed}
        return {names[moved.instance]: moved.nodes for moved in nodes.moved} | failed
    return {placed.instance: _all_nodes(decision.state, request, placed) for placed in nodes}


def _all_nodes(state: State, request: Request, placed: PlacedInstance) -> tuple[int, ...]:
    if not isinstance(request, AllocateSecondary):
        return placed.nodes
    index = [row.name for row in state.cluster.instances].index(placed.instance)
    return int(state.pnode[index]), *placed.nodes


def outcome(attempt: Callable[[], T]) -> tuple[T | None, str]:
    """Return the result of an attempt, or its failure."""
    try:
        return attempt(), ""
    except RequestFailed as failure:
        return None, str(failure)


def check_chosen(state: State, each: Explanation) -> None:
    """The places are in the order of nodes, and none with the nodes chosen is rejected or scores worse."""
    good = {
        tuple(node for node in (place.pnode, place.snode) if node != NOWHERE): place.rank
        for place in each.places
        if not place.why
    }
    assert each.nodes or each.why
    if each.nodes and len(each.places) > 1:
        rivals = [rank for nodes, rank in good.items() if state.group[nodes[0]] == state.group[each.nodes[0]]]
        score, *losses = min(rivals)
        assert good[each.nodes][0] == pytest.approx(score, abs=CLOSE)
        assert each.before is not None or list(good[each.nodes][1:]) == losses
    if not each.nodes:
        assert not good


@pytest.mark.parametrize("kind", KINDS)
def test_explanation_agrees_with_the_decision(kind: str) -> None:
    found = Counter(check_explanation(kind, seed) for seed in range(12))
    assert found["explained"] > 2


def check_explanation(kind: str, seed: int) -> str:
    """Compare the explanation of a case with its decision; returns the outcome."""
    given = case(seed, kind)
    message = iallocator.read(given.text.encode())
    line, request = read(HAIL, given.options), message.request
    assert isinstance(line, CommandLine)
    options = placement_options(line)
    state = state_for(message.cluster, request, options)
    expected, refused = outcome(lambda: decided(state, request, options))
    assert outcome(lambda: decided(state, request, options, ExplanationCollector())) == (expected, refused)
    found, again = outcome(lambda: list(explained(state, request, options)))
    if found is None:
        assert again == refused
        return "not tried"
    if expected is None:
        assert any(each.why == refused for each in found)
        return "refused"
    assert {each.asked.row.name: each.nodes for each in found} == expected
    if not isinstance(request, ChangeGroup):  # of which only the group is chosen from these places
        for each in found:
            check_chosen(state, each)
    return "explained"
