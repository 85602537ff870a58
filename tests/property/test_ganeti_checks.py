"""What Ganeti checks by itself after a decision, on clusters where that is what matters.

Nodes have plenty of everything but disk space, of which they have about as much as a new instance takes; each
volume group may be missing.
"""

from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.explaining.explanation import explained
from ganeti_htools.engine.maintenance.rolling import Maintenance, reboot_groups
from ganeti_htools.engine.rules import placements
from ganeti_htools.engine.rules.batches import batches_of
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.relocate import move_pairs, relocate
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Node
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.moves import KINDS, MoveKind
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.request import AllocateSecondary
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate, MirrorType
from tests.support.plain_storage import can_be_made, free_on, has_room, is_source, keeps, takes

KEYS = ("xenvg", "ssdvg")
MORE = (-1, 0, 1, 127, 128, 129, 256, 257, 384, 385, *[4000] * 6)  # than the disks of an instance take
DRBD, PLAIN = DiskTemplate.DRBD, DiskTemplate.PLAIN
POLICY = replace(DEFAULT_IPOLICY, minmax=())


def instance(rng: Random, name: str, template: DiskTemplate, *nodes: str) -> Instance:
    """An instance with one to three disks, whose metadata may be in another group."""
    disks = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        key = rng.choice((None, *KEYS))
        metavg = rng.choice((None, *KEYS)) if template is DRBD else None
        disks.append(
            Disk(rng.choice((10, 500)), None, DesiredUnit(StorageType.LVM_VG, key) if key else None, metavg)
        )
    size = sum(disk.size + (128 if template is DRBD else 0) for disk in disks)
    row = Instance(name, 64, size, tuple(disks), 1, template=template)
    return replace(row, pnode=nodes[0], snode=nodes[1] if template is DRBD else None) if nodes else row


def case(seed: int) -> tuple[State, Instance]:
    """A state, and an instance to be placed on it."""
    rng = Random(seed)
    names = [f"node{i}" for i in range(rng.choice((2, 4, 6, 6)))]
    templates = rng.choices((DRBD, DRBD, PLAIN), k=rng.choice((1, 3)))
    rows = [instance(rng, f"inst{i}", each, *rng.sample(names, 2)) for i, each in enumerate(templates)]
    new = instance(rng, "new", DRBD)
    sizes = [sum(disk.size for disk in row.disks) for row in (new, *rows)]
    mirrored = rng.choice(KEYS) if rng.random() < 0.3 else None

    def units(key: str) -> list[Unit]:
        kinds = [StorageType.LVM_VG] if rng.random() < 0.75 else []
        kinds += [StorageType.DRBD] if key == mirrored and rng.random() < 0.8 else []
        return [
            Unit(DesiredUnit(kind, key), 9000, rng.choice(sizes) + rng.choice(MORE))
            for kind in rng.sample(kinds, len(kinds))
        ]

    def node(name: str) -> Node:
        told = tuple(unit for key in KEYS for unit in units(key)) if rng.random() < 0.85 else None
        total, free = rng.choice(((0.0, 0), (9000.0, rng.choice(sizes) + rng.choice(MORE))))
        row = Node(name, "uuid", t_mem=65536.0, n_mem=512, f_mem=60000, t_cpu=64.0, t_spindles=64)
        return replace(row, t_dsk=total, f_dsk=free, offline=rng.random() < 0.1, storage=told)

    default = Node("other", "uuid", storage=(Unit(DesiredUnit(StorageType.LVM_VG, rng.choice(KEYS)), 9, 0),))
    nodes = (*map(node, names), replace(default, offline=True))
    return derive(Cluster((Group("group", "uuid", ipolicy=POLICY),), nodes, tuple(rows)), (new,)), new


cases = st.builds(case, st.integers(0, 1 << 40))


@settings(max_examples=60)
@given(case=cases)
def test_new_instances(case: tuple[State, Instance]) -> None:
    state, new = case
    rows = np.arange(len(state.group))
    p, s = np.nonzero(rows[:, np.newaxis] != rows)
    codes = placements.allocate_pairs(state, state.requested_instance(new), p, s, state.peers[p, s]).codes
    good = [has_room(state.cluster, new, node, made=True) for node in state.cluster.nodes]
    online = [node.t_mem > 0 for node in state.cluster.nodes]
    for code, *pair in zip(codes.tolist(), p.tolist(), s.tolist(), strict=True):
        assert (code == FITS) == all(good[node] and online[node] for node in pair), pair


@settings(max_examples=60)
@given(case=cases)
def test_new_secondaries_of_instances_that_become_mirrored(case: tuple[State, Instance]) -> None:
    """Of the primary nothing but the metadata is taken, and Ganeti checks nothing there."""
    state, _ = case
    cluster = state.cluster
    for index, row in enumerate(cluster.instances):
        if row.template is not PLAIN:
            continue
        mirrored = replace(row, template=DRBD, dsk=row.dsk + 128 * len(row.disks))
        primary = cluster.nodes[int(state.pnode[index])]
        here, had = free_on(cluster, primary), takes(cluster, row)
        stays = all(
            here.get(unit, 0) + (had[unit] if unit in here else 0) > size
            for unit, size in takes(cluster, mirrored).items()
        )
        (told,) = explained(state, AllocateSecondary(row.name), PlacementOptions(capacity=False))
        for place in told.places:
            node = cluster.nodes[place.snode]
            good = (
                node.t_mem > 0 and has_room(cluster, mirrored, node) and can_be_made(cluster, mirrored, node)
            )
            assert (place.why == "") == (stays and good), (row.name, node.name)


@settings(max_examples=60)
@given(case=cases)
def test_moves(case: tuple[State, Instance]) -> None:
    state, _ = case
    cluster = state.cluster
    batches, facts = batches_of(state, state.snode != NOWHERE)
    for batch in batches:
        for member, index in enumerate(batch.rows.tolist()):
            row, one = cluster.instances[index], batch.take(np.array([member]))
            own = int(state.pnode[index]), int(state.snode[index])
            p, s = (cluster.nodes[node] for node in own)
            if p.offline or s.offline:
                continue
            stays = {
                MoveKind.FAILOVER: keeps(cluster, row, p) and keeps(cluster, row, s),
                MoveKind.REPLACE_SECONDARY: keeps(cluster, row, p) and is_source(cluster, p),
                MoveKind.REPLACE_AND_FAILOVER: keeps(cluster, row, p) and is_source(cluster, p),
                MoveKind.REPLACE_PRIMARY: keeps(cluster, row, s) and is_source(cluster, s),
                MoveKind.FAILOVER_AND_REPLACE: keeps(cluster, row, s) and is_source(cluster, s),
            }
            for kind in KINDS[MirrorType.INTERNAL]:
                for target in sorted({*range(len(cluster.nodes))} - {*own}) if kind.takes_node else [NOWHERE]:
                    new = None if target == NOWHERE else np.array([target])
                    code = relocate(facts, one, kind, False, new)[1][0]
                    node = cluster.nodes[target]
                    good = new is None or (node.t_mem > 0 and has_room(cluster, row, node))
                    assert (code == FITS) == (stays[kind] and good), (row.name, kind, node.name)


@settings(max_examples=60)
@given(case=cases)
def test_both_nodes_left(case: tuple[State, Instance]) -> None:
    state, _ = case
    cluster, scope = state.cluster, np.ones(len(state.group), np.bool_)
    for index in np.flatnonzero(state.snode != NOWHERE).tolist():
        row, own = cluster.instances[index], {int(state.pnode[index]), int(state.snode[index])}
        p, s = (cluster.nodes[int(rows[index])] for rows in (state.pnode, state.snode))
        if p.offline or s.offline:
            continue
        targets = np.array(sorted({*range(len(cluster.nodes))} - own))
        trial, _ = move_pairs(state, state.instance(index), targets, scope)
        good = {
            int(target): cluster.nodes[target].t_mem > 0 and has_room(cluster, row, cluster.nodes[target])
            for target in targets
        }
        stays = keeps(cluster, row, p) and is_source(cluster, p)
        for new, last in np.argwhere(targets[:, np.newaxis] != targets).tolist():
            pair = int(targets[new]), int(targets[last])
            expected = (
                stays and all(good[node] for node in pair) and is_source(cluster, cluster.nodes[pair[0]])
            )
            assert (trial.codes[new, last] == FITS) == expected, (row.name, pair)


@settings(max_examples=60)
@given(case=cases)
def test_full_evacuation(case: tuple[State, Instance]) -> None:
    """Only secondaries are replaced of which the primary is a source by then."""
    state, _ = case
    members = ~state.columns.offline
    classes = [[row] for row in np.flatnonzero(members).tolist()]
    try:
        groups = reboot_groups(state, members, classes, Maintenance(ignore_alone=True, full=True))
    except HtoolsError:
        return
    for relocation in (each for group in groups for each in group.relocations):
        before = {int(state.pnode[relocation.instance]), int(state.snode[relocation.instance])}
        if relocation.snode not in before:
            assert is_source(state.cluster, state.cluster.nodes[relocation.pnode])
