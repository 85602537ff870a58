"""Copies of a state share arrays until they change: none sees what happens to another."""

import copy
from dataclasses import fields
from random import Random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ganeti_htools.engine.rules import placements, settling
from ganeti_htools.engine.rules.relocate import move
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.placement_rules import PlacementRules
from ganeti_htools.model.state import State
from tests.property import narrow


def any_change(rng: Random, state: State, new: Instance) -> Trial | None:
    """A move of an instance, or the placement of the new one, whether or not it fits."""
    everyone = np.arange(len(state.group))
    allowed = np.ones(len(state.group), np.bool_)
    index = rng.randrange(-1, len(state.pnode))
    if index < 0:
        asked = state.requested_instance(new)
        p, s = (np.array([row]) for row in rng.sample(everyone.tolist(), 2))
        if asked.mirrored:
            return placements.allocate_pairs(state, asked, p, s, state.peers[p, s], force=True)
        return placements.allocate_one(state, asked, p, allowed[p])
    asked, own = state.instance(index), {int(state.pnode[index]), int(state.snode[index])}
    targets = [row for row in everyone.tolist() if row not in own]
    if not asked.mirrored or not targets:
        return None
    target = np.array([rng.choice(targets)])
    if rng.random() < 0.5:
        return move(state, asked, MoveKind.FAILOVER, None, allowed)
    return move(state, asked, MoveKind.REPLACE_SECONDARY, target, force=True)


def figures(value: Any) -> list[Any]:
    """All arrays of a state or a part of it, in the order of their fields."""
    if isinstance(value, np.ndarray):
        return [value.tolist()]
    parts = value if isinstance(value, tuple) else [getattr(value, each.name) for each in fields(value)]
    return [figures(each) for each in parts if isinstance(each, np.ndarray | tuple | PlacementRules)]


@given(narrow.cases, st.randoms(use_true_random=False))
def test_copies_do_not_affect_each_other_in_any_order(case: tuple[State, Instance], rng: Random) -> None:
    states, deep = [case[0]], [copy.deepcopy(case[0])]
    for _ in range(12):
        chosen = rng.randrange(len(states))
        if rng.random() < 0.4:
            states.append(states[chosen].copy())
            deep.append(copy.deepcopy(deep[chosen]))
        elif (trial := any_change(rng, states[chosen], case[1])) is not None:
            settling.settle(states[chosen], trial)
            settling.settle(deep[chosen], trial)
    for state, expected in zip(states, deep, strict=True):
        assert figures(state) == figures(expected)
