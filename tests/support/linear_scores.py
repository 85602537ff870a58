"""Convex scores of clusters from a seed, at places of their instances."""

from dataclasses import replace

import numpy as np

from ganeti_htools.backends import text as text_backend
from ganeti_htools.engine.balancing.balance import candidates
from ganeti_htools.engine.balancing.linear_score import PRIMARY, SECONDARY, LinearScore, linear_score
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from tests.support.clusters import MOVABLE, Shape, cluster
from tests.support.storage_units import with_four_units
from tests.support.text_format import text

SEEDS = range(6)
NODES = 8


def model(seed: int) -> tuple[State, LinearScore]:
    """A cluster with its convex score."""
    shape = Shape(NODES, 33 + seed, templates=({"drbd": 1}, MOVABLE)[seed % 2], offline=int(seed % 3 == 2))
    data = cluster(seed, replace(shape, tags=((), ("desired",))[seed % 2]))
    data = with_four_units(data)[0] if seed % 3 == 0 else data
    state = derive(text_backend.parse(text(data), "test"))
    scope = np.ones(NODES, np.bool_)
    score = linear_score(state, scope, candidates(state, scope, None))
    assert score is not None
    return state, score


def values_at(score: LinearScore, pnode: Ints, snode: Ints) -> list[Floats]:
    """The values of each spread once the instances are on these nodes."""
    everyone, mirrored = np.arange(len(pnode)), snode != NOWHERE
    found = []
    for spread in score.spreads:
        values = spread.values.copy()
        np.add.at(values, pnode, spread.effects[PRIMARY, everyone, pnode])
        there = everyone[mirrored], snode[mirrored]
        np.add.at(values, there[1], spread.effects[SECONDARY][there])
        found.append(values)
    return found


def kept_at(score: LinearScore, pnode: Ints, snode: Ints) -> Floats:
    """The memory that nodes keep free once the instances are on these nodes."""
    kept, mirrored = score.kept.copy(), snode != NOWHERE
    np.add.at(kept, (pnode[mirrored], snode[mirrored]), score.memory[mirrored])
    largest: Floats = kept.max(axis=0)
    return largest


def deviation(values: Floats, counted: Bools) -> float:
    return float(values[counted].std())
