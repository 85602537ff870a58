"""Rules about nodes, by tags, against a second, slow and plain version of them."""

from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.allocation.evacuate import evacuate_nodes
from ganeti_htools.engine.balancing.balance import rebalance
from ganeti_htools.engine.groups.levelling import level
from ganeti_htools.engine.groups.outcome import RegroupingLimits
from ganeti_htools.engine.groups.redistribution import redistribute
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.engine.redundancy.assessment import assess, excusing
from ganeti_htools.engine.redundancy.rule import Means, can_be_lost, recover
from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.engine.rules.broken_rules import broken_rules
from ganeti_htools.engine.rules.node_rules import CODE, FITS
from ganeti_htools.engine.rules.relocate import move
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.engine.squeezing.power_group import power_group
from ganeti_htools.engine.squeezing.power_plan import AllowedMoves
from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.columns import NOWHERE, Ints
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.options import BalancingOptions, PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, EvacMode, Fail
from tests.property import narrow
from tests.support.placement_rules import (
    APART,
    AVOID,
    NODE,
    ON,
    SPREAD,
    TOGETHER,
    ruled,
    violations,
    with_rules,
)
from tests.support.trials import anew

TO_THE_END = BalancingOptions(min_gain=0.0, min_gain_limit=0.0, unmirrored=True)


def _case(seed: int) -> tuple[Cluster, Instance]:
    rng = Random(seed)
    described = with_rules(rng, narrow.cluster(rng))
    names = tuple(node.name for node in described.nodes)
    return described, ruled(rng, narrow.instance(rng, "new"), names, 0.4)


cases = st.builds(_case, st.integers(0, 1 << 40))


def without_rules(row: Instance) -> Instance:
    return replace(row, tags=tuple(tag for tag in row.tags if tag[:9] not in _STARTS))


_STARTS = {f"htools:{name}:"[:9] for name in ("on", "node", "together", "apart", "spread")}


def added(before: Cluster, after: Cluster) -> set[tuple[str, ...]]:
    return violations(after) - violations(before)


def placed(cluster: Cluster, row: Instance, primary: int, secondary: int) -> Cluster:
    """The cluster with an instance on these nodes, which may be there already."""
    names = [node.name for node in cluster.nodes]
    row = replace(row, pnode=names[primary], snode=None if secondary < 0 else names[secondary])
    others = [each for each in cluster.instances if each.name != row.name]
    return replace(cluster, instances=(*others, row))


@settings(max_examples=25, deadline=None)
@given(case=cases)
def test_new_instance_goes_where_it_breaks_no_rule(case: tuple[Cluster, Instance]) -> None:
    cluster, new = case
    found = anew(derive(cluster, (new,)), new)
    free = anew(derive(cluster, (without_rules(new),)), without_rules(new))
    for at, code in enumerate(found.codes.tolist()):
        primary, secondary = (
            int(np.broadcast_to(rows, found.codes.shape)[at]) for rows in (found.pnode, found.snode)
        )
        breaks = added(cluster, placed(cluster, new, primary, secondary))
        assert code == (CODE[Fail.RULE] if breaks else free.codes[at])


@settings(max_examples=25, deadline=None)
@given(case=cases)
def test_operation_is_refused_if_it_breaks_a_rule_where_the_instance_is_new(
    case: tuple[Cluster, Instance],
) -> None:
    rows = tuple(map(without_sets, case[0].instances))
    cluster = replace(case[0], instances=rows)
    state, nodes = derive(cluster), np.arange(len(cluster.nodes))
    refusals = {CODE[Fail.RULE], CODE[Fail.MIGRATION]}
    possible = {FITS, *CODE.values()} - {CODE[Fail.RULE]}
    for index, row in enumerate(rows):
        own = (int(state.pnode[index]), int(state.snode[index]))
        for trial in operations(state, index, nodes[~np.isin(nodes, own)]):
            p, s = (np.broadcast_to(each, trial.codes.shape).tolist() for each in (trial.pnode, trial.snode))
            for at, code in enumerate(trial.codes.tolist()):
                after = placed(cluster, row, p[at], s[at])
                breaks = [
                    each
                    for each in violations(after)
                    if row.name in each and is_new(each, row, p[at] != own[0])
                ]
                assert code in (refusals if breaks else possible)


def is_new(violation: tuple[str, ...], row: Instance, new_primary: bool) -> bool:
    tag, *names = violation
    return new_primary if tag in (APART, SPREAD) else names[1] not in (row.pnode, row.snode)


def operations(state: State, index: int, others: Ints) -> list[Trial]:
    asked, everyone = state.instance(index), np.ones(len(state.group), np.bool_)
    if not asked.mirrored:
        return [move(state, asked, MoveKind.FAILOVER_TO, others, everyone, force=True)]
    return [
        move(state, asked, MoveKind.FAILOVER, None, everyone, force=True),
        move(state, asked, MoveKind.REPLACE_SECONDARY, others, force=True),
    ]


def without_sets(row: Instance) -> Instance:
    return replace(row, tags=tuple(tag for tag in row.tags if tag != TOGETHER))


@settings(max_examples=20, deadline=None)
@given(case=cases)
def test_balancing_breaks_no_rule_and_keeps_the_derived_state(case: tuple[Cluster, Instance]) -> None:
    state = derive(case[0])
    movable = ~placement_rules.staying(state)
    after, steps = rebalance(state, np.ones(len(state.group), np.bool_), TO_THE_END, movable)
    assert not added(case[0], after.to_cluster())
    assert not {step.instance for step in steps} & set(np.flatnonzero(~movable).tolist())
    expected, found = derive(after.to_cluster()).rules, after.rules
    assert (expected is None) == (found is None)
    if expected is not None and found is not None:
        for name in ("crowds", "primaries", "secondaries", "eligible"):
            assert np.array_equal(getattr(expected, name), getattr(found, name)), name


@settings(max_examples=20, deadline=None)
@given(case=cases, which=st.integers(0, 5), mode=st.sampled_from(EvacMode))
def test_evacuation_breaks_no_rule(case: tuple[Cluster, Instance], which: int, mode: EvacMode) -> None:
    state = derive(case[0])
    node = which % len(state.group)
    here = {EvacMode.PRIMARY: [state.pnode], EvacMode.SECONDARY: [state.snode]}.get(
        mode, [state.pnode, state.snode]
    )
    rows = [int(row) for row in np.flatnonzero(np.any(np.equal(here, node), axis=0))]
    found = evacuate_nodes(state, rows, mode, PlacementOptions())
    assert not added(case[0], found.state.to_cluster())
    assert {each.instance for each in found.moved} | {index for index, _ in found.failed} == set(rows)


@settings(max_examples=14, deadline=None)
@given(case=cases, off=st.integers(0, 5))
def test_nodes_powered_down_leave_no_broken_rule(case: tuple[Cluster, Instance], off: int) -> None:
    state, movable = derive(case[0]), ~placement_rules.staying(derive(case[0]))
    nothing = Instance("nothing", 0, 0, (), 0, template=DiskTemplate.EXT)
    scope = state.group == 0
    group = power_group(state, scope, movable, nothing, nothing, AllowedMoves.ALL)
    after, steps = group.balanced([off % len(state.group)], offline=True)
    assert not added(case[0], after.to_cluster())
    assert movable[[step.instance for step in steps]].all()


@settings(max_examples=14, deadline=None)
@given(case=cases, balance=st.booleans())
def test_moves_between_groups_break_no_rule(case: tuple[Cluster, Instance], balance: bool) -> None:
    state = derive(case[0])
    rules = RegroupingRules(~placement_rules.staying(state), frozenset(state.group.tolist()), plain=True)
    limits = RegroupingLimits()
    if balance:
        outcome = level(state, rules, limits, 0.0, lambda _: None)
    else:
        outcome = redistribute(state, rules, limits, lambda _: None)
    assert not added(case[0], outcome.after.state.to_cluster())


@settings(max_examples=14, deadline=None)
@given(case=cases)
def test_instances_of_a_lost_node_come_back_without_a_broken_rule(case: tuple[Cluster, Instance]) -> None:
    """They come back one after the other; those that do not are gone."""
    state, everyone = derive(case[0]), np.ones(len(derive(case[0]).group), np.bool_)
    names = [node.name for node in case[0].nodes]
    for node in range(len(names)):
        back = dict[str, tuple[str, str | None]]()
        for recovery in recover(state.copy(), node, everyone, every=True):
            row = case[0].instances[recovery.instance]
            if recovery.node != NOWHERE:
                back[row.name] = names[recovery.node], row.pnode if recovery.kind is Means.FAILOVER else None
        after = tuple(
            replace(row, pnode=back[row.name][0], snode=back[row.name][1]) if row.name in back else row
            for row in case[0].instances
            if row.name in back or row.pnode != names[node]
        )
        assert not added(case[0], replace(case[0], instances=after))


@settings(max_examples=20, deadline=None)
@given(case=cases)
def test_assessment_equals_the_rule(case: tuple[Cluster, Instance]) -> None:
    cluster, new = case
    new = replace(new, forthcoming=False)
    state = derive(cluster, (new,))
    everyone = np.ones(len(state.group), np.bool_)
    assessment = assess(state, everyone, PlacementOptions())
    expected = [not can_be_lost(state, node, everyone) for node in range(len(everyone))]
    assert assessment.fragile().tolist() == expected


@settings(max_examples=40, deadline=None)
@given(case=cases)
def test_loss_that_tags_of_the_nodes_instances_make_fatal_refuses_nobody(
    case: tuple[Cluster, Instance],
) -> None:
    state = derive(case[0])
    everyone = np.ones(len(state.group), np.bool_)
    assessment = excusing(assess(state, everyone, PlacementOptions()))
    fragile = assessment.fragile()
    for node in range(len(everyone)):
        here = np.flatnonzero(state.pnode == node).tolist()
        fatal = not can_be_lost(state, node, everyone)
        if not fatal:
            assert not fragile[node]
            assert can_be_lost(assessment.state, node, everyone)
        elif can_be_lost(placement_rules.without_rules(state, here), node, everyone):
            assert not fragile[node]


@settings(max_examples=20, deadline=None)
@given(case=cases, with_tags=st.booleans())
def test_assessment_of_a_new_instance_equals_the_rule(
    case: tuple[Cluster, Instance], with_tags: bool
) -> None:
    cluster, new = case[0], replace(case[1] if with_tags else without_rules(case[1]), forthcoming=False)
    state = derive(cluster, (new,))
    everyone, trial = np.ones(len(state.group), np.bool_), anew(state, new)
    assessment, asked = excusing(assess(state, everyone, PlacementOptions())), trial.asked
    places = np.broadcast_arrays(trial.pnode, trial.snode)
    alike = np.equal(trial.snode, NOWHERE) | (state.group[trial.pnode] == state.group[trial.snode])
    for p, s in np.transpose(places)[(trial.codes == FITS) & alike].tolist():
        pair = np.array([p]), None if s == NOWHERE else np.array([s])
        placed = assessment.placed(asked, p, s)
        survived = all(can_be_lost(placed, node, everyone) for node in np.flatnonzero(everyone).tolist())
        found = bool(assessment.admissible(asked, *pair).all()) and assessment.survives(asked, p, s)
        assert found == survived


@settings(max_examples=25, deadline=None)
@given(case=cases)
def test_tags_with_the_same_members_rule_as_one(case: tuple[Cluster, Instance]) -> None:
    def repeated(row: Instance) -> Instance:
        more = [tag for tag in row.tags if tag in (APART, SPREAD, TOGETHER)]
        return replace(row, tags=(*row.tags, *(f"{tag}{number}" for tag in more for number in range(3))))

    cluster, new = case
    often = replace(cluster, instances=tuple(map(repeated, cluster.instances)))
    once, several = derive(cluster, (new,)), derive(often, (repeated(new),))
    assert np.array_equal(anew(once, new).codes, anew(several, repeated(new)).codes)
    if once.rules is not None and several.rules is not None:
        assert once.rules.crowds.shape == several.rules.crowds.shape
        assert once.rules.primaries.shape == several.rules.primaries.shape


@settings(max_examples=25, deadline=None)
@given(case=cases)
def test_names_all_broken_rules(case: tuple[Cluster, Instance]) -> None:
    found, expected = broken_rules(derive(case[0])), violations(case[0])
    rows, nodes = case[0].instances, case[0].nodes
    named = [(each.rule, {rows[row].name for row in each.instances}) for each in found]
    for tag, *names in expected:
        if tag in (ON, NODE, AVOID):
            assert any(
                each.rule.startswith(tag)
                and rows[each.instances[0]].name == names[0]
                and names[1] in {nodes[node].name for node in each.nodes}
                for each in found
            )
        else:
            assert any(rule == tag and members.issuperset(names[-2:]) for rule, members in named)
    for rule, members in named:
        assert any(rule.startswith(tag) and set(names) & members for tag, *names in expected)


def test_cluster_without_rules_derives_none() -> None:
    rng = Random(1)
    assert derive(narrow.cluster(rng)).rules is None
