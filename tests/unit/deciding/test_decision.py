"""What a request lacks is taken from what else is known of the cluster, and nothing else is."""

import json
from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.backends import iallocator
from ganeti_htools.commandline.parameters import parse_options
from ganeti_htools.deciding.decision import Cache, KnownCluster, respond
from ganeti_htools.deciding.known_units import CompletedRows, with_disks
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.derive import derive
from ganeti_htools.model.ganeti_version import parse_version
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from tests.support import messages
from tests.support.clusters import Json, Shape, cluster

NOTE = "; disk space of nodes, which the request lacks, as reported 12 s ago"
UNJUDGED = "; N+1 is judged without disk space, which the request lacks"
OPTIONS = parse_options([])


def without_disks(data: Json) -> Json:
    """As Ganeti tells of a cluster when a template without local disks is asked for."""
    none = {"total_disk": 0, "free_disk": 0, "total_spindles": 0, "free_spindles": 0}
    nodes = {
        name: node if node["offline"] else {**node, **{key: 0 for key in none if key in node}}
        for name, node in data["nodes"].items()
    }
    return {**data, "nodes": nodes}


def text(data: Json, request: Json) -> bytes:
    return messages.encode(messages.message(data, request)).encode()


def rows(data: Json, request: Json) -> Cluster:
    return iallocator.read(text(data, request)).cluster


def answer(data: bytes, known: KnownCluster | None = None, cache: Cache | None = None) -> Any:
    return json.loads(respond(data, OPTIONS, cache, known).answer)


def shape(**changes: Any) -> Shape:
    return replace(Shape(nodes=6, instances=20, templates={"drbd": 2, "ext": 1, "plain": 1}), **changes)


def requests(data: Json) -> list[Json]:
    node = next(iter(data["nodes"]))
    return [
        messages.allocate("new.example.org", "sharedfile"),
        messages.allocate("new.example.org", "diskless", disks=[]),
        messages.node_evacuate(data, node, "secondary-only"),
    ]


@pytest.mark.parametrize(("number", "exclusive"), [(0, False), (1, False), (2, False), (2, True)])
def test_decides_with_known_figures_as_with_reported_ones(number: int, exclusive: bool) -> None:
    templates = {"drbd": 1, "plain": 1} if exclusive else {"drbd": 2, "ext": 1, "plain": 1}
    data = cluster(3, shape(exclusive_storage=exclusive, templates=templates, fill=0.3, drained=1))
    request = requests(data)[number]
    expected = answer(text(data, request))
    assert expected["success"]
    given = text(without_disks(data), request)
    found = answer(given, KnownCluster(rows(data, request), 12.4))
    assert found == {**expected, "info": expected["info"] + NOTE}


def test_known_reservations_are_kept() -> None:
    data = cluster(3, shape(fill=0.3))
    request = messages.allocate("new.example.org", "plain")
    first, cache = text(data, request), Cache()
    free = rows(data, request)
    (node,) = answer(first, KnownCluster(free, 0.0), cache)["result"]
    held = tuple(
        replace(row, inventories=(("MEMORY_MB", Inventory(0, reserved=row.f_mem)),) * (row.name == node))
        for row in free.nodes
    )
    for known in (KnownCluster(replace(free, nodes=held), 0.0), KnownCluster(replace(free, nodes=held), 0.0)):
        assert answer(first, known, cache)["result"] != [node]
    assert answer(first, KnownCluster(free, 0.0), cache)["result"] == [node]


def test_measured_load_chooses_between_feasible_nodes() -> None:
    data = cluster(3, shape(fill=0.3))
    request = messages.allocate("new.example.org", "plain")
    first, cache, known = text(data, request), Cache(), rows(data, request)
    loads = {node.name: 1.0 for node in known.nodes}
    (even,) = answer(first, KnownCluster(known, 0.0, loads=loads), cache)["result"]
    busy = KnownCluster(known, 0.0, loads=loads | {even: 50.0})
    (cool,) = answer(first, busy, cache)["result"]
    assert cool != even
    # Where nothing else fits, load is no obstacle.
    full = {name: node | {"drained": True} for name, node in data["nodes"].items() if name != even}
    assert answer(text(data | {"nodes": data["nodes"] | full}, request), busy, cache)["result"] == [even]


@pytest.mark.parametrize("number", [0, 1])
def test_without_known_figures_redundancy_is_judged_without_disks(number: int) -> None:
    data = cluster(3, shape(fill=0.3))
    request = requests(data)[number]
    given, expected = text(without_disks(data), request), answer(text(data, request))
    found = answer(given)
    assert found["success"]
    assert found["result"] == expected["result"]
    assert found["info"].endswith(UNJUDGED)
    stranger = replace(rows(data, request), nodes=(), instances=())
    assert answer(given, KnownCluster(stranger, 0.0)) == found


def test_without_known_figures_memory_is_kept_for_redundancy() -> None:
    data = cluster(3, shape())
    room = max(node["free_memory"] for node in data["nodes"].values() if not node["offline"])
    request = messages.allocate("new.example.org", "sharedfile", memory=room - 1)
    refused = answer(text(without_disks(data), request))
    assert (refused["success"], "FailN1" in refused["info"]) == (False, True)


def test_known_units_without_room_refuse() -> None:
    data = cluster(3, shape(fill=0.3))
    request = requests(data)[0]
    known = rows(data, request)
    unit = DesiredUnit(StorageType.LVM_VG, "xenvg")
    nodes = tuple(replace(node, t_dsk=0.0, f_dsk=0, storage=(Unit(unit, 9, 0),)) for node in known.nodes)
    full = replace(known, nodes=nodes, default_units=(unit,))
    refused = answer(text(without_disks(data), request), KnownCluster(full, 0.0))
    assert (refused["success"], "FailN1" in refused["info"]) == (False, True)
    assert UNJUDGED not in refused["info"]


def test_template_whose_unit_no_node_reports_is_refused_where_it_was_asked_for() -> None:
    data = cluster(3, shape(fill=0.3))
    request = messages.allocate("new.example.org", "file")
    storage = [{"sunit": ["lvm-vg", "xenvg", []], "free": 50_000, "total": 90_000}]
    nodes = {name: node | {"storage": storage} for name, node in data["nodes"].items()}
    refused = answer(text(data | {"nodes": nodes}, request))
    assert not refused["success"]
    assert "file is unknown: no node has it; known: lvm-vg/xenvg" in refused["info"]
    known = rows(data | {"nodes": nodes}, request)
    live = replace(known, enabled_templates=(DiskTemplate.FILE, DiskTemplate.PLAIN))
    assert not answer(text(data, request), KnownCluster(live, 0.0))["success"]
    unasked = replace(live, nodes=tuple(replace(node, storage=None) for node in live.nodes))
    assert answer(text(data, request), KnownCluster(unasked, 0.0))["success"]


@pytest.mark.parametrize("template", ["drbd", "plain"])
def test_without_figures_nothing_with_local_disks_is_placed(template: str) -> None:
    data = cluster(3, shape(fill=0.3))
    refused = answer(text(without_disks(data), messages.allocate("new.example.org", template)))
    assert (refused["success"], "FailDisk" in refused["info"]) == (False, True)


def test_refusal_has_the_note() -> None:
    data = cluster(3, shape())
    request = messages.allocate("new.example.org", "sharedfile", memory=10**7)
    refused = answer(text(without_disks(data), request), KnownCluster(rows(data, request), 12.0))
    assert not refused["success"]
    assert refused["info"].endswith(NOTE)


def test_figures_of_the_request_override_known_ones() -> None:
    data = cluster(3, shape())
    request = messages.allocate("new.example.org", "drbd")
    first = next(iter(data["nodes"]))
    with_one = {
        name: node if name == first else without_disks(data)["nodes"][name]
        for name, node in data["nodes"].items()
    }
    for asked in (data, {**data, "nodes": with_one}, without_disks(data)):
        given = text(asked, request)
        assert answer(given, KnownCluster(rows(data, request), 12.0)) == answer(given)


def test_without_local_disks_no_figures_are_filled_in() -> None:
    data = cluster(3, shape(templates={"ext": 1}))
    request = messages.allocate("new.example.org", "ext")
    given = text(without_disks(data), request)
    assert answer(given, KnownCluster(rows(data, request), 12.0)) == answer(given)


def test_only_disk_space_is_filled_in() -> None:
    data = cluster(3, shape())
    request = messages.allocate("new.example.org", "sharedfile")
    known = rows(data, request)
    strange = replace(
        known,
        nodes=tuple(
            replace(node, t_mem=1.0, f_mem=0, t_cpu=1.0, offline=True, group="none", tags=("x",))
            for node in known.nodes
        ),
        instances=(),
        groups=(),
    )
    given = text(without_disks(data), request)
    assert answer(given, KnownCluster(strange, 12.0)) == answer(given, KnownCluster(known, 12.0))


def test_unchanged_nodes_stay_the_same_objects() -> None:
    data = cluster(3, shape())
    request = messages.allocate("new.example.org", "sharedfile")
    known, cache = KnownCluster(rows(data, request), 12.0), Cache()
    given = text(without_disks(data), request)
    answer(given, known, cache)
    assert cache.figures is not None
    first, filled = cache.figures, cache.completed.filled
    answer(text(without_disks(data), {**request, "name": "other.example.org"}), known, cache)
    assert [row for *_, row in cache.completed.filled.values()] == [row for *_, row in filled.values()]
    assert all(cache.completed.filled[key] is filled[key] for key in filled)
    assert all(a is b for a, b in zip(cache.figures.rows, first.rows, strict=True))


def test_node_without_figures_in_the_request_gets_none() -> None:
    online, offline = cluster(3, shape(fill=0.3)), cluster(3, shape(fill=0.3, offline=1))
    request = messages.allocate("new.example.org", "sharedfile")
    (lost,) = (name for name, node in offline["nodes"].items() if node["offline"])
    known = rows(online, request)
    without = replace(known, nodes=tuple(node for node in known.nodes if node.name != lost))
    assert len(without.nodes) < len(known.nodes)
    filled = with_disks(rows(without_disks(offline), request), known, CompletedRows())
    assert filled == with_disks(rows(without_disks(offline), request), without, CompletedRows())
    assert sum(node.t_dsk > 0 for node in filled.nodes) == len(filled.nodes) - 1


def test_refuses_relocation_from_other_nodes() -> None:
    data = cluster(3, shape())
    name, mirrored = next(item for item in data["instances"].items() if len(item[1]["nodes"]) == 2)
    primary, secondary = mirrored["nodes"]
    for leaving, told in (([primary, secondary], f"{primary}, {secondary}"), ([], "none")):
        refused = answer(text(data, messages.relocate(data, name) | {"relocate_from": leaving}))
        assert refused["success"] is False
        assert refused["info"].endswith(f"not equal to instance's secondary({secondary} versus {told})")


def test_reports_templates_that_are_not_enabled() -> None:
    data = cluster(3, shape())
    for template, group, refused in (("plain", None, True), ("plain", "group1", True), ("drbd", None, False)):
        request = text(data, messages.allocate("new.example.org", template, group_name=group))
        enabled = replace(
            iallocator.read(request).cluster, enabled_templates=(DiskTemplate.DRBD, DiskTemplate.FILE)
        )
        response = respond(request, OPTIONS, None, KnownCluster(enabled, 1.0))
        assert response.not_enabled is refused
        answered = json.loads(response.answer)
        assert answered["success"] is not refused
        if refused:
            assert answered["info"].endswith(
                "Disk template plain is not enabled; the cluster enables drbd, file"
            )
        else:
            assert answered == answer(request)


UNCHECKED = "; not looked at, because no node has an inventory of a custom class: CUSTOM_GPX"


def with_class(name: str | None) -> KnownCluster:
    """The known cluster, whose nodes have a custom class."""
    found = rows(CLASSES, messages.allocate("new.example.org", "ext"))
    there = ((name, Inventory(4)),) if name else ()
    return KnownCluster(
        replace(found, nodes=tuple(replace(node, inventories=there) for node in found.nodes)), 1.0
    )


CLASSES = cluster(1, shape(instances=4))
GPX = ("htools:resource:CUSTOM_GPX:1",)


def test_refuses_demand_for_a_class_that_no_node_has_with_the_nearest_name() -> None:
    told = answer(
        text(CLASSES, messages.allocate("new.example.org", "ext", tags=GPX)), with_class("CUSTOM_GPU")
    )
    assert not told["success"]
    assert told["info"] == "Request failed: no node has CUSTOM_GPX; known: CUSTOM_GPU"


def test_multi_allocation_with_an_unknown_class_is_refused() -> None:
    several = [messages.allocate(f"new{each}.example.org", "ext", tags=GPX[:each]) for each in (0, 1)]
    told = answer(text(CLASSES, messages.multi_allocate(several)), with_class("CUSTOM_GPU"))
    assert told["info"] == "Request failed: no node has CUSTOM_GPX; known: CUSTOM_GPU"


@pytest.mark.parametrize("known", [None, with_class(None)])
def test_without_inventories_the_answer_names_demands_that_were_not_looked_at(
    known: KnownCluster | None,
) -> None:
    plain = messages.allocate("new.example.org", "ext")
    expected = answer(text(CLASSES, plain), known)
    told = answer(text(CLASSES, {**plain, "tags": GPX}), known)
    assert told == {**expected, "info": expected["info"] + UNCHECKED}


def test_disks_are_recreated_whatever_classes_nodes_have() -> None:
    name = next(iter(CLASSES["instances"]))
    template = CLASSES["instances"][name]["disk_template"]
    told = answer(text(CLASSES, messages.allocate(name, template, tags=GPX)), with_class("CUSTOM_GPU"))
    assert "CUSTOM_GPX" not in told["info"]


@pytest.mark.parametrize(
    ("known_version", "option", "placed"),
    [
        (None, "3.0", False),
        (None, "3.1", True),
        ("3.0.2", "3.1", False),
        ("3.1.1", "3.0", True),
    ],
)
def test_rules_follow_the_known_cluster_then_the_option(
    known_version: str | None, option: str, placed: bool
) -> None:
    """All nodes have free what they keep for secondaries. If they fail N+1 already, they take one more."""
    data = cluster(3, shape(templates={"drbd": 1}, fill=0.2, down=0))
    request = messages.allocate("new.example.org", "drbd", memory=128)
    columns = derive(rows(data, request)).columns
    for node, free in zip(data["nodes"].values(), columns.unallocated - columns.r_mem, strict=True):
        node["free_memory"] -= int(free)
    known = None
    if known_version is not None:
        known = KnownCluster(replace(rows(data, request), ganeti=parse_version(known_version)), 0.0)
    options = parse_options([f"--ganeti-version={option}", "--no-capacity-checks"])
    found = json.loads(respond(text(data, request), options, None, known).answer)
    assert found["success"] is placed, found


@pytest.mark.parametrize(("memory", "named"), [(1 << 20, True), (128, False)])
def test_refusal_names_the_claims_on_nodes(memory: int, named: bool) -> None:
    data = cluster(3, shape(fill=0.2))
    request = messages.allocate("new.example.org", "plain", memory=memory)
    claims = {next(iter(data["nodes"])): ("backup", "tests"), "node.of.another.cluster": ("other",)}
    found = answer(text(data, request), KnownCluster(rows(data, request), 1.0, claims=claims))
    assert found["success"] is not named
    assert ("; room of these nodes is claimed by backup, tests" in found["info"]) is named
