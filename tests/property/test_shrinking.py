"""Sizes that are passed over in one go are those that would be tried in vain one after the other."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from ganeti_htools.backends import simu, text
from ganeti_htools.engine.capacity.counting import tiered
from ganeti_htools.engine.capacity.scope import AllocationScope, on_all_pairs
from ganeti_htools.engine.capacity.shrinking import Failures, Shrinking, SizeRun, by_frequency
from ganeti_htools.engine.capacity.verdicts import SizeVerdicts
from ganeti_htools.engine.rules.pools import pool_room
from ganeti_htools.model.derive import derive
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import TYPE_OF
from ganeti_htools.model.types import DiskTemplate, Fail
from ganeti_htools.model.units_in_use import known_pools
from tests.support import seeds
from tests.support.classes import with_classes
from tests.support.clusters import FEW_MIRRORS, Shape, cluster
from tests.support.storage_units import with_units
from tests.support.text_format import text as text_of

TEMPLATES = (DiskTemplate.DRBD, DiskTemplate.PLAIN, DiskTemplate.EXT)


def any_shrinking(rng: random.Random) -> Shrinking:
    shape = Shape(
        nodes=rng.randint(4, 6),
        instances=rng.randint(0, 12),
        templates=rng.choice(({"drbd": 1}, {"plain": 1, "ext": 1})),
        fill=rng.choice((0.3, 0.6, 0.85)),
        groups=rng.choice((1, 1, 2)),
        policies=rng.random() < 0.5,
        exclusive_storage=rng.random() < 0.3,
    )
    made = cluster(rng.randrange(1 << 30), shape)
    if rng.random() < 0.4:
        made = with_units(made, rng)
    described = text.parse(text_of(made), "generated")
    state = derive(with_classes(rng, described) if rng.random() < 0.3 else described)
    template = rng.choice(TEMPLATES)
    there = [*state.units.local, *known_pools(state.cluster, state.units)] if state.units.reported else []
    units = sorted((unit for unit in there if unit.type is TYPE_OF[template]), key=str)
    demands = tuple((name, 1) for name in state.units.classes if rng.random() < 0.6)
    kind = InstanceKind(template, 1, rng.choice((None, *units)), demands=demands)
    return Shrinking(state, kind, site(state, PlacementOptions(capacity=rng.random() < 0.5)))


def site(state: State, options: PlacementOptions) -> AllocationScope:
    nodes, nobody = np.flatnonzero(~state.columns.offline), np.zeros(len(state.group), np.bool_)
    return AllocationScope(nodes, nobody, options, pools=pool_room(state))


def any_size(rng: random.Random) -> InstanceSize:
    return InstanceSize(
        rng.randrange(64, 40_000), rng.randrange(256, 200_000), rng.randint(1, 12), rng.randint(1, 4)
    )


def one_by_one(shrinking: Shrinking, size: InstanceSize, failures: Failures) -> InstanceSize | None:
    """The first size with a redundant place, less of the most frequent reason, or else of the next."""
    for fail in by_frequency(failures):
        step = size.smaller(fail) if failures[fail] else None
        while step is not None and (smaller := step.smaller(fail)) is not None:
            (verdict,) = shrinking.verdicts.of(step)
            if verdict.fits and not shrinking.infeasible(step) and shrinking.has_place(step):
                return step
            step = smaller if verdict.failures[fail] else None
    return None


@pytest.mark.parametrize("seed", seeds.one_by_one(60))
def test_a_size_has_a_pair_if_looking_at_all_of_them_finds_one(seed: int) -> None:
    rng = random.Random(seed)
    shape = Shape(
        nodes=rng.randint(4, 10),
        instances=rng.randint(6, 20),
        templates=rng.choice(({"ext": 1}, {"plain": 1}, {"plain": 1, "ext": 1}, {"drbd": 1, "plain": 1})),
        fill=rng.choice((0.6, 0.75, 0.85)),
        groups=rng.choice((1, 1, 2)),
        tags=rng.choice(((), (), ("exclusion",), ("migration",))),
    )
    state = derive(text.parse(text_of(cluster(seed, shape)), "generated"))
    shrinking = Shrinking(state, InstanceKind(DiskTemplate.DRBD, 1), site(state, PlacementOptions()))
    size = InstanceSize(rng.randrange(64, 6_000), rng.randrange(256, 40_000), rng.randint(1, 4))
    for fail in (Fail.MEM, Fail.DISK):
        for _ in range(20):
            (verdict,) = shrinking.verdicts.of(size)
            asked = state.requested_instance(shrinking.kind.instance(size))
            found = on_all_pairs(state, asked, shrinking.scope, shrinking.assessment)
            if verdict.fits:
                assert shrinking.has_place(size) is any(each.trial is not None for each in found)
            shrinking.look_ahead(size, fail)
            if (smaller := size.smaller(fail)) is None:
                break
            size = smaller


@pytest.mark.parametrize("seeds", seeds.few(range(15), 30))
def test_what_is_ruled_out_has_no_redundant_pair(seeds: range) -> None:
    ruled_out = 0
    for seed in seeds:
        rng = random.Random(seed)
        nodes = rng.randint(3, 5)
        instances, templates = nodes * rng.randint(3, 6), rng.choice(FEW_MIRRORS)
        shape = Shape(
            nodes=nodes, instances=instances, templates=templates, fill=rng.choice((0.65, 0.75, 0.85))
        )
        state = derive(text.parse(text_of(cluster(seed, shape)), "generated"))
        shrinking = Shrinking(state, InstanceKind(DiskTemplate.DRBD, 1), site(state, PlacementOptions()))
        for _ in range(12):
            size = InstanceSize(rng.randrange(64, 6_000), rng.randrange(256, 100_000), 1)
            if shrinking.verdicts.of(size)[0].fits and shrinking.is_ruled_out(size):
                asked = state.requested_instance(shrinking.kind.instance(size))
                found = on_all_pairs(state, asked, shrinking.scope, shrinking.assessment)
                assert all(each.trial is None for each in found)
                ruled_out += 1
    assert ruled_out > 20


@pytest.mark.parametrize("seed", range(8))
def test_disk_that_nodes_need_not_give_makes_no_difference(seed: int) -> None:
    rng = random.Random(seed)
    shape = Shape(nodes=rng.randint(3, 5), instances=rng.randint(6, 14), templates={"ext": 1}, fill=0.85)
    state = derive(text.parse(text_of(cluster(seed, shape)), "generated"))
    shrinking = Shrinking(state, InstanceKind(DiskTemplate.SHARED_FILE, 1), site(state, PlacementOptions()))
    for _ in range(30):
        size = InstanceSize(rng.randrange(64, 8_000), rng.randrange(2048, 1 << 17), 1)
        steps, fits = shrinking.indifferent_steps(size, Fail.DISK), shrinking.verdicts.of(size)[0].fits
        assert steps == shrinking.free_steps(size, Fail.DISK) > 0
        for step in (rng.randint(1, steps), steps):
            smaller, anew = size.less(Fail.DISK, step), Shrinking(state, shrinking.kind, shrinking.scope)
            assert anew.verdicts.of(smaller) == shrinking.verdicts.of(size)
            assert not fits or anew.has_place(smaller) is shrinking.has_place(size)
        assert shrinking.indifferent_steps(size, Fail.MEM) == 0
        plain = Shrinking(state, InstanceKind(DiskTemplate.PLAIN, 1), shrinking.scope)
        assert plain.indifferent_steps(size, Fail.DISK) == 0


def barren(rng: random.Random, shrinking: Shrinking, number: int) -> Iterator[tuple[InstanceSize, SizeRun]]:
    """Those of so many sizes that certainly have no place, each with the run that it begins."""
    for size in (any_size(rng) for _ in range(number)):
        if shrinking.infeasible(size):
            run = shrinking.failed(size)
            assert run is not None
            yield size, run


@pytest.mark.parametrize("seed", seeds.one_by_one(40))
def test_a_run_has_one_verdict(seed: int) -> None:
    rng = random.Random(seed)
    shrinking = any_shrinking(rng)
    for size, run in barren(rng, shrinking, 5):
        for at in rng.sample(range(run.number), min(run.number, 40)):
            assert shrinking.infeasible(run[at])
            assert shrinking.verdicts.of(run[at]) == shrinking.verdicts.of(size)


@pytest.mark.parametrize("seed", seeds.one_by_one(25))
def test_a_sidestep_is_the_first_that_leads_to_a_place(seed: int) -> None:
    rng = random.Random(seed)
    shrinking = any_shrinking(rng)
    for size, run in barren(rng, shrinking, 3):
        run = SizeRun(size, run.failures, min(run.number, 12))
        found = None
        for at in reversed(range(run.number)):
            if (end := one_by_one(shrinking, run[at], run.failures)) is not None:
                found = at, end
                break
        assert shrinking.sidestep(run) == found


def test_few_of_many_sizes_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0
    plain = SizeVerdicts._verdicts

    def counted(self: SizeVerdicts, sizes, refused, limited=True):  # type: ignore[no-untyped-def]
        nonlocal looked
        looked += len(sizes)
        return plain(self, sizes, refused, limited)

    monkeypatch.setattr(SizeVerdicts, "_verdicts", counted)
    state = derive(simu.parse(["p,3,8T,2T,64"]))
    # Disk, memory and CPUs are far more than the policy allows.
    largest = InstanceSize(1 << 20, 1 << 22, 16)
    result = tiered(
        state, InstanceKind(DiskTemplate.EXT, 1), [largest], site(state, PlacementOptions()), limit=3
    )
    assert result.tiers == ((InstanceSize(32768, 1 << 20, 8), 3),)
    assert looked < 500
