"""Whatever is decided, planned or counted, disks only come to where their units have room."""

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from ganeti_htools.backends import iallocator, text
from ganeti_htools.engine.balancing.balance import Balancing, rebalance
from ganeti_htools.engine.capacity.counting import standard
from ganeti_htools.engine.capacity.site import Site
from ganeti_htools.engine.capacity.sizes import InstanceKind, Size
from ganeti_htools.engine.decide import decide
from ganeti_htools.engine.maintenance import squeeze
from ganeti_htools.engine.redundancy.node_loss import recover
from ganeti_htools.engine.rules.options import Options
from ganeti_htools.model.cluster import Cluster, Disk, Instance, Node
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import TYPE_OF, DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.decision import state_for
from tests.support.cases import TYPES
from tests.support.clusters import MIXED, TIGHT, Shape, cluster
from tests.support.storage_units import case_with_units, with_units
from tests.support.text_format import text as text_of

VOLUMES = (StorageType.LVM_VG, StorageType.DRBD)


def first_of(node: Node, kind: StorageType) -> list[str]:
    """The key of the first unit of a type that a node lists."""
    kinds = VOLUMES if kind is StorageType.LVM_VG else (kind,)
    return [unit.desired.key for unit in node.storage or () if unit.desired.type in kinds][:1]


def unit_of(cluster: Cluster, row: Instance, disk: Disk) -> DesiredUnit:
    """The unit that a disk wants: its own, or the one that most nodes list first."""
    kind = TYPE_OF[row.template]
    keys = Counter(key for node in cluster.nodes for key in first_of(node, kind))
    unit = disk.unit or DesiredUnit(kind, keys.most_common(1)[0][0] if keys else "")
    mirrored = DesiredUnit(StorageType.DRBD, unit.key)
    listed = any(each.desired == mirrored for node in cluster.nodes for each in node.storage or ())
    return mirrored if row.template is DiskTemplate.DRBD and listed else unit


def takes(cluster: Cluster, row: Instance) -> Counter[DesiredUnit]:
    """What an instance takes of each unit on each of its nodes."""
    found: Counter[DesiredUnit] = Counter()
    for disk in row.disks:
        unit = unit_of(cluster, row, disk)
        found[unit] += disk.size
        if row.template is DiskTemplate.DRBD:
            apart = disk.metavg is not None and disk.metavg != unit.key
            found[DesiredUnit(StorageType.LVM_VG, disk.metavg or "") if apart else unit] += 128
    return found if len(found) > 1 else Counter(dict.fromkeys(found, row.dsk))


def free_on(cluster: Cluster, node: Node) -> dict[DesiredUnit, int]:
    if node.storage is not None:
        return {unit.desired: unit.free for unit in node.storage if unit.total > 0}
    plain = Instance("", 0, 0, (), 1, template=DiskTemplate.PLAIN)
    return {unit_of(cluster, plain, Disk(0)): node.f_dsk}


def seen_from(cluster: Cluster, node: Node, pool: DesiredUnit) -> bool:
    """Whether a node sees a pool: if it lists it, should any; or has its tag, should any; or else always."""
    tag, groups = f"htools:storage:{pool.type.value}/{pool.key}", {each.uuid: each for each in cluster.groups}
    listing = [any(unit.desired == pool for unit in each.storage or ()) for each in cluster.nodes]
    tagged = [tag in (*each.tags, *groups[each.group].tags) for each in cluster.nodes]
    row = cluster.nodes.index(node)
    return listing[row] if any(listing) else tagged[row] or not any(tagged)


def check(before: State, after: State, rows: Sequence[int] | None = None) -> int:
    """Every node has the units of the disks that came, with something left; how many came.

    Of instances that were there at first nothing is said where they stay.
    """
    cluster, instances, came = before.cluster, after.cluster.instances, 0
    types = {unit.desired.type for node in cluster.nodes for unit in node.storage or ()} | {
        StorageType.LVM_VG
    }
    here: list[set[tuple[int, int]]] = []
    for state in (before, after):
        pairs = zip(state.pnode.tolist(), state.snode.tolist(), strict=True)
        here.append({(row, node) for row, nodes in enumerate(pairs) for node in nodes if node != NOWHERE})
    for number, node in enumerate(cluster.nodes):
        free, first = free_on(cluster, node), free_on(cluster, node)
        arrived: list[tuple[str, DesiredUnit]] = []
        for sign, moved in ((1, here[0] - here[1]), (-1, here[1] - here[0])):
            for row, _ in (each for each in moved if each[1] == number):
                for unit, size in takes(cluster, instances[row]).items():
                    if unit.type.pool:
                        assert sign > 0 or seen_from(cluster, node, unit), instances[row].name
                    elif unit.type.local and unit.type in types:
                        if sign < 0:
                            assert unit in first, (instances[row].name, node.name)
                            arrived.append((instances[row].name, unit))
                        if unit in free:
                            free[unit] += sign * size
                came += sign < 0
        assert all(free[unit] > 0 for _, unit in arrived), node.name
    return came


@pytest.mark.parametrize("kind", TYPES)
def test_requests(kind: str) -> None:
    came = 0
    for seed in range(60):
        made = case_with_units(seed, kind)
        message = iallocator.read(made.text.encode())
        state = state_for(message.cluster, message.request, Options())
        if state.columns.excl_stor.any():
            continue
        try:
            after = decide(state, message.request, Options(capacity=seed % 3 == 0)).state
        except RequestFailed:
            continue
        came += check(state, after)
    assert came > 2


def any_state(seed: int) -> State:
    rng = random.Random(seed)
    shape = Shape(
        nodes=rng.randint(3, 6),
        instances=rng.randint(5, 30),
        templates=rng.choice((MIXED, {"drbd": 1}, {"ext": 3, "sharedfile": 1, "rbd": 1})),
        fill=rng.choice((0.3, 0.6, TIGHT)),
        offline=rng.choice((0, 1)),
    )
    return derive(text.parse(text_of(with_units(cluster(seed, shape), rng)), "generated"))


def test_balancing() -> None:
    came = 0
    for seed in range(60):
        state = any_state(seed)
        options = Balancing(min_gain=0, ignore_soft_errors=seed % 4 == 0)
        after, _ = rebalance(state, np.ones(len(state.group), np.bool_), options)
        came += check(state, after)
    assert came > 100


@pytest.mark.parametrize("template", ["drbd", "plain", "file", "ext"])
def test_hspace(template: str) -> None:
    came = 0
    for seed in range(30):
        state = any_state(seed)
        nodes = np.flatnonzero(~state.columns.offline)
        site = Site(nodes, np.zeros(len(state.group), np.bool_), Options(capacity=seed % 2 == 0))
        size = Size(1024, 5120, 1, 1)
        came += check(state, standard(state, InstanceKind(DiskTemplate(template), 1), size, site, 30).state)
    assert came > 20


def test_squeezing() -> None:
    came = 0
    for seed in range(40):
        state = any_state(3 * seed + 2)
        rows, scope = np.ones(len(state.pnode), np.bool_), np.ones(len(state.group), np.bool_)
        nodes = squeeze.offline_candidates(state)[:1].tolist()
        if nodes:
            after, _ = squeeze._power_group(state, scope, rows).balanced(nodes, True)
            came += check(state, after)
    assert came > 10


def test_lost_nodes() -> None:
    came = 0
    for seed in range(40):
        state = any_state(seed)
        node, after = seed % len(state.group), state.copy()
        scope = np.ones(len(state.group), np.bool_)
        for _ in recover(after, node, scope, ~state.columns.offline, every=True):
            pass
        came += check(state, after)
    assert came > 50
