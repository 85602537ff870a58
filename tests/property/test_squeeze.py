"""Sets of nodes that are dismissed without balancing could not have been powered down or up anyway; a cluster
whose load stays the same comes to rest.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.backends import text
from ganeti_htools.engine.balancing.recheck import retrace
from ganeti_htools.engine.balancing.shared_instances import regular
from ganeti_htools.engine.moving.named_moves import named
from ganeti_htools.engine.redundancy.bounds import unproved_losses
from ganeti_htools.engine.redundancy.health import bad_nodes
from ganeti_htools.engine.redundancy.rule import recover
from ganeti_htools.engine.squeezing import power_group as groups
from ganeti_htools.engine.squeezing import squeeze
from ganeti_htools.engine.squeezing.power_group import PowerGroup, power_group, with_power
from ganeti_htools.engine.squeezing.power_plan import Action, AllowedMoves, PowerPlan, Wishes
from ganeti_htools.engine.squeezing.reserve import holds_n1
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.tags import STANDBY
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.squeezing import hsqueeze, standby
from tests.support.at_rest import after, at_rest, mixed, sized
from tests.support.classes import with_classes
from tests.support.clusters import TIGHT, Shape, cluster
from tests.support.rows import with_master
from tests.support.seeds import few, parts
from tests.support.storage_units import with_units
from tests.support.text_format import text as text_of

pytestmark = pytest.mark.slow

# Groups of any size are planned at once, or in portions.
either_way = pytest.mark.parametrize("large", [groups.LARGE, 0])

NOTHING = Instance("nothing", 0, 0, (), 0, auto_balance=False, template=DiskTemplate.EXT)


def state_of(seed: int) -> State:
    rng = random.Random(seed)
    shape = Shape(
        nodes=rng.randrange(3, 7),
        instances=rng.randrange(1, 20),
        templates={
            "ext": 8,
            "sharedfile": 3,
            "file": rng.choice((0, 1)),
            "drbd": rng.choice((0, 1)),
            "diskless": seed % 2,
        },
        fill=rng.choice((0.3, 0.6, TIGHT, 0.95)),
        offline=rng.choice((0, 0, 1)),
        down=rng.choice((0.0, 0.3)),
        forthcoming=rng.choice((0.0, 0.2)),
        tags=rng.choice(((), ("migration",), ("exclusion",))),
    )
    data = cluster(seed, shape)
    described = text.parse(text_of(with_units(data, rng) if rng.random() < 0.4 else data), "generated")
    return derive(with_classes(rng, described) if seed % 4 == 1 else described)


def wanted(rng: random.Random) -> Instance:
    memory, vcpus = rng.choice((0, 128, 2048, 6000)), rng.choice((0, 1, 8, 30))
    return Instance("wanted", memory, 0, (), vcpus, auto_balance=False, template=DiskTemplate.EXT)


@pytest.mark.parametrize("seeds", parts(80, 20))
def test_infeasible_sets_fail_when_balanced(seeds: range) -> None:
    dismissed = Counter[str]()
    for seed in seeds:
        rng, state = random.Random(seed), state_of(seed)
        everyone = np.ones(len(state.pnode), np.bool_)
        everywhere = np.ones(len(state.group), np.bool_)
        for count in range(1, len(state.group)):
            nodes, room = rng.sample(range(len(state.group)), count), wanted(rng)
            offline = rng.random() < 0.8
            trial = power_group(state, everywhere, everyone, room, room, rng.choice(list(AllowedMoves)))
            why = trial.infeasible(nodes, offline, room) or (trial.stranded(nodes) if offline else None)
            if why and regular(with_power(state, nodes, offline), everywhere):
                dismissed[why] += 1
                after, _ = trial.balanced(nodes, offline)
                assert trial.obstacle(after) if offline else not trial.keeps_free(after, room)
    assert len(dismissed) == 3
    assert dismissed.total() > 10


@pytest.mark.parametrize("seeds", few(range(15), 60))
def test_plan_is_the_same_without_bounds(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = []
    for seed in seeds:
        rng, state = random.Random(seed), state_of(seed)
        nodes = list(state.cluster.nodes)
        for row in rng.sample(range(1, len(nodes)), rng.randint(0, 2)):
            nodes[row] = replace(nodes[row], offline=True, tags=(*nodes[row].tags, f"{STANDBY}auto"))
        state = derive(replace(state.cluster, nodes=tuple(nodes)))
        cases.append((state, [wanted(rng)], [wanted(rng)], np.ones(len(state.pnode), np.bool_)))
    quick = [squeeze.plan(*case) for case in cases]
    for bound in ("infeasible", "stranded"):
        monkeypatch.setattr(PowerGroup, bound, lambda *_: None)
    monkeypatch.setattr(groups, "shared_instances", lambda *_: None)
    for case, found in zip(cases, quick, strict=True):
        slow = squeeze.plan(*case)
        assert (slow.action, slow.nodes, slow.enough) == (found.action, found.nodes, found.enough)
        assert np.array_equal(slow.state.pnode, found.state.pnode)
    assert {found.action for found in quick} >= {Action.OFFLINE, Action.ONLINE}


@pytest.mark.parametrize("seeds", parts(80, 10))
def test_repeated_runs_with_same_load_come_to_rest(seeds: range) -> None:
    """What was powered down is not powered up again, nor is more powered down; whatever begins."""
    seen = set()
    for seed in seeds:
        rng, first = random.Random(seed), state_of(seed)
        nodes = list(first.cluster.nodes)
        for row in rng.sample(range(1, len(nodes)), rng.randint(0, 2)):
            nodes[row] = replace(nodes[row], offline=True, tags=(*nodes[row].tags, f"{STANDBY}auto"))
        before = replace(first.cluster, nodes=(replace(nodes[0], master=True), *nodes[1:]))
        minimum = wanted(rng)
        more = rng.choice((0, 128, 1024))
        target = replace(minimum, mem=minimum.mem + more, vcpus=minimum.vcpus + rng.choice((0, 1)))
        told, actions = before, list[Action]()
        for _ in range(4):
            known = rng.choice((told, hsqueeze.with_standby_data(told, before)))
            state = derive(standby.with_standby_figures(known))
            everyone = np.ones(len(state.pnode), np.bool_)
            found = squeeze.plan(state, [minimum], [target], everyone)
            if not found.nodes and not found.steps:
                break
            actions.append(found.action)
            told = after(state, found)
        else:
            pytest.fail(f"{seed}: {actions}")
        assert actions in (
            [],
            [Action.OFFLINE],
            [Action.ONLINE],
        ), seed
        seen.add(tuple(actions))
    assert {(Action.OFFLINE,)} <= seen


@either_way
@pytest.mark.parametrize("seeds", few(range(4, 6), 32))
def test_a_second_run_does_nothing(seeds: range, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where N+1 would not hold on the way with all nodes drained at once."""
    monkeypatch.setattr(groups, "LARGE", large)
    freed = 0
    for seed in seeds:
        rng = random.Random(seed)
        allowed = rng.choice((AllowedMoves.DRBD, AllowedMoves.ALL))
        before, little = with_master(seed, mixed(rng, allowed)), sized(allowed, 128)
        actions = at_rest(before, before, (little, little), allowed)[1]
        assert actions in ([], [Action.OFFLINE]), seed
        freed += len(actions)
    assert freed


@pytest.mark.parametrize("seeds", parts(24, 3))
def test_alternating_targets_come_to_rest_each_time(seeds: range) -> None:
    """With all templates and several groups: each time that what is wanted changes something is done, then
    nothing, the second time down and up as well. What has gone down does not come back by itself.
    """
    seen = Counter[Action]()
    for seed in seeds:
        rng = random.Random(seed)
        allowed = rng.choice(list(AllowedMoves))
        told = before = with_master(seed, mixed(rng, allowed, groups=rng.choice((1, 2))))
        little, much = sized(allowed, 128), sized(allowed, rng.choice((3000, 6000)))
        for wanted_now in ((little, little), (much, much)) * 2:
            told, actions = at_rest(told, before, wanted_now, allowed)
            assert len(actions) <= 1, seed
            seen.update(actions)
    assert {*seen} >= {Action.OFFLINE, Action.ONLINE}


def made(state: State, found: PowerPlan) -> Iterator[State]:
    """A state while a plan is made on it: whenever nodes have been drained, and after each step."""
    everyone = np.ones(len(state.pnode), np.bool_)
    for phase in found.phases:
        waiting = np.isin(np.arange(len(state.group)), list(phase.late))
        state = with_power(state, phase.nodes, True)
        marked = state.columns.offline
        drained = marked & ~waiting
        yield replace(state, columns=state.columns.changed(offline=drained))
        for _ in retrace(state, everyone, named(state, phase.steps)):
            yield replace(state, columns=state.columns.changed(offline=drained))
            mirrored = state.snode != NOWHERE
            there = {*state.pnode[mirrored].tolist(), *state.snode[mirrored].tolist()}
            free = [node for node in np.flatnonzero(marked & ~drained).tolist() if node not in there]
            if free:
                drained = drained | np.isin(np.arange(len(drained)), free)
                yield replace(state, columns=state.columns.changed(offline=drained))


@either_way
@pytest.mark.parametrize("seeds", few(range(5), 80))
def test_redundancy_is_kept_on_the_way(seeds: range, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By losing each node in turn after each move, the nodes that are emptied among them."""
    monkeypatch.setattr(groups, "LARGE", large)
    kept = 0
    for seed in seeds:
        rng, first = random.Random(seed), state_of(seed)
        nodes = (replace(first.cluster.nodes[0], master=True), *first.cluster.nodes[1:])
        state = derive(replace(first.cluster, nodes=nodes))
        room, everyone = replace(wanted(rng), mem=128), np.ones(len(state.pnode), np.bool_)
        found = squeeze.plan(state, [NOTHING], [room], everyone)
        if found.action is Action.OFFLINE:
            kept += sound(state, found)
    assert kept > 5


@pytest.mark.parametrize("seeds", few(range(4, 6), 24))
def test_redundancy_is_kept_while_disks_are_copied(seeds: range) -> None:
    """The same where mirrors leave their nodes, in one phase or in several."""
    kept = 0
    for seed in seeds:
        rng = random.Random(seed)
        allowed = rng.choice((AllowedMoves.DRBD, AllowedMoves.ALL))
        state, little = derive(with_master(seed, mixed(rng, allowed))), sized(allowed, 128)
        everyone = np.ones(len(state.pnode), np.bool_)
        found = squeeze.plan(state, [little], [little], everyone, wishes=Wishes(allowed=allowed))
        if found.action is Action.OFFLINE:
            kept += sound(state, found)
    assert kept > 5


def sound(state: State, found: PowerPlan) -> int:
    """Of how many states on the way of a plan, of a group, it was tried that each node can be lost."""
    everywhere, seen = np.ones(len(state.group), np.bool_), 0
    assert holds_n1(state, everywhere)
    for now in made(state, found):
        assert not bad_nodes(now, everywhere).any()
        drained = now.columns.offline & ~state.columns.offline
        mirrored = (now.snode != NOWHERE) & ~now.forthcoming
        assert not (mirrored & drained[now.snode] & ~drained[now.pnode]).any()
        up, read = ~now.columns.offline, replace(now, stamp=np.arange(len(now.pnode)))
        for node in range(len(now.group)):
            # A mirror on a node that was offline before counts, as with hcheck.
            way = recover(read.copy(), node, up) if up[node] else recover(read.copy(), node, everywhere, up)
            assert all(each.node != NOWHERE for each in way)
        seen += 1
    assert np.count_nonzero(up) > 1
    return seen


@either_way
@pytest.mark.parametrize("seeds", few(range(4), 45))
def test_nodes_with_mirrored_instances_are_emptied_whole(
    seeds: range, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With DRBD allowed a node goes only without primaries and secondaries; N+1 holds then, too."""
    monkeypatch.setattr(groups, "LARGE", large)
    freed = 0
    for seed in seeds:
        rng = random.Random(seed)
        shape = Shape(
            nodes=rng.randrange(5, 8), instances=8, templates={"drbd": 3, "ext": 2}, fill=0.2, down=0
        )
        first = derive(text.parse(text_of(cluster(seed, shape)), "generated")).cluster
        state = derive(replace(first, nodes=(replace(first.nodes[0], master=True), *first.nodes[1:])))
        everyone, everywhere = np.ones(len(state.pnode), np.bool_), np.ones(len(state.group), np.bool_)
        room = replace(wanted(rng), mem=128, dsk=1024, template=DiskTemplate.PLAIN)
        found = squeeze.plan(state, [NOTHING], [room], everyone, wishes=Wishes(allowed=AllowedMoves.DRBD))
        if found.action is Action.OFFLINE:
            freed += 1
            assert not np.isin(found.state.pnode, found.nodes).any()
            assert not np.isin(found.state.snode, found.nodes).any()
            assert holds_n1(found.state, everywhere)
            assert len(list(made(state, found))) >= len(found.phases) + len(found.steps)
    assert freed > 2


@pytest.mark.parametrize("seeds", few(range(75), 300))
def test_losses_proved_by_bounds_are_recovered(seeds: range) -> None:
    """Of nodes that are lost, on the others alone."""
    proved = failed = 0
    for seed in seeds:
        rng, state = random.Random(seed), state_of(seed)
        takers = np.array([rng.random() < 0.6 for _ in state.group], np.bool_)
        everyone, lost = np.ones(len(takers), np.bool_), np.flatnonzero(~takers)
        unsure = unproved_losses(state, lost, np.flatnonzero(takers))
        for node in lost.tolist():
            back = all(each.node != NOWHERE for each in recover(state.copy(), node, everyone, takers))
            assert back or node in unsure
            proved, failed = proved + (node not in unsure), failed + (not back)
    assert proved > 50
    assert failed > 20
