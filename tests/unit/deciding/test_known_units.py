"""Units that a request lacks come from what is known; what it tells itself wins."""

import json
from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.backends import iallocator
from ganeti_htools.commandline.parameters import parse_options
from ganeti_htools.deciding.decision import KnownCluster, respond
from ganeti_htools.deciding.known_units import (
    CompletedRows,
    names_units,
    unused_units,
    with_known,
    with_known_inventories,
)
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Node
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.request import Allocate, NodeEvacuate, Placement, Relocate
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate, EvacMode
from tests.support import messages
from tests.support.clusters import Shape, cluster
from tests.support.worlds import node

LVM, FILE = StorageType.LVM_VG, StorageType.FILE
HDD, SSD, FILES = DesiredUnit(LVM, "hdd"), DesiredUnit(LVM, "ssd"), DesiredUnit(FILE, "/srv")
TEMPLATES = (DiskTemplate.FILE, DiskTemplate.DRBD)
STORAGE = (Unit(HDD, 9000, 8000), Unit(SSD, 900, 800), Unit(FILES, 90, 80))
EVACUATE = NodeEvacuate(("web",), EvacMode.ALL)


def instance(name: str, template: DiskTemplate, *disks: Disk) -> Instance:
    return Instance(name, 100, sum(disk.size for disk in disks), disks, 1, pnode="one", template=template)


def new(template: DiskTemplate, *disks: Disk) -> Allocate:
    return Allocate(Placement(instance("new", template, *disks), 1))


def known(*rows: Instance, **changes: Any) -> Cluster:
    nodes = (node("one", storage=STORAGE), node("two", storage=None), node("gone", storage=STORAGE))
    groups = (Group("default", "uuid", metavg="hdd", rbd_pool="vms"),)
    start = Cluster(groups, nodes, rows, default_units=(HDD, FILES))
    return replace(start, enabled_templates=TEMPLATES, **changes)


def asked(*rows: Instance, **figures: Any) -> Cluster:
    nodes = (node("one", t_dsk=7000.0, f_dsk=5000), node("two"))
    return Cluster((Group("default", "uuid"),), tuple(replace(row, **figures) for row in nodes), rows)


def units(cluster: Cluster, name: str = "one") -> set[Unit] | None:
    row: Node = next(row for row in cluster.nodes if row.name == name)
    return None if row.storage is None else set(row.storage)


@pytest.mark.parametrize(
    ("request_", "own"),
    [
        (new(DiskTemplate.DRBD), HDD),
        (new(DiskTemplate.PLAIN), HDD),
        (new(DiskTemplate.FILE), FILES),
        (new(DiskTemplate.EXT), None),
        (new(DiskTemplate.DISKLESS), None),
        (Relocate("web", 1, ("one",)), HDD),
        (EVACUATE, FILES),  # the first template that is enabled
    ],
)
def test_figure_of_the_request_overrides_its_unit(request_: Any, own: DesiredUnit | None) -> None:
    web = instance("web", DiskTemplate.DRBD, Disk(5))
    filled = with_known(asked(web), request_, known(web), CompletedRows())
    others = {unit for unit in STORAGE if unit.desired != own}
    assert units(filled) == others | ({Unit(own, 7000, 5000)} if own else set())
    assert units(filled, "two") is None
    assert filled.default_units == (HDD, FILES)
    assert [(group.metavg, group.rbd_pool) for group in filled.groups] == [("hdd", "vms")]


def test_node_without_space_of_a_unit_does_not_get_the_unit() -> None:
    filled = with_known(asked(t_dsk=0.0, f_dsk=0), new(DiskTemplate.DRBD), known(), CompletedRows())
    assert units(filled) == {unit for unit in STORAGE if unit.desired != HDD}


def test_offline_nodes_stay_as_they_are() -> None:
    assert units(with_known(asked(t_mem=0.0), EVACUATE, known(), CompletedRows())) is None


def test_nothing_is_filled_in_if_unknown_or_in_the_request() -> None:
    request = asked(instance("web", DiskTemplate.DRBD, Disk(5)))
    there = known(instance("web", DiskTemplate.DRBD, Disk(5, unit=SSD)))
    told = replace(request, nodes=asked(storage=()).nodes)
    for cluster_, known_ in ((request, replace(there, nodes=request.nodes)), (told, there)):
        filled = with_known(cluster_, EVACUATE, known_, CompletedRows())
        assert (filled.nodes, filled.instances) == (cluster_.nodes, cluster_.instances)


def test_disks_get_their_known_units() -> None:
    there = instance("web", DiskTemplate.DRBD, Disk(5, unit=SSD, metavg="hdd"), Disk(6, unit=HDD))
    for own, expected in (
        (Disk(5), Disk(5, unit=SSD, metavg="hdd")),
        (Disk(5, unit=SSD), Disk(5, unit=SSD, metavg="hdd")),
        (Disk(5, unit=SSD, metavg="x"), Disk(5, unit=SSD, metavg="x")),
        (Disk(5, unit=HDD), Disk(5, unit=HDD)),
    ):
        row = instance("web", DiskTemplate.DRBD, own, Disk(6))
        filled = with_known(asked(row), EVACUATE, known(there), CompletedRows())
        assert filled.instances[0].disks == (expected, Disk(6, unit=HDD))
    grown = instance("web", DiskTemplate.DRBD, Disk(7), Disk(6))
    assert with_known(asked(grown), EVACUATE, known(there), CompletedRows()).instances[0] is grown


def test_same_rows_are_completed_once() -> None:
    web = instance("web", DiskTemplate.DRBD, Disk(5))
    there = known(instance("web", DiskTemplate.DRBD, Disk(5, unit=SSD)))
    request, memory = asked(web), CompletedRows()
    first, again = (with_known(request, EVACUATE, there, memory) for _ in range(2))
    assert first.nodes[0] is again.nodes[0]
    assert first.instances[0] is again.instances[0]
    other = with_known(request, new(DiskTemplate.DRBD), there, memory)
    assert units(other) != units(first)


def test_names_units_other_than_default_ones() -> None:
    def noticed(*disks: Disk) -> bool:
        return names_units((instance("new", DiskTemplate.DRBD, *disks),), known())

    assert not noticed()
    assert not noticed(Disk(1), Disk(2, unit=HDD))
    assert noticed(Disk(1), Disk(2, unit=SSD))
    assert not noticed(Disk(1, metavg="hdd"))
    assert noticed(Disk(1, metavg="ssd"))
    assert not noticed(Disk(1, unit=DesiredUnit(StorageType.EXT, "san")))  # which no node tells


def test_finds_units_that_only_the_request_names() -> None:
    fast, pool = DesiredUnit(LVM, "fast"), DesiredUnit(StorageType.RADOS, "fast")

    def unused(*disks: Disk) -> set[DesiredUnit]:
        return set(unused_units((instance("new", DiskTemplate.DRBD, *disks),), known()))

    assert not unused(Disk(1), Disk(1, unit=HDD), Disk(1, unit=SSD, metavg="hdd"), Disk(1, unit=pool))
    assert unused(Disk(1, unit=SSD), Disk(1, unit=fast)) == {fast}
    assert unused(Disk(1, unit=SSD, metavg="fast")) == {fast}


def allocation(group: str | None) -> bytes:
    """A request for a plain instance on an empty cluster, whose disk may name a volume group."""
    data = cluster(3, Shape(nodes=3, instances=0, templates={"plain": 1}))
    request = messages.allocate("new.example.org", "plain", disks=[2048])
    request["disks"][0] |= {"vg": group} if group else {}
    return messages.encode(messages.message(data, request)).encode()


def test_first_instance_on_a_volume_group_finds_room() -> None:
    """No disk is on it yet, so the cluster that is known leaves it out."""
    text = allocation("ssd")
    rows = iallocator.read(text).cluster
    last = rows.nodes[-1].name

    def with_storage(*others: Unit) -> Cluster:
        nodes = tuple(
            replace(row, storage=(Unit(HDD, 9000, 8000), *(others if row.name == last else ())))
            for row in rows.nodes
        )
        return replace(rows, nodes=nodes, default_units=(HDD,), enabled_templates=(DiskTemplate.PLAIN,))

    def naming(units: frozenset[DesiredUnit]) -> Cluster:
        assert units == {SSD}
        return with_storage(Unit(SSD, 9000, 8000))

    def answer(told: KnownCluster) -> Any:
        return json.loads(respond(text, parse_options([]), None, told).answer)

    assert not answer(KnownCluster(with_storage(), 3.0, 12.4))["success"]
    assert answer(KnownCluster(with_storage(), 3.0, 12.4, naming))["result"] == [last]


def test_full_volume_group_is_not_chosen() -> None:
    """The node that is the best by the request alone has a full second group."""
    text = allocation("ssd")
    rows = iallocator.read(text).cluster
    chosen = json.loads(respond(text, parse_options([])).answer)["result"][0]

    def answer(free: int) -> Any:
        nodes = tuple(
            replace(
                row, storage=(Unit(HDD, 9000, 8000), Unit(SSD, 9000, free if row.name == chosen else 8000))
            )
            for row in rows.nodes
        )
        other = replace(rows, nodes=nodes, default_units=(HDD,), enabled_templates=(DiskTemplate.PLAIN,))
        response = respond(text, parse_options([]), None, KnownCluster(other, 3.0, 12.4))
        assert response.names_units
        return json.loads(response.answer)

    assert answer(8000)["result"] == [chosen]
    assert answer(2048)["result"] not in ([], [chosen])
    assert answer(2048)["info"].endswith("; storage units, which the request lacks, as reported 12 s ago")
    none = KnownCluster(replace(rows, nodes=tuple(replace(row, storage=()) for row in rows.nodes)), 3.0, 12.4)
    refused = json.loads(respond(text, parse_options([]), None, none).answer)
    assert not refused["success"]


def test_pools_bind_without_units_of_nodes() -> None:
    """Of an instance that is on another pool than the default one the request tells no pool."""
    fast, slow = (DesiredUnit(StorageType.RADOS, key) for key in ("fast", "slow"))
    data = cluster(3, Shape(nodes=3, instances=1, templates={"rbd": 1}))
    text = messages.encode(
        messages.message(data, messages.allocate("new.example.org", "rbd", disks=[500]))
    ).encode()
    start = iallocator.read(text).cluster
    (row,) = start.instances
    elsewhere = replace(row, disks=tuple(replace(disk, unit=slow) for disk in row.disks))

    def info(there: Instance, *pools: Pool) -> str:
        known = replace(start, instances=(there,), default_units=(fast,), pools=pools)
        found = respond(text, parse_options([]), None, KnownCluster(known, 3.0))
        return str(json.loads(found.answer)["info"])

    plain = json.loads(respond(text, parse_options([])).answer)["info"]
    assert info(row) == info(elsewhere, Pool(fast, 501)) == info(row, Pool(fast, 501 + row.dsk)) == plain
    for there, pool in ((elsewhere, Pool(fast, 501, 1)), (row, Pool(fast, 500 + row.dsk))):
        assert "most missing: space in rados/fast, which lacks 1 MiB" in info(there, pool)


def test_tags_bind_disks_to_known_pools() -> None:
    fast, slow = (DesiredUnit(StorageType.RADOS, key) for key in ("fast", "slow"))
    data = cluster(3, Shape(nodes=3, instances=1, templates={"rbd": 1}))
    (name, row), *_ = data["instances"].items()
    home, seeing, blind = row["nodes"][0], *sorted(data["nodes"].keys() - set(row["nodes"]))
    tags = {home: ["htools:storage:rados/fast"], seeing: ["htools:storage:rados/fast"], blind: []}
    nodes = {each: node | {"tags": tags[each]} for each, node in data["nodes"].items()}
    nodes[seeing] = nodes[seeing] | {"total_memory": 40_000, "free_memory": 20_000}
    nodes[blind] = nodes[blind] | {"total_memory": 40_000, "free_memory": 39_000, "reserved_memory": 1_000}
    relocation = {"type": "relocate", "name": name, "required_nodes": 1, "relocate_from": [home]}
    text = messages.encode(messages.message(data | {"nodes": nodes}, relocation)).encode()
    start = iallocator.read(text).cluster

    def chosen(unit: DesiredUnit) -> list[str]:
        rows = tuple(
            replace(each, disks=tuple(replace(disk, unit=unit) for disk in each.disks))
            for each in start.instances
        )
        known = KnownCluster(replace(start, instances=rows, default_units=(fast,)), 3.0)
        return list(json.loads(respond(text, parse_options([]), None, known).answer)["result"])

    assert chosen(fast) == [seeing]
    assert chosen(slow) == [blind]


@pytest.mark.parametrize("group", [None, "ssd"])
@pytest.mark.parametrize("to_be_asked", [False, True])
def test_answer_says_that_named_units_are_not_known_yet(group: str | None, to_be_asked: bool) -> None:
    """Nobody waits for them: a job that asks nodes waits for locks that the asker's job holds."""
    text = allocation(group)
    there = replace(iallocator.read(text).cluster, default_units=(DesiredUnit(LVM, "xenvg"),))
    alone = json.loads(respond(text, parse_options([])).answer)
    response = respond(text, parse_options([]), None, KnownCluster(there, 3.0, to_be_asked=to_be_asked))
    note = "; storage units, which the request lacks, are not known yet and will be asked for"
    assert response.names_units is bool(group)
    answered = json.loads(response.answer)
    assert answered == alone | {"info": alone["info"] + note * bool(group and to_be_asked)}


GPUS = (("CUSTOM_GPU", Inventory(2)),)


def with_gpus(described: Cluster, *names: str) -> Cluster:
    nodes = [replace(each, inventories=GPUS) if each.name in names else each for each in described.nodes]
    return replace(described, nodes=tuple(nodes))


def test_known_inventories_are_used_unless_the_request_has_some() -> None:
    plain, there, memory = asked(), with_gpus(known(), "one"), CompletedRows()
    assert with_known_inventories(plain, known(), memory) is plain
    found = with_known_inventories(plain, there, memory)
    assert {each.name: each.inventories for each in found.nodes if each.inventories} == {"one": GPUS}
    again = with_known_inventories(plain, there, memory)
    assert all(one is other for one, other in zip(found.nodes, again.nodes, strict=True))
    own = with_gpus(plain, plain.nodes[-1].name)
    assert with_known_inventories(own, there, memory) is own


def test_demands_are_limited_by_known_inventories() -> None:
    data = cluster(3, Shape(nodes=3, instances=0, templates={"plain": 1}))
    request = messages.allocate("new", "plain", tags=["htools:resource:CUSTOM_GPU:1"])
    text = messages.encode(messages.message(data, request)).encode()
    rows = iallocator.read(text).cluster
    target = rows.nodes[1].name
    told = respond(text, parse_options([]), known=KnownCluster(with_gpus(rows, target), 1.0))
    assert f'"result":["{target}"]' in told.answer.replace(" ", "")
    assert '"success":true' in respond(text, parse_options([]), known=KnownCluster(rows, 1.0)).answer.replace(
        " ", ""
    )
