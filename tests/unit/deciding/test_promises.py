"""Room that was promised is counted where it was promised, and once."""

import json
from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.deciding.decision import Cache, KnownCluster, Response, respond
from ganeti_htools.deciding.promises import Promise, with_promises
from ganeti_htools.engine.rules.node_rules import CODE, FITS
from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType
from ganeti_htools.model.types import DiskTemplate, Fail, Status
from tests.support import messages
from tests.support.by_hand import cluster, instance
from tests.support.cases import TYPES, case
from tests.support.clusters import Json, Shape
from tests.support.clusters import cluster as generated
from tests.support.trials import anew

NEW = instance("new", DiskTemplate.PLAIN, "a")
PROMISE = Promise(NEW, new=True)
DOWN = replace(NEW, status=Status.DOWN)


def free(described: Cluster) -> dict[str, tuple[int, int]]:
    """Free memory and disk of each node."""
    return {node.name: (node.f_mem, node.f_dsk) for node in described.nodes}


def with_rows(*rows: Instance) -> Cluster:
    return cluster({"a": 10_000, "b": 10_000}, rows)


def test_promised_new_instance_takes_its_place() -> None:
    counted, names = with_promises(with_rows(), [PROMISE])
    assert names == ["new"]
    assert counted.instances == (NEW,)
    assert free(counted) == {"a": (9_000, 898_976), "b": (10_000, 900_000)}


def test_promised_new_instance_keeps_its_distance() -> None:
    apart, other = (replace(NEW, name=name, tags=("htools:apart:x",)) for name in ("new", "other"))
    counted, _ = with_promises(with_rows(), [Promise(apart, new=True)])
    assert anew(derive(counted, (other,)), other).codes.tolist() == [CODE[Fail.RULE], FITS]


def test_rules_count_a_promised_move() -> None:
    """The instance still is on its old node, from which others keep a distance; a set goes to its new one."""
    shared = [instance("one", DiskTemplate.EXT, "a", mem=0), instance("other", DiskTemplate.EXT, "")]
    moved = replace(shared[0], pnode="b")
    for tag, expected in (("apart", [False, False, True]), ("together", [False, True, False])):
        here, new, there = (replace(row, tags=(f"htools:{tag}:x",)) for row in (*shared, moved))
        described = cluster(dict.fromkeys("abc", 10_000), [here])
        counted, names = with_promises(described, [Promise(there, new=False)])
        assert names == ["one"]
        assert (anew(derive(counted, (new,)), new).codes == FITS).tolist() == expected
        assert with_promises(described, [Promise(here, new=False)]) == (described, [])


@pytest.mark.parametrize("node", ["a", "b"])
def test_instance_being_created_takes_its_memory(node: str) -> None:
    there = with_rows(replace(DOWN, pnode=node))
    counted, names = with_promises(there, [PROMISE])
    assert names == ["new"]
    assert counted.instances == (replace(NEW, pnode=node),)
    assert free(counted) == {**free(there), node: (9_000, 900_000)}


@pytest.mark.parametrize(
    "row",
    [NEW, replace(NEW, status=Status.OFFLINE), replace(DOWN, forthcoming=True)],
    ids=["up", "offline", "forthcoming"],
)
def test_existing_instance_takes_nothing_more(row: Instance) -> None:
    there = with_rows(row)
    assert with_promises(there, [PROMISE]) == (there, [])


@pytest.mark.parametrize(
    "promise",
    [Promise(replace(NEW, pnode="gone"), new=True), Promise(replace(NEW, snode="gone"), new=True)],
)
def test_promise_on_a_missing_node_is_ignored(promise: Promise) -> None:
    assert with_promises(with_rows(), [promise]) == (with_rows(), [])


MIRRORED = replace(instance("moving", DiskTemplate.DRBD, "a", "b"), vcpus=3)
GPU = ("CUSTOM_GPU", Inventory(8, allocation_ratio=2.0))


def kept(described: Cluster, *promises: Promise) -> dict[str, dict[str, int]]:
    """What is reserved of each node, once these promises count."""
    counted, _ = with_promises(described, promises)
    assert counted.instances is described.instances or counted.instances == described.instances
    return {
        node.name: {name: each.reserved for name, each in node.inventories if each.reserved}
        for node in counted.nodes
        if any(each.reserved for _, each in node.inventories)
    }


DISK = {"CUSTOM_DISK_MIB_LVM_VG": 1024, "CUSTOM_SPINDLES": 1}
RUNS = {"MEMORY_MB": 1000, "VCPU": 3}


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (("b", "a"), {"b": RUNS}),
        (("a", "c"), {"c": DISK}),
        (("b", "c"), {"b": RUNS, "c": DISK}),
        (("c", "d"), {"c": DISK | RUNS, "d": DISK}),
        (("a", "b"), {}),
        (("a", "gone"), {}),
    ],
)
def test_new_nodes_reserve_resources_for_a_move(
    nodes: tuple[str, str], expected: dict[str, dict[str, int]]
) -> None:
    described = cluster(dict.fromkeys("abcd", 10_000), [MIRRORED])
    target = replace(MIRRORED, pnode=nodes[0], snode=nodes[1])
    assert kept(described, Promise(target, new=False)) == expected


def test_stopped_instance_reserves_no_memory_for_a_move() -> None:
    described = cluster(dict.fromkeys("abc", 10_000), [replace(MIRRORED, status=Status.DOWN)])
    assert kept(described, Promise(replace(MIRRORED, pnode="b", snode="a"), new=False)) == {"b": {"VCPU": 3}}
    assert kept(with_rows(), Promise(MIRRORED, new=False)) == {}


def test_custom_classes_are_reserved_with_inventories() -> None:
    tagged = replace(MIRRORED, tags=("htools:resource:CUSTOM_GPU:3",))
    described = cluster(dict.fromkeys("abc", 10_000), [tagged], inventories=(GPU,))
    found = kept(described, Promise(replace(tagged, pnode="b", snode="a"), new=False))
    assert found == {"b": RUNS | {"CUSTOM_GPU": 2}}


def test_room_for_a_move_is_not_allocated() -> None:
    described = cluster({"a": 10_000, "b": 3_000, "c": 3_000}, [MIRRORED])
    before = derive(described).columns
    moving = Promise(replace(MIRRORED, pnode="c", snode="b"), new=False)
    after = derive(with_promises(described, [moving])[0]).columns
    assert (before.unallocated - after.unallocated).tolist() == [0, 0, 1000]
    assert (before.f_dsk - after.f_dsk).tolist() == [0, 0, 1024]
    assert (after.u_cpu - before.u_cpu).tolist() == [0, 0, 3]
    assert after.x_mem.tolist() == before.x_mem.tolist()


# Each request is decided on the cluster as it was before the first.

DATA = generated(5, Shape(nodes=4, instances=8, templates={"drbd": 1}, fill=0.3))
LARGE = 3000


def decided(
    request: Json, *promises: Promise, cache: Cache | None = None, known: KnownCluster | None = None
) -> Response:
    text = messages.encode(messages.message(DATA, request)).encode()
    return respond(text, PlacementOptions(), cache, known, promises)


def places(response: Response) -> list[str]:
    return list(json.loads(response.answer)["result"])


def one_by_one(number: int, memory: int) -> list[Response]:
    """Requests for instances, each with the promises that were made before."""
    cache, found = Cache(), list[Response]()
    for index in range(number):
        promises = [promise for response in found for promise in response.promises]
        request = messages.allocate(f"new{index}", memory=memory)
        found.append(decided(request, *promises, cache=cache))
    return found


def test_requests_in_turn_are_decided_like_one_request() -> None:
    single = [places(response) for response in one_by_one(12, LARGE)]
    number = single.index([])
    requests = [messages.allocate(f"new{index}", memory=LARGE) for index in range(number)]
    good, _bad = json.loads(decided(messages.multi_allocate(requests)).answer)["result"]
    assert number > 2
    assert single == [nodes for _, nodes in good] + [[]] * (12 - number)


def test_refusal_names_the_promises() -> None:
    single = one_by_one(12, LARGE)
    refused = next(response for response in single if not places(response))
    number = single.index(refused)
    told = f"; resources are claimed for new0, new1, new2 and {number - 3} more"
    assert f'{told}, without these claims more would find a place"' in refused.answer
    assert "promised" not in single[0].answer
    hopeless = decided(messages.allocate("huge", memory=1 << 30), *single[0].promises)
    assert "promised" not in hopeless.answer


def test_answer_says_whether_promises_changed_it() -> None:
    """Where the same has just been decided without; otherwise, whose room was counted."""
    first, *later = one_by_one(4, LARGE)
    changed = [places(response) != places(first) for response in later]
    told = [", without these claims other nodes would be chosen" in response.answer for response in later]
    assert told == changed
    assert any(changed)
    assert '; resources are claimed for new0"' in decided(messages.allocate("new"), *first.promises).answer
    moved = replace(first.promises[0].row, pnode=places(first)[1], snode=places(first)[0])
    cache = Cache()
    decided(messages.allocate("small", memory=1), cache=cache)
    harmless = Promise(replace(moved, mem=0, dsk=0, disks=(), vcpus=0, spindle_use=0), new=True)
    assert "promised" not in decided(messages.allocate("other", memory=1), harmless, cache=cache).answer


POOL = DesiredUnit(StorageType.EXT, "san")


def test_answer_names_promises_of_other_clusters_on_its_pools() -> None:
    pool = Pool(POOL, 10_000, reserved=1_000, taken=8_000)
    known = KnownCluster(replace(cluster({}, ()), pools=(pool,)), 0.0, promised={"other/web": {POOL: 8_000}})
    request = messages.allocate("new", "ext", disks=[2_000])
    request["disks"][0] |= {"provider": "san"}
    answer = decided(request, known=known).answer
    assert '; resources are claimed for other/web, without these claims more would find a place"' in answer
    assert "promised" not in decided(messages.allocate("new"), known=known).answer


def test_promise_takes_measured_space_of_its_pool() -> None:
    known = KnownCluster(replace(cluster({}, ()), pools=(Pool(POOL, 10_000, free=3_000),)), 0.0)

    def request(name: str) -> dict[str, Any]:
        made = messages.allocate(name, "ext", disks=[2_000])
        made["disks"][0] |= {"provider": "san"}
        return made

    first = decided(request("first"), known=known)
    assert first.promises
    assert not decided(request("second"), *first.promises, known=known).promises
    assert decided(request("second"), known=known).promises


def test_own_promise_does_not_count_in_a_repeated_request() -> None:
    first = decided(messages.allocate("new", memory=LARGE))
    again = decided(messages.allocate("new", memory=LARGE), *first.promises)
    assert (again.answer, again.promises) == (first.answer, first.promises)


def test_recreated_disks_are_promised_to_the_existing_instance() -> None:
    (name, told) = next(iter(DATA["instances"].items()))
    response = decided(messages.allocate(name, memory=told["memory"]))
    (promise,) = response.promises
    assert not promise.new
    assert [promise.row.pnode, promise.row.snode] == places(response)
    assert promise.row.mem == told["memory"]


@pytest.mark.parametrize("kind", TYPES)
def test_response_promises_its_answer(kind: str) -> None:
    found = 0
    for seed in range(40):
        asked = case(seed, kind)
        response = respond(asked.text.encode(), PlacementOptions())
        promised = [[promise.row.pnode, promise.row.snode] for promise in response.promises]
        nodes = [[*each, None][:2] for each in response.summary.nodes]
        if kind == "allocate-secondary":
            promised = [[node, None] for _, node in promised]
        assert promised == nodes
        assert {promise.name for promise in response.promises} <= set(response.instances)
        assert all(
            promise.new is ("allocate" in kind and "secondary" not in kind) for promise in response.promises
        )
        found += len(promised)
    assert found
