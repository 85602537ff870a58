"""Places of instances that keep distances, against all choices of places."""

from itertools import product
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.rules.contradictions import Separation, all_find_places, distance_of
from ganeti_htools.model.columns import Bools


def _near(rng: Random, nodes: int) -> Bools:
    """Nodes at one location each, or sometimes at several."""
    located = np.zeros((nodes, 3), np.bool_)
    for node in range(nodes):
        located[node, rng.sample(range(3), rng.choice((1, 1, 1, 2)))] = True
    near: Bools = located @ located.T if rng.random() < 0.6 else np.eye(nodes, dtype=np.bool_)
    return near


def _case(seed: int) -> tuple[Bools, list[Separation]]:
    rng = Random(seed)
    rows, nodes = rng.randint(1, 6), rng.randint(1, 5)
    places = np.array([[rng.random() < 0.6 for _ in range(nodes)] for _ in range(rows)])
    separations = [
        Separation(distance_of(_near(rng, nodes)), np.array(sorted(rng.sample(range(rows), number))))
        for number in (rng.randint(1, rows) for _ in range(rng.randint(0, 3)))
    ]
    return places, separations


def keeps_distance(nodes: tuple[int, ...], separations: list[Separation]) -> bool:
    return not any(
        distance.near[nodes[one], nodes[other]]
        for distance, members in separations
        for one in members.tolist()
        for other in members.tolist()
        if one < other
    )


@settings(max_examples=150, deadline=None)
@given(case=st.builds(_case, st.integers(0, 1 << 40)))
def test_finds_places_if_there_are_any(case: tuple[Bools, list[Separation]]) -> None:
    places, separations = case
    choices = product(*(np.flatnonzero(row).tolist() for row in places))
    expected = any(keeps_distance(nodes, separations) for nodes in choices)
    assert all_find_places(places, separations, iter(range(10_000))) is expected


def test_gives_up_without_patience() -> None:
    apart = Separation(distance_of(np.eye(3, dtype=np.bool_)), np.arange(3))
    places = ~np.eye(3, dtype=np.bool_)
    assert all_find_places(places, [apart], iter(range(2))) is None
    assert all_find_places(places, [apart], iter(range(10))) is True
