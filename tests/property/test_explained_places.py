"""The explained places of a new instance agree with the decision."""

from collections import Counter

import numpy as np
import pytest

from ganeti_htools.backends import iallocator
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.parameters import placement_options
from ganeti_htools.commandline.programs import HAIL
from ganeti_htools.commandline.reading import read
from ganeti_htools.deciding.decision import state_for
from ganeti_htools.engine.allocation.exclusive_storage import is_dedicated
from ganeti_htools.engine.decide import decide
from ganeti_htools.engine.explaining.explanation import explained
from ganeti_htools.engine.redundancy.assessment import assess
from ganeti_htools.engine.rules import affinity, choice, placements, settling
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.request import Allocate
from tests.support.cases import case

CLOSE = 1e-6


def test_decision_is_the_best_explained_place() -> None:
    found = Counter(check_decision(seed) for seed in range(50))
    assert found["placed"] > 20
    assert found["refused"] > 3


def check_decision(seed: int) -> str:
    """Compare the explanation of a case with its decision; returns the outcome."""
    given = case(seed, "allocate")
    message = iallocator.read(given.text.encode())
    line, request = read(HAIL, given.options), message.request
    assert isinstance(line, CommandLine)
    assert isinstance(request, Allocate)
    options = placement_options(line)
    state = state_for(message.cluster, request, options)
    if is_dedicated(state, request):
        return "no score decides"
    scope = np.ones(len(state.group), np.bool_)
    if request.placement.group is not None:
        scope = np.array([state.cluster.groups[row].name == request.placement.group for row in state.group])
    asked = state.requested_instance(request.placement.instance)

    (explanation,) = explained(state, request, options)
    found = explanation.places
    good = [each for each in found if not each.why]
    assert [each.pnode for each in found] == np.flatnonzero(scope).tolist()
    try:
        decision = decide(state, request, options)
    except RequestFailed:
        assert not good
        return "refused"
    (placed,) = decision.result  # type: ignore[misc]
    primary, *secondary = placed.nodes
    (chosen,) = (each for each in good if each.pnode == primary)
    best = min(each.score for each in good if state.group[each.pnode] == state.group[primary])
    assert chosen.score == pytest.approx(best, abs=CLOSE)
    assert [chosen.snode] == (secondary or [NOWHERE])

    for each in good:
        row = np.array([each.pnode])
        if each.snode == NOWHERE:
            trial = placements.allocate_one(state, asked, row, scope, options.ignore_soft_errors)
        else:
            other = np.array([each.snode])
            peers = state.peers[row, other]
            trial = placements.allocate_pairs(state, asked, row, other, peers, options.ignore_soft_errors)
        assert trial.codes[0] == FITS
        after = state.copy()
        settling.settle(after, trial)
        score = choice.base(after, scope, affinity.location_exclusion(after, scope)).score()
        assert each.score == pytest.approx(float(score), abs=CLOSE)
        if options.capacity:
            assert assess(state, scope, options).survives(asked, each.pnode, each.snode)
    return "placed"
