"""Moves that make room against all sequences of moves."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine import making_room
from ganeti_htools.engine.balancing.balance import allowed, candidates
from ganeti_htools.engine.decide import decide
from ganeti_htools.engine.making_room import MadeRoom, RoomLimits, make_room
from ganeti_htools.engine.moving.traffic import copied
from ganeti_htools.engine.rules import placement_rules, settling
from ganeti_htools.engine.rules.batches import batches_of
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.relocate import try_move
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.moves import KINDS
from ganeti_htools.model.options import BalancingOptions, PlacementOptions
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.request import Allocate, Placement
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Status
from tests.property import narrow
from tests.support import by_hand
from tests.support.placement_rules import with_rules

MOST = 2


def narrow_case(rng: Random) -> tuple[Cluster, Instance]:
    """A small cluster with all features, and a new instance that lacks a little memory on each node."""
    while True:
        described = narrow.cluster(rng)
        if len(described.nodes) <= 3 and 3 <= len(described.instances) <= 5:
            break
    row, free = narrow.instance(rng, "new"), derive(described).columns
    return described, replace(row, mem=max(1, int(free.unallocated.max()) + rng.choice((-200, 1, 300))))


def fragmented_case(rng: Random) -> tuple[Cluster, Instance]:
    """A cluster whose nodes have some memory and disk space left, and a new instance that needs more."""
    names = tuple(f"node{row}" for row in range(3))

    def one(name: str, nodes: tuple[str, ...]) -> Instance:
        size = rng.choice((100, 200, 300))
        template = rng.choice((DiskTemplate.DRBD, DiskTemplate.DRBD, DiskTemplate.EXT))
        snode = nodes[1] if template is DiskTemplate.DRBD else None
        row = by_hand.instance(name, template, nodes[0], snode)
        status = rng.choice((Status.RUNNING, Status.RUNNING, Status.DOWN))
        tags = ("htools:fixed",) if rng.random() < 0.1 else ()
        return replace(row, mem=size, dsk=size, disks=(Disk(size),), status=status, tags=tags)

    rows = [one(f"inst{row}", tuple(rng.sample(names, 2))) for row in range(rng.randint(4, 5))]
    nodes = []
    for name in names:
        used = sum(each.mem for each in rows if each.pnode == name and each.uses_memory)
        held = sum(each.mem for each in rows if each.pnode == name and not each.uses_memory)
        dsk = sum(each.dsk for each in rows if name in (each.pnode, each.snode))
        total, room = used + held + rng.choice((150, 250, 350, 500)), rng.choice((150, 300, 300, 5000))
        nodes.append(
            by_hand.node(name, total, used, t_dsk=float(dsk + room), f_dsk=room, offline=rng.random() < 0.05)
        )
    group = Group("group1", "uuid-1", ipolicy=replace(DEFAULT_IPOLICY, minmax=()))
    described = Cluster((group,), tuple(nodes), tuple(rows))
    new = by_hand.instance("new", rng.choice((DiskTemplate.DRBD, DiskTemplate.EXT)), "")
    size = rng.choice((100, 200))
    return described, replace(new, mem=rng.choice((300, 400, 500)), dsk=size, disks=(Disk(size),))


def case(seed: int) -> tuple[State, Allocate, PlacementOptions]:
    """A small cluster, and a new instance that hardly finds a place."""
    rng = Random(seed)
    described, row = rng.choice((narrow_case, fragmented_case, fragmented_case))(rng)
    if rng.random() < 0.3:
        described = with_rules(rng, described, most=0.3)
    count = 2 if row.template is DiskTemplate.DRBD else 1
    group = rng.choice((None, described.groups[0].name))
    options = PlacementOptions(capacity=rng.random() < 0.3)
    return derive(described, (row,)), Allocate(Placement(row, count, group)), options


def movable(state: State) -> Bools:
    across = (state.snode != NOWHERE) & (state.group[state.pnode] != state.group[state.snode])
    return np.asarray(~placement_rules.staying(state) & ~across)


def moves(state: State, options: BalancingOptions) -> Iterator[tuple[State, int]]:
    """All moves of balancing: the states afterwards, and the MiB copied."""
    everywhere = np.ones(len(state.group), np.bool_)
    batches, facts = batches_of(state, candidates(state, everywhere, movable(state)))
    for batch in batches:
        for member, index in enumerate(batch.rows.tolist()):
            group = int(state.group[state.pnode[index]])
            nodes = np.flatnonzero(~state.columns.offline & (state.group == group)).tolist()
            for kind in KINDS[batch.mirror]:
                if not allowed(facts, batch.take(np.array([member])), kind, options)[0]:
                    continue
                for node in nodes if kind.takes_node else [NOWHERE]:
                    if node != NOWHERE and node in (state.pnode[index], state.snode[index]):
                        continue
                    trial = try_move(facts, batch, member, kind, node, force=False)
                    if trial.codes[0] == FITS:
                        settling.settle(after := state.copy(), trial)
                        yield after, sum(copied(kind, state.cluster.instances[index]))


def fits(state: State, request: Allocate, options: PlacementOptions) -> bool:
    try:
        decide(state, request, options)
    except RequestFailed:
        return False
    return True


def cheapest(state: State, request: Allocate, options: PlacementOptions) -> tuple[int, int] | None:
    """The fewest moves, and the least MiB of as many, after which the instance has a place."""
    reached = {(state.pnode.tobytes(), state.snode.tobytes()): (state, 0)}
    for number in range(MOST + 1):
        found = [volume for each, volume in reached.values() if fits(each, request, options)]
        if found or number == MOST:
            return (number, min(found)) if found else None
        further: dict[tuple[bytes, bytes], tuple[State, int]] = {}
        for each, volume in reached.values():
            for after, more in moves(each, BalancingOptions()):
                key = after.pnode.tobytes(), after.snode.tobytes()
                if key not in further or further[key][1] > volume + more:
                    further[key] = after, volume + more
        reached = further
    return None


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_descent_makes_room_by_possible_moves(seed: int) -> None:
    """Without the search of all plans. It never has fewer moves than that."""
    state, request, options = case(seed)
    with mock.patch.object(making_room, "MOST_MOVES", 0):
        made = make_room(state, request, options, RoomLimits(), movable(state))
    if not made.steps:
        return
    now = state
    for step in made.steps:
        reached = {each.nodes_of(step.instance): each for each, _ in moves(now, BalancingOptions())}
        now = reached[step.nodes]
    assert now.pnode.tolist() == made.after.pnode.tolist()
    assert fits(now, request, options)
    best = cheapest(state, request, options)
    assert (len(made.steps), made.volume) >= (best or (MOST + 1, 0))


def rank(made: MadeRoom) -> tuple[int, int] | None:
    return None if made.placed is None else (len(made.steps), made.volume)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_makes_room_with_fewest_moves_and_least_data(seed: int) -> None:
    state, request, options = case(seed)
    made = make_room(state, request, options, RoomLimits(MOST), movable(state))
    assert not made.ended
    assert rank(made) == cheapest(state, request, options)
    assert made.placed is None or fits(made.after, request, options)
