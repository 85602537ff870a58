"""The methods about the ledger, in a file: tests of the ledger itself compare the databases."""

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest
import trio

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.model.inventory import Inventory
from htoolsd.api.ledger import LedgerMethods
from htoolsd.store.ledger import Ledger
from htoolsd.store.records import Consumer, LedgerChanges, LedgerEntry, Provider, consumer_uuid, provider_uuid
from tests.support.settings import change, settings
from tests.support.workers import PatientWorker

NODE, OTHER, POOL = (provider_uuid(name) for name in ("c/node1.org", "c/node2.org", "ceph"))
THERE = LedgerChanges(
    providers=(
        Provider(NODE, "c/node1.org"),
        Provider(OTHER, "c/node2.org"),
        Provider(POOL, "ceph", can_host=False),
    ),
    inventories={
        NODE: {"MEMORY_MB": Inventory(1000), "VCPU": Inventory(4, allocation_ratio=2.0)},
        OTHER: {"MEMORY_MB": Inventory(500)},
        POOL: {"CUSTOM_DISK_MIB": Inventory(10_000)},
    },
    allocations=(
        LedgerEntry(Consumer(consumer_uuid("c/web"), "c/web", "instance"), {NODE: {"MEMORY_MB": 100}}),
    ),
)


class Client:
    """Calls methods as clients do. It is also the other parts of the daemon, as far as methods need them."""

    def __init__(self, url: str) -> None:
        self.worker = PatientWorker(url)
        self.cluster_name: str | None = "c"
        self.why: str | None = None
        self.synced = None
        self.settings = settings()
        self.heeded, self.cancelled = list[None](), list[str]()
        self.tagged = list[tuple[str, str, Inventory | None]]()
        others: Any = self
        self._methods = LedgerMethods(self.worker, others, others, others, others, self.settings)

    def obstacle(self) -> str | None:
        return self.why

    def trigger(self) -> None:
        self.heeded.append(None)

    def cancel(self, name: str) -> None:
        self.cancelled.append(name)

    async def write(self, owner: str, resource_class: str, inventory: Inventory | None) -> None:
        self.tagged.append((owner, resource_class, inventory))

    async def call(self, method: str, **args: object) -> Any:
        return await getattr(self._methods, method)(args, None)

    async def refused(self, method: str, **args: object) -> tuple[Refusal, str]:
        with pytest.raises(RefusalError) as error:
            await self.call(method, **args)
        return error.value.kind, str(error.value)

    async def generation(self, uuid: str) -> int:
        (generation,) = {each["generation"] for each in await self.call("providers") if each["uuid"] == uuid}
        return int(generation)


@pytest.fixture
async def client(emptied_ledger: Callable[[str], str]) -> AsyncIterator[Client]:
    client = Client(emptied_ledger("sqlite"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.worker.run)
        await client.worker.do(lambda ledger: ledger.apply(THERE))
        yield client
        nursery.cancel_scope.cancel()


async def test_providers(client: Client) -> None:
    told = [(each["name"], each["uuid"], each["can_host"]) for each in await client.call("providers")]
    assert told == [("c/node1.org", NODE, True), ("c/node2.org", OTHER, True), ("ceph", POOL, False)]


async def test_returns_inventories_and_usages(client: Client) -> None:
    (told,) = await client.call("inventory", provider="node1")
    assert told["inventories"]["VCPU"] == {
        "total": 4,
        "reserved": 0,
        "min_unit": 1,
        "max_unit": None,
        "step_size": 1,
        "allocation_ratio": 2.0,
        "tagged": False,
        "capacity": 8,
    }
    (told,) = await client.call("usage", provider="node1")
    used = {"MEMORY_MB": {"used": 100, "capacity": 1000}, "VCPU": {"used": 0, "capacity": 8}}
    assert (told["uuid"], told["usages"]) == (NODE, used)
    assert [each["name"] for each in await client.call("usage")] == ["c/node1.org", "c/node2.org", "ceph"]


@pytest.mark.parametrize("name", ["c/node1.org", "node1.org", "node1", NODE])
async def test_names_of_providers(client: Client, name: str) -> None:
    assert [each["uuid"] for each in await client.call("inventory", provider=name)] == [NODE]


async def test_refuses_unknown_and_ambiguous_names(client: Client) -> None:
    for name, told in (
        ("node", "there is no resource provider node"),
        ("node3", "there is no resource provider node3"),
        (consumer_uuid("c/web"), f"there is no resource provider {consumer_uuid('c/web')}"),
    ):
        assert await client.refused("inventory", provider=name) == (Refusal.ARGUMENTS, told)
    await client.worker.do(
        lambda ledger: ledger.apply(LedgerChanges(providers=(Provider("x", "d/node1.org"),)))
    )
    ambiguous = Refusal.ARGUMENTS, "node1 is ambiguous: c/node1.org or d/node1.org"
    client.cluster_name = None
    assert await client.refused("inventory", provider="node1") == ambiguous


async def test_a_claim(client: Client) -> None:
    seen = await client.generation(NODE)
    (told,) = await client.call(
        "claim",
        consumer="new",
        allocations={"node1": {"MEMORY_MB": 900, "VCPU": 1}, "ceph": {"CUSTOM_DISK_MIB": 7}},
        generations={"node1": seen},
        consumer_generation=None,
    )
    assert (told["uuid"], told["name"], told["kind"]) == (consumer_uuid("c/new"), "c/new", "claim")
    keys = ("generation", "expires", "pending", "over_capacity")
    assert [told[key] for key in keys] == [1, None, False, False]
    assert told["allocations"] == [
        {
            "provider": NODE,
            "name": "c/node1.org",
            "generation": seen + 1,
            "resources": {"MEMORY_MB": 900, "VCPU": 1},
        },
        {"provider": POOL, "name": "ceph", "generation": 2, "resources": {"CUSTOM_DISK_MIB": 7}},
    ]
    assert told.pop("replaced") is None
    assert [told] == await client.call("allocations", consumer="new")
    assert [each["name"] for each in await client.call("allocations")] == ["c/new", "c/web"]
    assert await client.refused(
        "claim", consumer="late", allocations={"node1": {"VCPU": 1}}, generations={"node1": seen}
    ) == (Refusal.CONFLICT, f"c/node1.org: changed by another client since generation {seen}")
    assert await client.refused("claim", consumer="more", allocations={"node1": {"MEMORY_MB": 1}}) == (
        Refusal.CAPACITY,
        "c/node1.org: MEMORY_MB: 1 requested, 0 of 1000 free",
    )


async def test_replaces_a_claim_when_the_generation_matches(client: Client) -> None:
    wanted = {"node2": {"MEMORY_MB": 10}}
    await client.call("claim", consumer="new", allocations=wanted, consumer_generation=None)
    kind, text = await client.refused("claim", consumer="new", allocations=wanted, consumer_generation=None)
    assert (kind, text) == (
        Refusal.CONFLICT,
        "c/new: changed by another client: its generation is 1, not 0",
    )
    (told,) = await client.call("claim", consumer="new", allocations=wanted, consumer_generation=1)
    assert told["generation"] == 2
    (told,) = await client.call("claim", consumer="new", allocations={"node1": {"VCPU": 1}})
    assert [each["resources"] for each in told["allocations"]] == [{"VCPU": 1}]
    assert [(each["name"], each["resources"]) for each in told["replaced"]] == [
        ("c/node2.org", {"MEMORY_MB": 10})
    ]


async def test_claim_expires(client: Client) -> None:
    wanted = {"node2": {"MEMORY_MB": 10}}
    (told,) = await client.call("claim", consumer="new", allocations=wanted, seconds=0.001)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.worker.run)
        while any(each["name"] == "c/new" for each in await client.call("allocations")):
            await trio.sleep(0)
        nursery.cancel_scope.cancel()
    assert told["expires"] > 0


async def test_refuses_to_release_what_exists_in_ganeti(client: Client) -> None:
    assert await client.refused("claim", consumer="web", allocations={"node1": {"VCPU": 1}}) == (
        Refusal.ARGUMENTS,
        "c/web already exists, as an instance",
    )
    assert await client.refused("release", consumer="web") == (
        Refusal.ARGUMENTS,
        "c/web exists in Ganeti; expected a claim",
    )


async def test_refuses_to_release_a_claim_twice(client: Client) -> None:
    await client.call("claim", consumer="new.org", allocations={"node2": {"MEMORY_MB": 10}})
    kind, _ = await client.refused("release", consumer="new", consumer_generation=7)
    assert kind is Refusal.CONFLICT
    assert (await client.call("release", consumer="new"))["name"] == "c/new.org"
    assert await client.refused("release", consumer="new") == (
        Refusal.ARGUMENTS,
        "there is no consumer new",
    )


async def test_releases_a_promise_of_a_decision(client: Client) -> None:
    promised = [
        Consumer(consumer_uuid(name), name, "instance", promised="{}") for name in ("c/new.org", "d/other")
    ]
    for each in promised:
        await client.worker.do(partial(Ledger.claim, consumer=each, allocations={}, generations={}))
    await client.call("release", consumer="new")
    await client.call("release", consumer="d/other")  # another daemon's
    assert client.cancelled == ["new.org"]
    assert [each["name"] for each in await client.call("allocations")] == ["c/web"]


async def test_decisions_heed_what_was_changed(client: Client) -> None:
    given: dict[str, Any] = {"provider": "node2", "resource_class": "CUSTOM_X"}
    await client.call("set_inventory", total=5, generation=await client.generation(OTHER), **given)
    assert len(client.heeded) == 1
    await client.call("claim", consumer="new", allocations={"node2": {"CUSTOM_X": 5}})
    assert len(client.heeded) == 2
    await client.call("release", consumer="new")
    assert len(client.heeded) == 3


async def test_refuses_changes_on_another_node(client: Client) -> None:
    client.why = "this is not the master node"
    calls: dict[str, dict[str, Any]] = {"set_inventory": SET, "claim": CLAIM, "release": {"consumer": "web"}}
    for method, args in calls.items():
        kind, text = await client.refused(method, **args)
        assert (kind, text) == (Refusal.CLUSTER, "this is not the master node")
    assert [each["name"] for each in await client.call("allocations")] == ["c/web"]
    assert not client.heeded


async def test_needs_full_names_without_a_cluster(client: Client) -> None:
    client.cluster_name = None
    wanted = {"ceph": {"CUSTOM_DISK_MIB": 1}}
    assert await client.refused("claim", consumer="new", allocations=wanted) == (
        Refusal.ARGUMENTS,
        "consumer: expected CLUSTER/new, because the name of this cluster is not known yet",
    )
    (told,) = await client.call("claim", consumer="d/new", allocations=wanted)
    assert told["name"] == "d/new"


async def test_sets_an_inventory(client: Client) -> None:
    seen = await client.generation(NODE)
    given = {"provider": "node1", "resource_class": "CUSTOM_GPU"}
    (told,) = await client.call("set_inventory", generation=seen, total=8, max_unit=4, **given)
    assert told["generation"] == seen + 1
    assert told["inventories"]["CUSTOM_GPU"] == {
        "total": 8,
        "reserved": 0,
        "min_unit": 1,
        "max_unit": 4,
        "step_size": 1,
        "allocation_ratio": 1.0,
        "tagged": False,
        "capacity": 8,
    }
    kind, text = await client.refused("set_inventory", generation=seen, total=9, **given)
    assert (kind, text) == (
        Refusal.CONFLICT,
        f"c/node1.org: generation is {seen + 1}, not {seen}; read it again",
    )
    more: dict[str, Any] = {
        "reserved": 2,
        "max_unit": None,
        "min_unit": 2,
        "step_size": 2,
        "allocation_ratio": 1.5,
    }
    (told,) = await client.call("set_inventory", generation=seen + 1, **given, **more)
    assert told["inventories"]["CUSTOM_GPU"] == {"total": 8, "capacity": 9, "tagged": False, **more}
    (told,) = await client.call("set_inventory", generation=seen + 2, remove=True, **given)
    assert "CUSTOM_GPU" not in told["inventories"]
    assert client.tagged == [
        ("node1.org", "CUSTOM_GPU", Inventory(8, max_unit=4)),
        ("node1.org", "CUSTOM_GPU", Inventory(8, **more)),
        ("node1.org", "CUSTOM_GPU", None),
    ]


async def test_inventory_of_a_shared_pool_is_in_the_ledger_only(client: Client) -> None:
    given = {"provider": "ceph", "resource_class": "CUSTOM_DISK_MIB_POOL", "total": 5}
    with pytest.raises(RefusalError, match="a class of the provider"):
        await client.call("set_inventory", generation=await client.generation(POOL), **given)
    given = {"provider": "ceph", "resource_class": "CUSTOM_LICENCE", "total": 5}
    await client.call("set_inventory", generation=await client.generation(POOL), **given)
    assert client.tagged == []


async def test_tag_is_not_removed_while_the_inventory_is_in_use(client: Client) -> None:
    given = {"provider": "node2", "resource_class": "CUSTOM_X"}
    await client.call("set_inventory", total=5, generation=await client.generation(OTHER), **given)
    await client.call("claim", consumer="new", allocations={"node2": {"CUSTOM_X": 5}})
    seen = await client.generation(OTHER)
    kind, text = await client.refused("set_inventory", remove=True, generation=seen, **given)
    assert (kind, text) == (
        Refusal.CONFLICT,
        "the inventory is in use by c/new; release or move them first",
    )
    assert len(client.tagged) == 1


async def test_allows_only_reserved_for_classes_of_ganeti(client: Client) -> None:
    given = {"provider": "node1", "resource_class": "MEMORY_MB", "generation": await client.generation(NODE)}
    for wrong, told in (
        ({"total": 5}, "total: expected no value; the total of MEMORY_MB is what the node reports"),
        (
            {"allocation_ratio": 2},
            "allocation_ratio: expected no value; MEMORY_MB is not overcommitted, because Ganeti gives each",
        ),
        (
            {"remove": True},
            "remove: expected true (without figures, and not for a class that",
        ),
    ):
        kind, text = await client.refused("set_inventory", **given, **wrong)
        assert kind is Refusal.ARGUMENTS
        assert text.startswith(f"set_inventory: {told}")
    (found,) = await client.call("set_inventory", reserved=300, **given)
    assert found["inventories"]["MEMORY_MB"]["capacity"] == 700
    given = {"provider": "node2", "resource_class": "VCPU", "generation": await client.generation(OTHER)}
    _, text = await client.refused("set_inventory", reserved=1, **given)
    assert text == "set_inventory: resource_class: expected a class of the provider; VCPU follows Ganeti"


SET = {"provider": "node1", "generation": 1, "resource_class": "CUSTOM_X", "total": 8}
CLAIM = {"consumer": "new", "allocations": {"node1": {"VCPU": 1}}}
CLASS = "a resource class: MEMORY_MB, VCPU or CUSTOM_ with capitals, digits, underscores"


@pytest.mark.parametrize(
    ("method", "args", "told"),
    [
        ("inventory", {"provider": 5}, "provider: expected a name"),
        ("inventory", {"provider": ""}, "provider: expected a name"),
        ("set_inventory", SET | {"generation": None}, "generation: expected a whole number of at least 0"),
        ("set_inventory", SET | {"resource_class": "GPU"}, f"resource_class: expected {CLASS}"),
        ("set_inventory", SET | {"total": -1}, "total: expected a whole number of at least 0"),
        ("set_inventory", SET | {"total": 1 << 60}, "total: expected a whole number of at least 0"),
        ("set_inventory", SET | {"total": True}, "total: expected a whole number of at least 0"),
        ("set_inventory", SET | {"reserved": 9}, "reserved: expected at most the total, which is 8"),
        ("set_inventory", SET | {"min_unit": 0}, "min_unit: expected a whole number of at least 1"),
        (
            "set_inventory",
            SET | {"min_unit": 3, "max_unit": 2},
            "max_unit: expected at least min_unit, which is 3",
        ),
        ("set_inventory", SET | {"step_size": 0}, "step_size: expected a whole number of at least 1"),
        (
            "set_inventory",
            SET | {"allocation_ratio": 0},
            "allocation_ratio: expected a number greater than 0",
        ),
        ("set_inventory", SET | {"remove": 1}, "remove: expected true (without figures, "),
        (
            "set_inventory",
            {key: value for key, value in SET.items() if key != "total"},
            "total: expected a whole number of at least 0",
        ),
        ("claim", CLAIM | {"consumer": None}, "consumer: expected a name"),
        ("claim", CLAIM | {"allocations": {}}, "allocations: expected an object: by provider"),
        ("claim", CLAIM | {"allocations": {"node1": 5}}, "allocations: node1: expected an object: amounts"),
        ("claim", CLAIM | {"allocations": {"node1": {"GPU": 1}}}, f"allocations: node1: expected {CLASS}"),
        (
            "claim",
            CLAIM | {"allocations": {"node1": {"VCPU": 0}}},
            "allocations: node1: VCPU: expected a whole number of at least 1",
        ),
        ("claim", CLAIM | {"generations": []}, "generations: expected an object: generations by provider"),
        (
            "claim",
            CLAIM | {"generations": {"node1": -1}},
            "generations: node1: expected a whole number",
        ),
        (
            "claim",
            CLAIM | {"consumer_generation": "1"},
            "consumer_generation: expected a whole number",
        ),
        ("claim", CLAIM | {"seconds": 0}, "seconds: expected a number greater than 0"),
        ("release", {}, "consumer: expected a name"),
    ],
)
async def test_refuses_wrong_calls(client: Client, method: str, args: Any, told: str) -> None:
    kind, text = await client.refused(method, **args)
    assert kind is Refusal.ARGUMENTS
    assert text.startswith(f"{method}: {told}")


async def test_refuses_calls_without_a_ledger() -> None:
    kind, text = await Client("sqlite:////nowhere/ledger").refused("providers")
    assert (kind, text) == (Refusal.LEDGER, "/nowhere/ledger: No such file or directory")


async def test_cpus_of_a_node_are_no_setting_of_the_administrator(client: Client) -> None:
    given = {"provider": "node1", "resource_class": "VCPU"}
    await client.call("set_inventory", max_unit=4, generation=await client.generation(NODE), **given)
    change(client.settings, vcpu_max_unit="physical")
    await client.call("set_inventory", reserved=1, generation=await client.generation(NODE), **given)
    await client.call("set_inventory", max_unit=3, generation=await client.generation(NODE), **given)
    written = [each and (each.reserved, each.max_unit) for _, _, each in client.tagged]
    assert written == [(0, 4), (1, None), (1, 3)]
