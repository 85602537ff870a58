"""Which groups are emptied, in which order, and where their instances go; by hand."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.groups.compression import compress, emptiable_groups
from ganeti_htools.engine.groups.outcome import RegroupingLimits, RegroupingOutcome
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.model.cluster import Cluster, Group, Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import AllocPolicy, DiskTemplate
from tests.support.by_hand import instance, node

EXT, DRBD = DiskTemplate.EXT, DiskTemplate.DRBD


def racks(sizes: Sequence[int], rows: Sequence[Instance], last_resort: Sequence[int] = ()) -> State:
    """Racks r0, r1, ... of two nodes (r0a, r0b, ...) with so much memory each."""
    policies = {True: AllocPolicy.LAST_RESORT, False: AllocPolicy.PREFERRED}
    groups = tuple(Group(f"r{at}", f"u{at}", policies[at in last_resort]) for at in range(len(sizes)))
    used = {name: sum(row.mem for row in rows if row.pnode == name) for name in names(len(sizes))}
    nodes = tuple(
        node(name, sizes[int(name[1:-1])], taken, f"u{name[1:-1]}", t_cpu=16.0)
        for name, taken in used.items()
    )
    return derive(Cluster(groups, nodes, tuple(rows)))


def names(number: int) -> list[str]:
    return [f"r{at}{letter}" for at in range(number) for letter in "ab"]


def rules(state: State) -> RegroupingRules:
    return RegroupingRules(np.ones(len(state.pnode), np.bool_), frozenset(state.group.tolist()))


def emptied(state: State, *named: int, number: int = 1) -> RegroupingOutcome:
    return compress(state, rules(state), RegroupingLimits(), named, number, 0.0, lambda _: None)


def test_the_group_with_most_free_memory_comes_first() -> None:
    rows = [instance(f"i{at}", EXT, f"r{at}a", mem=1000) for at in range(3)]
    found, others = emptiable_groups(Regrouping(state := racks((10_000, 20_000, 15_000), rows), rules(state)))
    assert (found, others) == ([1, 2, 0], [])


def test_of_similar_groups_what_copies_least_comes_first() -> None:
    rows = [instance("mirror", DRBD, "r0a", "r0b", mem=200), instance("pool", EXT, "r1a", mem=1000)]
    found, _ = emptiable_groups(Regrouping(state := racks((10_000, 10_000), rows), rules(state)))
    assert found == [1, 0]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (
            {"mem": 9000},
            "it uses 17.6 GiB of memory; the groups that can take its instances have 5.9 GiB free",
        ),
        ({"vcpus": 80}, "it uses 160 virtual CPUs; the groups that can take its instances have 125 free"),
    ],
)
def test_group_using_more_than_others_have_free_is_no_candidate(facts: dict[str, int], why: str) -> None:
    large = [replace(instance(f"large{at}", EXT, f"r0{at}"), **facts) for at in "ab"]  # type: ignore[arg-type]
    state = racks((10_000, 3500), [*large, instance("small", EXT, "r1a", mem=1000)])
    outcome = emptied(state)
    assert (0, why) in outcome.failed


def test_instances_go_to_groups_of_the_last_resort_only_if_they_must() -> None:
    rows = [instance(f"i{at}", EXT, "r0a", mem=1500) for at in range(2)]
    rows += [instance("one", EXT, "r1a", mem=1000), instance("two", EXT, "r2a", mem=100)]
    roomy = emptied(racks((10_000, 10_000, 10_000), rows, last_resort=(2,)), 0)
    assert {roomy.after.group_of(move.instance) for move in roomy.after.moved} == {1}
    tight = emptied(racks((10_000, 3000, 10_000), rows, last_resort=(2,)), 0)
    assert [tight.after.group_of(move.instance) for move in tight.after.moved] == [1, 2]


def test_two_groups_are_emptied_into_the_third() -> None:
    rows = [instance(f"i{at}", EXT, f"r{at}a", mem=1000) for at in range(3)]
    outcome = emptied(racks((12_000, 11_000, 10_000), rows), number=2)
    assert outcome.done == (0, 1)
    assert {each.instance: outcome.after.group_of(each.instance) for each in outcome.after.moved} == {
        0: 2,
        1: 2,
    }
    assert [each.group for each in outcome.possible] == [0, 1, 2]


def test_the_last_group_with_instances_stays() -> None:
    rows = [instance(f"i{at}", EXT, f"r{at}a", mem=1000) for at in range(2)]
    assert emptied(racks((10_000, 10_000), rows), number=2).done in {(0,), (1,)}


def test_refusal_explains_what_several_instances_lack_together() -> None:
    rows = [instance(f"large{at}", EXT, f"r0{at}", mem=7000) for at in "ab"]
    rows += [instance(f"there{at}", EXT, f"r1{at}", mem=2000) for at in "ab"]
    [(_, why)] = emptied(racks((16_000, 16_000), rows), 0).failed
    lost = "largea, largeb would not come back after the loss of r1a, r1b, unlike now"
    assert why == f"instance largea: no room in r1 ({lost}); tried after moving largeb"


def test_refusal_names_the_reserve_that_the_last_instance_takes() -> None:
    rows = [instance(f"i{at}", EXT, "r0a", mem=1000) for at in range(2)]
    state = racks((10_000, 10_000), [*rows, instance("there", EXT, "r1a", mem=1000)])
    policy = replace(state.policies[1], std=replace(state.policies[1].std, memory_size=3500))
    state = replace(state, policies=(policy, policy))
    outcome = compress(state, rules(state), RegroupingLimits(), (0,), 1, 2.0, lambda _: None)
    assert outcome.failed == ((0, "instance i0: no room for the reserve in r1; tried after moving i1"),)


@pytest.mark.parametrize(("reserve", "number"), [(1, 1), (2, 0)])
def test_reserve_is_of_the_first_template_whose_storage_the_group_has(reserve: float, number: int) -> None:
    rows = [instance("moved", EXT, "r0a", mem=1000), instance("there", EXT, "r1a", mem=1000)]
    cluster = racks((10_000, 10_000), rows).cluster
    policy = cluster.groups[0].ipolicy
    templates = (DiskTemplate.FILE, DiskTemplate.PLAIN, EXT)
    policy = replace(policy, disk_templates=templates, std=replace(policy.std, disk_size=4000))
    unit = Unit(DesiredUnit(StorageType.LVM_VG, "xenvg"), 5000, 5000)
    groups = tuple(replace(group, ipolicy=policy) for group in cluster.groups)
    nodes = tuple(replace(row, storage=(unit,)) for row in cluster.nodes)
    state = derive(replace(cluster, groups=groups, nodes=nodes))
    outcome = compress(state, rules(state), RegroupingLimits(), (0,), 1, reserve, lambda _: None)
    assert len(outcome.done) == number
