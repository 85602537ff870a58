"""No plan between node groups takes an instance's redundancy, in the end or on the way, on any cluster."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.groups.compression import compress
from ganeti_htools.engine.groups.levelling import level
from ganeti_htools.engine.groups.outcome import RegroupingLimits, RegroupingOutcome
from ganeti_htools.engine.groups.redistribution import redistribute
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.engine.redundancy.health import lose
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from tests.support.regroupings import read_again, rules_of
from tests.support.super_clusters import super_clusters

Plan = Callable[[State, RegroupingRules], RegroupingOutcome]


def quiet(_: str) -> None:
    """Report no progress."""


ACTIONS: dict[str, Plan] = {
    "redistribute": lambda state, rules: redistribute(state, rules, RegroupingLimits(), quiet),
    "balance": lambda state, rules: level(state, rules, RegroupingLimits(), 1e-2, quiet),
    "compress": lambda state, rules: compress(state, rules, RegroupingLimits(), (), 2, 0.0, quiet),
    **{
        f"compress {group}": partial(
            lambda group, state, rules: compress(
                state, rules, RegroupingLimits(), [group] * (group in state.group), 1, 0.0, quiet
            ),
            group,
        )
        for group in (0, 1)
    },
}


def lost(state: State) -> set[str]:
    """The instances that do not come back if their primary is lost, by ``hcheck --what-if-lost``."""
    hosts = sorted(set(state.pnode[~state.forthcoming].tolist()))
    recoveries = [recovery for node in hosts for recovery in lose(state, node).recoveries]
    return {state.cluster.instances[each.instance].name for each in recoveries if each.node == NOWHERE}


@pytest.mark.parametrize("action", ACTIONS)
@settings(max_examples=8)
@given(described=super_clusters, plain=st.booleans())
def test_no_instance_loses_its_redundancy(action: str, described: Cluster, plain: bool) -> None:
    state = derive(described)
    rules = rules_of(state, plain=plain)
    outcome, now = ACTIONS[action](state, rules), Regrouping(state, rules)
    before = lost(state)
    for move in outcome.after.moved:
        assert now.move(move.instance, move.parts)
        after = lost(read_again(state, now.state))
        assert after <= before
        before = after
