"""Balancing by sums takes the same steps as balancing by the rules, and leaves the same state."""

import random
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.backends import text
from ganeti_htools.engine.balancing import balance, shared_storage
from ganeti_htools.engine.balancing.shared_instances import regular, shared_instances
from ganeti_htools.engine.squeezing.power_group import TO_THE_END
from ganeti_htools.model.cluster import Load
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from tests.support.classes import with_classes
from tests.support.clusters import TIGHT, Shape, cluster
from tests.support.storage_units import with_units
from tests.support.text_format import text as text_of

TEMPLATES = {"ext": 8, "sharedfile": 3, "rbd": 2, "diskless": 1}


def made(seed: int) -> tuple[State, Bools, Bools]:
    """A cluster without disks to be copied, some nodes offline; a group, and the instances that may move."""
    rng = random.Random(seed)
    shape = Shape(
        nodes=rng.randrange(2, 8),
        instances=rng.randrange(1, 30),
        templates=TEMPLATES | rng.choice(({}, {"file": 1, "plain": 1})),
        fill=rng.choice((0.3, 0.6, TIGHT, 0.95)),
        offline=rng.choice((0, 0, 1)),
        down=rng.choice((0.0, 0.3)),
        hypervisor=rng.choice(("kvm", "xen-pvm")),
        groups=rng.choice((1, 1, 2)),
    )
    data = cluster(seed, shape)
    described = text.parse(text_of(with_units(data, rng) if rng.random() < 0.4 else data), "generated")
    alike = rng.random() < 0.3  # so that many moves are equally good
    loaded = rng.random() < 0.5
    rows = [
        replace(
            row,
            mem=1024 if alike else row.mem,
            vcpus=1 if alike else row.vcpus,
            load=Load(*(rng.random() * 2 for _ in range(4))) if loaded else row.load,
            auto_balance=rng.random() < 0.95,
        )
        for row in described.instances
    ]
    nodes = [
        replace(node, offline=node.offline or rng.random() < 0.3, cpu_speed=rng.choice((1.0, 2.0)))
        for node in described.nodes
    ]
    nodes[0] = replace(nodes[0], offline=False)
    if rng.random() < 0.3:  # and nobody demands anything
        nodes = list(with_classes(rng, replace(described, nodes=tuple(nodes))).nodes)
    state = derive(replace(described, instances=tuple(rows), nodes=tuple(nodes)))
    scope = state.group == rng.choice(state.group)
    return state, scope, np.array([rng.random() < 0.95 for _ in rows], np.bool_) & scope[state.pnode]


@pytest.mark.parametrize("seeds", [range(20), range(20, 40), range(40, 60)])
def test_steps_and_states_equal_those_by_the_rules(seeds: range) -> None:
    number = rated = 0
    for seed in seeds:
        state, scope, movable = made(seed)
        instances = shared_instances(state, movable)
        assert instances is not None
        if not regular(state, scope):
            continue
        rated += 1
        expected, plan = balance.rebalance(state, scope, replace(TO_THE_END, unmirrored=False), movable)
        found, steps = shared_storage.rebalance_shared(state, scope, instances)
        number += len(steps)
        assert [replace(step, score=0.0) for step in steps] == [replace(step, score=0.0) for step in plan]
        assert [step.score for step in steps] == pytest.approx([step.score for step in plan], abs=1e-8)
        for name, one, other in zip(found.columns._fields, found.columns, expected.columns, strict=True):
            assert np.array_equal(one, other, equal_nan=True), (seed, name)
        for name in ("pnode", "snode", "stamp"):
            assert np.array_equal(getattr(found, name), getattr(expected, name)), (seed, name)
        assert found.to_cluster() == expected.to_cluster()
    assert number > 20
    assert rated > 15


@pytest.mark.parametrize(
    "shape",
    [
        Shape(nodes=3, instances=9, templates={"ext": 1, "drbd": 1}),
        Shape(nodes=3, instances=9, templates={"ext": 1}, tags=("exclusion",)),
        Shape(nodes=3, instances=9, templates={"ext": 1}, tags=("migration",)),
        Shape(nodes=3, instances=9, templates={"ext": 1}, tags=("location",)),
        Shape(nodes=3, instances=9, templates={"ext": 1}, tags=("desired",)),
        Shape(nodes=3, instances=9, templates={"ext": 1}, forthcoming=0.9),
        Shape(nodes=3, instances=9, templates={"ext": 1}, exclusive_storage=True),
    ],
)
def test_other_instances_are_left_to_the_rules(shape: Shape) -> None:
    state = derive(text.parse(text_of(cluster(1, shape)), "generated"))
    assert shared_instances(state, np.ones(len(state.pnode), np.bool_)) is None
