"""With storage units, the chosen place is the best that plain rules admit, or none."""

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.capacity.counting import standard
from ganeti_htools.engine.capacity.scope import AllocationScope
from ganeti_htools.engine.decide import Decision, PlacedInstance, decide
from ganeti_htools.engine.maintenance.rolling import Maintenance, reboot_groups, without_secondary
from ganeti_htools.engine.redundancy.rule import Means, recover
from ganeti_htools.engine.rules import choice, placements, settling
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.pools import PoolRoom
from ganeti_htools.engine.rules.relocate import move, move_pairs
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.cluster import Disk, Instance
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import HtoolsError, RequestFailed
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import (
    Allocate,
    AllocateSecondary,
    ChangeGroup,
    MultiAllocate,
    NodeEvacuate,
    Placement,
    Relocate,
    Request,
)
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import TYPE_OF, DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate, EvacMode
from tests.support.plain_storage import can_be_made, has_room, is_source, keeps
from tests.support.seeds import few
from tests.support.storage_units import any_state

FREE = PlacementOptions(capacity=False)  # redundancy is another matter
TEMPLATES = (DiskTemplate.DRBD, DiskTemplate.PLAIN, DiskTemplate.FILE, DiskTemplate.EXT)
PLENTY = 1 << 39


def with_plenty(state: State) -> State:
    """The state with so much of all storage everywhere that it limits nothing."""
    state = state.copy()
    for name, column in zip(state.columns._fields, state.columns, strict=True):
        if name.startswith(("t_dsk", "f_dsk", "sees_")):
            column[:] = PLENTY
    return state


def roomy(state: State, row: Instance, force: bool = False, made: bool = False) -> Bools:
    """The nodes that have room for one more instance."""
    cluster = state.to_cluster()
    return np.array([has_room(cluster, row, node, force, made) for node in cluster.nodes], np.bool_)


def admitted(state: State, trial: Trial, plenty: Trial, row: Instance, made: bool = True) -> Bools:
    """The candidates that all other rules admit, and whose nodes have room for one more instance."""
    places = [trial.pnode, trial.snode] if row.template is DiskTemplate.DRBD else [trial.pnode]
    room = roomy(state, row, made=made)
    fits: Bools = plenty.codes == FITS
    for nodes in places:
        fits = fits & room[nodes]
    return fits


def without(state: State, index: int) -> State:
    """A state whose cluster does not have an instance any more."""
    keep = np.arange(len(state.pnode)) != index
    rows = state.cluster.instances
    cluster = replace(state.cluster, instances=(*rows[:index], *rows[index + 1 :]))
    return replace(state, cluster=cluster, pnode=state.pnode[keep], snode=state.snode[keep])


def scores(state: State, trial: Trial, candidates: Bools, scope: Bools) -> Iterator[float]:
    """The score of the nodes in scope after each of the candidates."""
    for candidate in np.flatnonzero(candidates).tolist():
        after = state.copy()
        settling.settle(after, trial.only(candidate))
        yield float(choice.base(after, scope).score())


def decided(state: State, request: Request) -> Decision | None:
    try:
        found = decide(state, request, FREE)
    except RequestFailed:
        return None
    return found if isinstance(found.result, tuple) or not found.result.failed else None


def anew(rng: random.Random, state: State, name: str = "new") -> Instance:
    """A new instance with disks on any units that nodes have, or on the default one."""
    template = rng.choice(TEMPLATES)
    units = [unit for unit in state.units.local if unit.type is TYPE_OF[template]]
    if not units and template is DiskTemplate.FILE and rng.random() < 0.8:  # no node has room for it
        template = DiskTemplate.EXT
    metadata = [None, *(unit.key for unit in units)] if template is DiskTemplate.DRBD else [None]
    disks = tuple(
        Disk(rng.choice((1024, 5000, 20480)), 1, rng.choice((None, *units)), rng.choice(metadata))
        for _ in range(rng.randint(1, 2))
    )
    meta = 128 * len(disks) if template is DiskTemplate.DRBD else 0
    size = sum(disk.size for disk in disks) + meta
    return Instance(
        name, 512, size, disks, 1, template=template, forthcoming=rng.random() < 0.2, spindle_use=1
    )


def places_of(state: State, row: Instance) -> Trial:
    """A new instance on all online nodes, or pairs of them."""
    asked, rows = state.requested_instance(row), np.flatnonzero(~state.columns.offline)
    if not asked.mirrored:
        return placements.allocate_one(state, asked, rows, np.ones(len(state.group), np.bool_))
    p, s = np.array([(p, s) for p in rows for s in rows if p != s], np.int64).reshape(-1, 2).T
    return placements.allocate_pairs(state, asked, p, s, state.peers[p, s])


def case(seed: int) -> tuple[random.Random, State]:
    return random.Random(seed), any_state(seed)


@pytest.mark.parametrize("seeds", few(range(25), 50))
def test_new_instance_gets_the_best_admitted_place(seeds: range) -> None:
    placed = 0
    for seed in seeds:
        rng, state = case(seed)
        row = anew(rng, state)
        state = derive(state.cluster, [row])
        trial, everyone = places_of(state, row), np.ones(len(state.group), np.bool_)
        found = decided(state, Allocate(Placement(row, row.template.required_nodes, None), None))
        fits = admitted(state, trial, places_of(with_plenty(state), row), row)
        assert (found is not None) == fits.any(), seed
        if found:
            placed += 1
            best = min(scores(state, trial, fits, everyone))
            assert choice.base(found.state, everyone).score() == pytest.approx(best)
    assert 12 < placed < 47


@pytest.mark.parametrize("seeds", few(range(20), 40))
def test_several_new_instances_are_placed_one_after_the_other(seeds: range) -> None:
    placed = 0
    for seed in seeds:
        rng, state = case(seed)
        rows = [anew(rng, state, f"new{number}") for number in range(4)]
        state = derive(state.cluster, rows)
        wishes = [Placement(row, row.template.required_nodes, None) for row in rows]
        found = decided(state, MultiAllocate(tuple(wishes)))
        alone: list[PlacedInstance] = []
        after: State | None = state
        for wish in wishes:
            single = decided(after, Allocate(wish, None)) if after else None
            after = single.state if single else None
            if single:
                assert isinstance(single.result, tuple)
                alone += single.result
        assert (found is not None) == (after is not None)
        if found:
            assert isinstance(found.result, tuple)
            assert [each.nodes for each in found.result] == [each.nodes for each in alone]
            placed += 1
    assert placed > 3


def usable(state: State, index: int, *but: int) -> Bools:
    """The nodes to which an instance may go: online ones of its group, without some."""
    rows: Bools = (state.group == state.group[state.pnode[index]]) & ~state.columns.offline
    rows[list(but)] = False
    return rows


@pytest.mark.parametrize("seeds", few(range(20), 40))
def test_relocated_instance_gets_the_best_admitted_place(seeds: range) -> None:
    moved = refused = 0
    for seed in seeds:
        rng, state = case(seed)
        for index in rng.sample(range(len(state.pnode)), min(4, len(state.pnode))):
            row, p, s = state.cluster.instances[index], int(state.pnode[index]), int(state.snode[index])
            if row.template not in (DiskTemplate.DRBD, DiskTemplate.EXT, DiskTemplate.SHARED_FILE):
                continue
            shared, scope = s == NOWHERE, state.group == state.group[p]
            targets = np.flatnonzero(usable(state, index, p, p if shared else s))
            lost, trials = bool(state.columns.offline[p if shared else s]), []
            for each in (state, with_plenty(state)):
                asked = each.instance(index)
                trials.append(
                    move(each, asked, MoveKind.FAILOVER_TO, targets, scope)
                    if shared
                    else move(each, asked, MoveKind.REPLACE_SECONDARY, targets)
                )
            # Only the new node has to have room; on the primary the disks are already.
            primary = state.cluster.nodes[p]
            source = row.forthcoming or is_source(state.cluster, primary)
            stays = shared or (keeps(state.cluster, row, primary, force=True) and source)
            fits = (trials[1].codes == FITS) & roomy(state, row, lost)[targets] & stays
            leaving = state.cluster.nodes[p if shared else s].name
            found = decided(state, Relocate(row.name, 1, (leaving,)))
            assert (found is not None) == fits.any(), (seed, row.name)
            if found:
                best = min(scores(state, trials[0], fits, scope))
                assert choice.base(found.state, scope).score() == pytest.approx(best)
            moved, refused = moved + bool(found), refused + (not found)
    assert moved > 30
    assert refused > 10


@pytest.mark.parametrize("seeds", few(range(25), 50))
def test_new_secondary_is_the_best_admitted_node(seeds: range) -> None:
    placed = refused = 0
    for seed in seeds:
        rng, state = case(seed)
        plain = [row for row in state.cluster.instances if row.template is DiskTemplate.PLAIN]
        for row in rng.sample(plain, min(2, len(plain))):
            index, everyone = state.cluster.instances.index(row), np.ones(len(state.group), np.bool_)
            found, p = decided(state, AllocateSecondary(row.name)), int(state.pnode[index])
            bare = settling.without_primary(state, index)
            asked = bare.requested_instance(bare.cluster.instances[index])
            targets = np.flatnonzero((state.group == state.group[p]) & (np.arange(len(state.group)) != p))
            pairs = np.full(len(targets), p), targets
            trial, plenty = (
                placements.allocate_pairs(each, asked, *pairs, each.peers[pairs])
                for each in (bare, with_plenty(bare))
            )
            # Ganeti looks at the secondary only; on the primary the data are.
            rest, room = without(bare, index), roomy(without(bare, index), asked.row)
            cluster = rest.to_cluster()
            made = [can_be_made(cluster, asked.row, cluster.nodes[target]) for target in targets.tolist()]
            fits = (plenty.codes == FITS) & room[p] & room[targets] & np.array(made, np.bool_)
            assert (found is not None) == fits.any(), (seed, row.name)
            if found:
                best = min(scores(bare, trial, fits, everyone))
                assert choice.base(found.state, everyone).score() == pytest.approx(best)
            placed, refused = placed + bool(found), refused + (not found)
    assert placed > 3
    assert refused > 3


def recovered(before: State, index: int, means: Means, node: int, up: Bools) -> set[int]:
    """The nodes on which an instance of a lost node can be afterwards, by the plain rules."""
    row, plenty = before.cluster.instances[index], with_plenty(before)
    asked, mates = plenty.instance(index), before.group == before.group[node]
    if means is Means.FAILOVER:
        cluster, secondary = before.to_cluster(), int(before.snode[index])
        there = up[secondary] and keeps(cluster, row, cluster.nodes[secondary], force=True)
        there = there and (
            cluster.nodes[node].offline or keeps(cluster, row, cluster.nodes[node], force=True)
        )
        fits = move(plenty, asked, MoveKind.FAILOVER, None, mates, force=True).codes[0] == FITS
        return {secondary} if there and fits else set()
    targets = np.flatnonzero(mates & up & (np.arange(len(up)) != node))
    if not len(targets):
        return set()
    if means is Means.MOVE:
        codes = move(plenty, asked, MoveKind.FAILOVER_TO, targets, mates, force=True).codes
    else:
        codes = placements.allocate_one(plenty, asked, targets, mates, force=True).codes
    return set(targets[(codes == FITS) & roomy(before, row, True)[targets]].tolist())


@pytest.mark.parametrize("seeds", few(range(40), 80))
def test_redundancy_agrees_with_plain_recovery_of_a_lost_node(seeds: range) -> None:
    back = gone = 0
    for seed in seeds:
        _, state = case(seed)
        scope, up, node = np.ones(len(state.group), np.bool_), ~state.columns.offline, seed % len(state.group)
        after = state.copy()
        steps, before = recover(after, node, scope, up, every=True), after.copy()
        for each in steps:
            places = recovered(before, each.instance, each.kind, node, up)
            assert each.node in (places or {NOWHERE}), (seed, state.cluster.instances[each.instance].name)
            back, gone, before = back + bool(places), gone + (not places), after.copy()
    assert back > 100
    assert gone > 20


def rolled(state: State, node: int) -> State | None:
    """A node emptied by the plain rules: each instance to the first node of its group that has room."""
    state, alone = replace(state.copy(), allowed_migrations=None), without_secondary(state)
    others = (state.group == state.group[node]) & ~state.columns.offline
    others[node] = False
    targets = np.flatnonzero(others)
    for index in state.primaries_of(node).tolist():
        if alone[index]:
            asked, row = state.instance(index), state.cluster.instances[index]
            codes = move(with_plenty(state), asked, MoveKind.FAILOVER_TO, targets, others, force=True).codes
            fits = targets[(codes == FITS) & roomy(state, row, True)[targets]]
            if not len(fits):
                return None
            settling.settle(state, move(state, asked, MoveKind.FAILOVER_TO, fits[:1], others, force=True))
    return state


@pytest.mark.parametrize("seeds", few(range(40), 80))
def test_rolling_maintenance_agrees_with_plain_moves(seeds: range) -> None:
    emptied = refused = 0
    for seed in seeds:
        _, state = case(seed)
        members, node = ~state.columns.offline, seed % len(state.group)
        expected = rolled(state, node)
        try:
            [group] = reboot_groups(state, members, [[node]], Maintenance())
        except HtoolsError:
            assert expected is None, seed
            refused += 1
            continue
        assert expected is not None, seed
        moved = np.flatnonzero(expected.pnode != state.pnode).tolist()
        assert {each.instance: each.pnode for each in group.relocations} == {
            index: int(expected.pnode[index]) for index in moved
        }
        emptied += bool(moved)
    assert emptied > 10
    assert refused > 5


@pytest.mark.parametrize("free", [0, 1, 5000, 30000])
@pytest.mark.parametrize("seeds", few(range(10), 20))
def test_hspace_stops_when_the_pool_is_full(free: int, seeds: range) -> None:
    pool, size = DesiredUnit(StorageType.EXT, "san"), InstanceSize(512, 4999, 1, 1)
    bounded = 0
    for seed in seeds:
        _, state = case(seed)
        nodes, ignored = np.flatnonzero(~state.columns.offline), np.zeros(len(state.group), np.bool_)
        kind = InstanceKind(DiskTemplate.EXT, 1, pool)
        room = PoolRoom({pool: free}, len(state.pnode))
        counts = [
            standard(state, kind, size, AllocationScope(nodes, ignored, FREE, pools=pools), 30).placed
            for pools in (room, PoolRoom({}, 0))
        ]
        # Something has to stay free.
        most = max(0, free - 1) // 4999
        assert counts[0] == min(counts[1], most)
        bounded += counts[0] < counts[1]
    assert bounded > 5


def leaving(state: State, index: int, targets: Ints) -> bool:
    """Whether an instance can leave its nodes for some of the targets, by the plain rules."""
    row, plenty, scope = state.cluster.instances[index], with_plenty(state), state.group == -1
    if not len(targets):
        return False
    room, asked = roomy(state, row)[targets], plenty.instance(index)
    if row.template is not DiskTemplate.DRBD:
        return bool(((move(plenty, asked, MoveKind.FAILOVER_TO, targets, scope).codes == FITS) & room).any())
    trial, _ = move_pairs(plenty, asked, targets, scope)
    apart = ~np.eye(len(targets), dtype=np.bool_)
    # In between the old primary has the mirror; disks are copied from it, and from the new one.
    primary = state.cluster.nodes[int(state.pnode[index])]
    source = [row.forthcoming or is_source(state.cluster, node) for node in state.cluster.nodes]
    stays = keeps(state.cluster, row, primary) and source[int(state.pnode[index])]
    first = room & np.array(source)[targets]
    return bool(((trial.codes == FITS) & apart & first[:, np.newaxis] & room).any()) and stays


def movable(rng: random.Random, state: State) -> list[int]:
    """Some instances that can move, with both their nodes online."""
    rows = [
        index
        for index, row in enumerate(state.cluster.instances)
        if row.template in (DiskTemplate.DRBD, DiskTemplate.EXT)
        and not state.columns.offline[state.pnode[index]]
        and not (state.snode[index] != NOWHERE and state.columns.offline[state.snode[index]])
    ]
    return rng.sample(rows, min(3, len(rows)))


@pytest.mark.parametrize("seeds", few(range(20), 40))
def test_evacuated_instance_gets_the_best_admitted_nodes(seeds: range) -> None:
    moved = refused = 0
    for seed in seeds:
        rng, state = case(seed)
        for index in movable(rng, state):
            p, s = int(state.pnode[index]), int(state.snode[index])
            targets = np.flatnonzero(usable(state, index, p, p if s == NOWHERE else s))
            found = decided(state, NodeEvacuate((state.cluster.instances[index].name,), EvacMode.ALL))
            assert (found is not None) == leaving(state, index, targets), (seed, index)
            moved, refused = moved + bool(found), refused + (not found)
    assert moved > 30
    assert refused > 10


@pytest.mark.parametrize("seeds", few(range(20), 40))
def test_instance_leaves_its_group_for_the_best_admitted_place(seeds: range) -> None:
    moved = refused = 0
    for seed in seeds:
        rng = random.Random(seed)
        state = any_state(seed, groups=2)
        for index in movable(rng, state):
            row = state.cluster.instances[index]
            targets = np.flatnonzero(
                (state.group != state.group[state.pnode[index]]) & ~state.columns.offline
            )
            new = replace(row, pnode="", snode=None)
            trial, plenty = (places_of(each, new) for each in (state, with_plenty(state)))
            there = np.isin(trial.pnode, targets) & (
                np.isin(trial.snode, targets) if row.template is DiskTemplate.DRBD else True
            )
            # Where it goes is found as for a new one, but its disks are not made there.
            fits = (admitted(state, trial, plenty, new, made=False) & there).any() and leaving(
                state, index, targets
            )
            found = decided(state, ChangeGroup((row.name,), ()))
            assert (found is not None) == fits, (seed, row.name)
            moved, refused = moved + bool(found), refused + (not found)
    assert moved > 20
    assert refused > 10
