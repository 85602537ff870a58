"""On tiny clusters without room to spare, a group is emptied whenever any search could empty it."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from ganeti_htools.engine.allocation.exchange import exchange
from ganeti_htools.engine.groups.compression import compress
from ganeti_htools.engine.groups.outcome import RegroupingLimits
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MovePart, Operation
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import instance, node
from tests.support.regroupings import rules_of
from tests.support.seeds import few

EXT, DRBD = DiskTemplate.EXT, DiskTemplate.DRBD
RACKS = ("a", "b", "c")


def tight(rng: Random) -> Cluster:
    """Three racks of two or three nodes, with little memory or disk to spare; the first is to be emptied."""
    members = {rack: [f"{rack}{at}" for at in range(rng.choice((2, 2, 3)))] for rack in RACKS}
    rows = []
    for rack, names in members.items():
        for number in range(rng.randint(4, 5) if rack == "a" else rng.randint(1, 4)):
            (pnode, snode), template = rng.sample(names, 2), rng.choice((EXT, EXT, DRBD))
            memory, size = rng.choice((500, 1000, 1500, 2000, 3000)), rng.choice((1024, 2048, 4096))
            row = instance(f"{rack}-{number}", template, pnode, snode if template is DRBD else None, memory)
            rows.append(replace(row, dsk=size, disks=(replace(row.disks[0], size=size),)))
    nodes = []
    for rack, names in members.items():
        for name in names:
            memory = sum(row.mem for row in rows if row.pnode == name)
            disk = sum(row.dsk for row in rows if row.template is DRBD and name in (row.pnode, row.snode))
            total = max(memory + 100, rng.choice((4000, 5000, 7000)))
            space = max(disk + 100, rng.choice((6000, 10_000, 20_000)))
            nodes.append(node(name, total, memory, rack, t_dsk=float(space), f_dsk=space - disk, t_cpu=4.0))
    return Cluster(tuple(Group(rack, rack) for rack in RACKS), tuple(nodes), tuple(rows))


def can_be_emptied(now: Regrouping, rows: Sequence[int], groups: Sequence[int]) -> bool:
    """Whether instances have places in some groups that leave them as healthy; every place is tried."""
    if not rows:
        return True
    index, state = rows[0], now.state
    mirrored = state.cluster.instances[index].template is DRBD
    for group in groups:
        there = np.flatnonzero(state.group == group).tolist()
        pairs = [(one, other) for one in there for other in there if one != other]
        ways = [exchange(*pair) for pair in pairs] if mirrored else [to(target) for target in there]
        for way in ways:
            after = now.copy()
            if (
                after.move(index, way)
                and not after.diagnosis(group).worse_than(now.diagnosis(group))
                and can_be_emptied(after, rows[1:], groups)
            ):
                return True
    return False


def to(target: int) -> list[MovePart]:
    return [MovePart(Operation.FAILOVER_TO, target)]


@pytest.mark.parametrize("seeds", few(range(5), 60))
def test_empties_every_group_that_exhaustive_search_empties(seeds: range) -> None:
    possible = 0
    for seed in seeds:
        state = derive(tight(Random(seed)))
        now, rows = Regrouping(state, rules_of(state)), np.flatnonzero(state.group[state.pnode] == 0).tolist()
        filled = {now.group_of(row) for row in range(len(state.pnode))}
        ready = [group for group in (1, 2) if group in filled and now.diagnosis(group).good]
        if can_be_emptied(now, rows, ready):
            possible += 1
            found = compress(state, now.rules, RegroupingLimits(), [0], 1, 0.0, lambda _: None)
            assert found.done == (0,), (seed, found.failed)
    assert possible > 1
