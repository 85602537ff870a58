"""What hspace counts, hail places: both ask the same engine."""

import random
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.backends import text
from ganeti_htools.engine.allocation.allocate import in_group
from ganeti_htools.engine.capacity.counting import standard, tiered
from ganeti_htools.engine.capacity.fill import fill
from ganeti_htools.engine.capacity.scope import AllocationScope
from ganeti_htools.engine.redundancy.assessment import assess
from ganeti_htools.engine.rules import settling
from ganeti_htools.model.cluster import Disk, Instance
from ganeti_htools.model.columns import NOWHERE, of_class, of_unit
from ganeti_htools.model.derive import derive
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import TYPE_OF
from ganeti_htools.model.types import DiskTemplate
from tests.support.classes import with_classes
from tests.support.clusters import Shape, cluster
from tests.support.seeds import one_by_one
from tests.support.storage_units import with_units
from tests.support.text_format import text as text_of

TEMPLATES = (DiskTemplate.DRBD, DiskTemplate.PLAIN, DiskTemplate.EXT, DiskTemplate.FILE)


def any_state(rng: random.Random, **facts: object) -> State:
    shape = {
        "nodes": rng.randint(3, 5),
        "instances": rng.randint(0, 15),
        "templates": rng.choice(({"drbd": 1}, {"plain": 1, "ext": 1}, {"drbd": 2, "plain": 1})),
        "fill": rng.choice((0.3, 0.6, 0.85)),
        "offline": rng.choice((0, 0, 1)),
        "tags": rng.choice(((), ("location",))),
        "exclusive_storage": rng.random() < 0.2,
    }
    made = cluster(rng.randrange(1 << 30), Shape(**(shape | facts)))  # type: ignore[arg-type]
    if rng.random() < 0.4:
        made = with_units(made, rng)
    described = text.parse(text_of(made), "generated")
    if rng.random() < 0.4:
        described = with_classes(rng, described)
    return derive(described)


def any_size(rng: random.Random) -> InstanceSize:
    return InstanceSize(rng.choice((512, 1024, 3000)), rng.choice((5120, 20480)), rng.choice((1, 2)), 1)


def any_kind(rng: random.Random, state: State, *templates: DiskTemplate) -> InstanceKind:
    """Instances with a disk, or several, on any units that nodes have."""
    template, use = rng.choice(templates or TEMPLATES), rng.choice((0, 1, 3))
    there = [unit for unit in state.units.local if unit.type is TYPE_OF[template] and state.units.reported]
    disks = tuple(
        Disk(rng.choice((1024, 5120)), 1, rng.choice((None, *there))) for _ in range(rng.randint(2, 3))
    )
    unit, disks = rng.choice((None, *there)), disks if rng.random() < 0.3 else ()
    demands = [(name, rng.choice((1, 2))) for name in state.units.classes if rng.random() < 0.6]
    return InstanceKind(template, use, unit, disks, tuple(demands))


def site(state: State, options: PlacementOptions) -> AllocationScope:
    nodes = np.flatnonzero(~state.columns.offline)
    return AllocationScope(nodes, np.zeros(len(state.group), np.bool_), options)


def place(state: State, row: Instance, options: PlacementOptions) -> tuple[int, int] | None:
    """Place one more as hail does, in place; its nodes."""
    outcome = in_group(state, state.requested_instance(row), row.template.required_nodes, 0, options)
    assert outcome.solution is not None
    if outcome.solution.trial is None:
        return None
    settling.settle(state, outcome.solution.trial)
    primary, *secondary = outcome.solution.nodes
    return primary, secondary[0] if secondary else NOWHERE


@pytest.mark.parametrize("seed", one_by_one(60))
def test_every_instance_goes_where_one_alone_would(seed: int) -> None:
    rng = random.Random(seed)
    state, options = any_state(rng), PlacementOptions(capacity=False)
    kind, size = any_kind(rng, state), any_size(rng)
    first = len(state.pnode)
    result = standard(state, kind, size, site(state, options), limit=rng.choice((None, 5)))
    after, single = result.state, state.copy()
    for pnode, snode in zip(after.pnode[first:].tolist(), after.snode[first:].tolist(), strict=True):
        assert place(single, kind.instance(size), options) == (pnode, snode)
    if result.placed != 5:
        assert place(single, kind.instance(size), options) is None
    for name in after.columns.changing():
        assert np.array_equal(getattr(after.columns, name), getattr(single.columns, name)), name
    assert np.array_equal(after.peers, single.peers)
    assert np.array_equal(after.class_peers, single.class_peers)


@pytest.mark.parametrize("seed", range(6))
def test_redundant_ones_find_a_redundant_place_alone(seed: int) -> None:
    rng = random.Random(seed)
    template = rng.choice(TEMPLATES)
    others = {"drbd": 1} if template is DiskTemplate.DRBD else {"plain": 1, "ext": 1}
    options = PlacementOptions()
    state = any_state(rng, templates=others, instances=8, offline=0, fill=0.3)
    while not assess(state, np.ones(len(state.group), np.bool_), options).holds():
        state = any_state(rng, templates=others, instances=8, offline=0, fill=0.3)
    kind, size = any_kind(rng, state, template), any_size(rng)
    counted = standard(state, kind, size, site(state, options), limit=15)
    single, placed = state.copy(), 0
    while placed < 15 and place(single, kind.instance(size), options):
        placed += 1
    assert counted.placed == placed


# In these, once some more are there, all could be lost again after they could not.
AGAIN = (48, 74, 79, 169, 211, 217)


@pytest.mark.parametrize("seed", [*AGAIN, *range(6)])
def test_counting_ends_where_hail_refuses_the_next(seed: int) -> None:
    rng = random.Random(seed)
    options = PlacementOptions()
    shape = Shape(
        nodes=rng.randint(3, 5),
        instances=rng.randint(6, 14),
        templates=rng.choice(({"ext": 1}, {"plain": 1}, {"plain": 1, "ext": 1})),
        fill=rng.choice((0.6, 0.85)),
    )
    state = derive(text.parse(text_of(cluster(seed, shape)), "generated"))
    kind = InstanceKind(rng.choice((DiskTemplate.EXT, DiskTemplate.PLAIN)), 1)
    row = kind.instance(size := InstanceSize(rng.choice((128, 256, 512)), 1024, 1))
    if not assess(state, np.ones(len(state.group), np.bool_), options).holds():
        assert seed not in AGAIN
        return
    counted, single = standard(state, kind, size, site(state, options), limit=None), state.copy()
    for pnode in counted.state.pnode[len(state.pnode) :].tolist():
        assert place(single, row, options) == (pnode, NOWHERE)
    assert place(single, row, options) is None


@pytest.mark.parametrize("seed", one_by_one(30))
def test_mirrored_ones_go_where_hail_places_them_until_it_refuses(seed: int) -> None:
    rng, options = random.Random(seed), PlacementOptions()
    shape = Shape(
        nodes=rng.randint(3, 6),
        instances=rng.randint(6, 14),
        templates=rng.choice(({"ext": 1}, {"plain": 1}, {"plain": 1, "ext": 1}, {"drbd": 1, "plain": 1})),
        fill=rng.choice((0.6, 0.75, 0.85)),
        tags=rng.choice(((), (), ("location",), ("exclusion",), ("migration",))),
    )
    state = derive(text.parse(text_of(cluster(seed, shape)), "generated"))
    kind = InstanceKind(DiskTemplate.DRBD, 1)
    row = kind.instance(size := InstanceSize(rng.choice((512, 1024, 1500)), 1024, 1))
    counted, single = standard(state, kind, size, site(state, options), limit=None), state.copy()
    first = len(state.pnode)
    for pnode, snode in zip(
        counted.state.pnode[first:].tolist(), counted.state.snode[first:].tolist(), strict=True
    ):
        assert place(single, row, options) == (pnode, snode)
    assert place(single, row, options) is None


@pytest.mark.parametrize("seed", range(6))
def test_a_redundant_cluster_stays_redundant(seed: int) -> None:
    rng = random.Random(seed)
    state, options = any_state(rng, templates={"plain": 1, "ext": 1}), PlacementOptions()
    everyone = np.ones(len(state.group), np.bool_)
    if assess(state, everyone, options).holds():
        kind = replace(any_kind(rng, state, DiskTemplate.EXT, DiskTemplate.PLAIN), disks=())
        result = tiered(state, kind, [InstanceSize(4096, 20480, 2)], site(state, options), limit=None)
        assert assess(result.state, everyone, options).holds()


@pytest.mark.parametrize("seed", range(6))
def test_the_state_afterwards_is_that_of_the_cluster_afterwards(seed: int) -> None:
    rng = random.Random(seed)
    state = any_state(rng, offline=0, exclusive_storage=False)
    row = any_kind(rng, state).instance(any_size(rng))
    filled = fill(state, row, np.arange(len(state.group)), first=7, limit=6)
    names = [each.name for each in state.cluster.instances[len(state.cluster.instances) - filled.placed :]]
    assert names == [f"new-{number}" for number in range(7, 7 + filled.placed)]
    settled = derive(state.to_cluster())
    same = ("i_mem", "f_dsk", "u_cpu", "inst_spindles", "r_mem", "primaries", "secondaries", "load_dsk")
    classes = [of_class(figure, which) for which in range(len(state.units.classes)) for figure in "fr"]
    for name in (*same, *classes, *(of_unit("f_dsk", unit) for unit in range(len(state.units.local)))):
        assert np.array_equal(getattr(state.columns, name), getattr(settled.columns, name)), name
    assert np.array_equal(state.columns.location, settled.columns.location)
    assert np.array_equal(state.peers, settled.peers)
    assert np.array_equal(state.class_peers, settled.class_peers)
