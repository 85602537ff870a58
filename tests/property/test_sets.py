"""Sets that stay together move as a whole: the best of all such moves, and no rule is broken on the way."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.balancing.balance import allowed, candidates, score_of, stepwise
from ganeti_htools.engine.balancing.front import optimise
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.batches import batches_of
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.relocate import try_move
from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Cluster, Instance, Load
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import KINDS, Move, MoveKind
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.property import narrow
from tests.support.classes import with_classes
from tests.support.patience import Steps
from tests.support.placement_rules import TOGETHER, violations, with_rules

OPTIONS = BalancingOptions(min_gain=0.0, min_gain_limit=0.0)


def with_sets(rng: Random, described: Cluster) -> Cluster:
    """The cluster with up to three sets, whose members are together and mostly of one disk template."""
    rows, names = list(described.instances), [node.name for node in described.nodes]
    left = list(range(len(rows)))
    rng.shuffle(left)
    for number in range(rng.randint(1, 3)):
        members, left = left[: rng.randint(2, 3)], left[3:]
        pnode, snode = rng.sample(names, 2)
        template = rng.choice((None, *[DiskTemplate.DRBD] * 4, DiskTemplate.EXT))
        for index in members:
            kind = template or rows[index].template
            rows[index] = replace(
                rows[index],
                template=kind,
                pnode=pnode,
                snode=snode if kind is DiskTemplate.DRBD else None,
                tags=(*rows[index].tags, f"htools:together:set{number}"),
                auto_balance=rng.random() < 0.95,
            )

    def used(instances: list[Instance], name: str) -> int:
        return sum(row.mem for row in instances if row.pnode == name and row.uses_memory)

    nodes = tuple(
        replace(node, t_mem=node.t_mem + used(rows, node.name) - used([*described.instances], node.name))
        for node in described.nodes
    )
    return replace(described, nodes=nodes, instances=tuple(rows))


def _case(seed: int) -> Cluster:
    rng = Random(seed)
    while len((described := narrow.cluster(rng)).instances) < 4:
        pass
    rows = (replace(row, load=Load(*(rng.random() for _ in range(4)))) for row in described.instances)
    described = replace(described, instances=tuple(rows))
    if rng.random() < 0.6:  # no tags that matter, and nothing forthcoming
        rows = (replace(row, forthcoming=False) for row in described.instances)
        described = replace(described, tags=(), instances=tuple(rows))
    if rng.random() < 0.3:
        described = narrow.with_units(rng, described)
    if rng.random() < 0.3:
        described = with_classes(rng, described)
    if rng.random() < 0.3:
        described = with_rules(rng, described, most=0.1)
    return with_sets(rng, described)


cases = st.builds(_case, st.integers(0, 1 << 40))


def sets_of(cluster: Cluster) -> list[list[int]]:
    """All sets, and the other instances, in order; instances with a common tag are in one set."""
    found: list[tuple[set[str], list[int]]] = []
    for index, row in enumerate(cluster.instances):
        tags = {tag for tag in row.tags if tag.startswith("htools:together:")}
        met = [each for each in found if each[0] & tags]
        found = [each for each in found if each not in met]
        members = [index, *(row for _, rows in met for row in rows)]
        found.append((tags.union(*(each[0] for each in met)), members))
    return [sorted(members) for _, members in found]


def is_whole(state: State, members: list[int]) -> bool:
    """Whether members of a set have one primary, and the mirrored ones one secondary."""
    secondaries = {int(state.snode[row]) for row in members} - {NOWHERE}
    return len({int(state.pnode[row]) for row in members}) == 1 and len(secondaries) < 2


def moves_as_one(described: Cluster, members: list[int]) -> bool:
    """Whether a set may move: all members in the same ways, without exclusion tags in common."""
    rows = [described.instances[row] for row in members]
    prefixes = tags.exclusion_prefixes(described.tags)
    excluding = [tag for row in rows for tag in tags.exclusion_tags(prefixes, row.tags)]
    desires = {tags.desired_locations(described.tags, row.tags) for row in rows}
    kinds = {(row.template.mirror, row.forthcoming) for row in rows}
    return len(kinds) == len(desires) == 1 and len({*excluding}) == len(excluding)


def after_move(
    state: State, members: list[int], kind: MoveKind, node: int, options: BalancingOptions
) -> State | None:
    """The state after all members have moved, None if that is impossible."""
    state = state.copy()
    for row in members:
        batches, facts = batches_of(state, np.arange(len(state.pnode)) == row, options.unmirrored)
        own = {int(state.pnode[row]), int(state.snode[row])} - {NOWHERE}
        if not batches or node in own or not allowed(facts, batches[0], kind, options)[0]:
            return None
        trial = try_move(facts, batches[0], 0, kind, node, options.ignore_soft_errors)
        if trial.codes[0] != FITS:
            return None
        settling.settle(state, trial)
    return state


def all_moves(state: State, options: BalancingOptions) -> Iterator[State]:
    """The states after each move of a set, or of an instance in none."""
    movable = candidates(state, np.ones(len(state.group), np.bool_), None)
    targets = np.flatnonzero(~state.columns.offline).tolist()
    for members in sets_of(state.cluster):
        one = len(members) == 1 or moves_as_one(state.cluster, members)
        if not (one and is_whole(state, members) and movable[members].all()):
            continue
        for kind in KINDS[state.cluster.instances[members[0]].template.mirror]:
            for node in targets if kind.takes_node else [NOWHERE]:
                after = after_move(state, members, kind, node, options)
                if after is not None:
                    yield after


@settings(max_examples=20, deadline=None)
@given(described=cases, unmirrored=st.booleans(), forced=st.booleans())
def test_first_move_is_the_best_of_all(described: Cluster, unmirrored: bool, forced: bool) -> None:
    options = replace(OPTIONS, unmirrored=unmirrored, ignore_soft_errors=forced)
    state = derive(described)
    scope = np.ones(len(state.group), np.bool_)
    current = score_of(state, scope)
    scores = [score_of(after, scope) for after in all_moves(state, options)]
    best = min((score for score in scores if score < current), default=current)
    made = first_unit(state.copy(), options)
    assert (made[-1].score if made else current) == pytest.approx(best, abs=1e-8)


def first_unit(state: State, options: BalancingOptions) -> list[Move]:
    """The first step, and those that belong to it."""
    steps = stepwise(state, np.ones(len(state.group), np.bool_), options)
    made = list[Move]()
    for step in steps:
        made.append(step)
        if not step.with_next:
            break
    return made


def check_way(described: Cluster, steps: Sequence[Move]) -> State:
    """Follow the steps: sets are apart only between their own steps. Returns the state at the end."""
    now, before = derive(described), violations(described)
    whole = [members for members in sets_of(described) if is_whole(now, members)]
    for step in steps:
        now.pnode[step.instance], now.snode[step.instance] = (*step.nodes, NOWHERE)[:2]
        torn = [members for members in whole if not is_whole(now, members)]
        assert all(step.instance in members and step.with_next for members in torn)
        new = violations(now.to_cluster()) - before
        assert all(step.with_next and rule == TOGETHER for rule, *_ in new)
    assert not any(step.with_next for step in steps[-1:])
    return now


@settings(max_examples=12, deadline=None)
@given(
    described=cases,
    most=st.integers(-1, 6),
    factor=st.sampled_from((None, 0.0, 2.0)),
    long_factor=st.sampled_from((0.0, 1.0, 100.0)),
)
def test_sets_are_apart_only_between_their_own_steps(
    described: Cluster, most: int, factor: float | None, long_factor: float
) -> None:
    options = replace(OPTIONS, disk_moves_factor=factor, long_factor=long_factor, long_threshold=1.0)
    state = derive(described)
    steps = list(stepwise(state, np.ones(len(state.group), np.bool_), replace(options, max_length=most)))
    assert most < 0 or len(steps) <= most
    now = check_way(described, steps)
    assert (now.pnode.tolist(), now.snode.tolist()) == (state.pnode.tolist(), state.snode.tolist())


@settings(max_examples=12, deadline=None)
@given(described=cases, most=st.integers(-1, 8))
def test_optimised_plan_moves_sets_as_the_greedy_one(described: Cluster, most: int) -> None:
    state = derive(described)
    options = replace(OPTIONS, max_length=most)
    scope = np.ones(len(state.group), np.bool_)
    greedy, best = optimise(state, scope, options, CopyingOptions(), None, Steps(10))
    assert best.rank <= greedy.rank
    assert most < 0 or len(best.steps) <= most
    now = check_way(described, best.steps)
    bound = [row for members in sets_of(described) if len(members) > 1 for row in members]
    assert now.pnode[bound].tolist() == greedy.after.pnode[bound].tolist()
    assert now.snode[bound].tolist() == greedy.after.snode[bound].tolist()
    assert score_of(best.after, scope) == pytest.approx(best.score)
