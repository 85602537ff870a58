"""The methods about the ledger, modelled on OpenStack Placement's API.

Answers have generations. A call that changes something may name them, and is refused as a conflict
(Placement's 409) if they have changed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, TypeVar

import trio

from ganeti_htools import machine
from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.model.errors import first_names
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.resource_classes import POOL, VCPU
from htoolsd.api import ledger_arguments as given
from htoolsd.api import ledger_names as named
from htoolsd.api.inventory_tags import InventoryTags
from htoolsd.claims.claims import Claims
from htoolsd.config.settings import Settings
from htoolsd.follow.candidates import allocation_candidates, pools_of_nodes
from htoolsd.follow.reconciler import Reconciler
from htoolsd.follow.reserved import configured_reserves
from htoolsd.socket.methods import Name, method
from htoolsd.socket.roles import Role
from htoolsd.store.records import (
    Allocations,
    CapacityError,
    ConflictError,
    Consumer,
    Kind,
    LedgerError,
    LedgerSnapshot,
    Provider,
    ProviderUsage,
    UnavailableError,
)
from htoolsd.store.worker import LedgerWorker, Work
from htoolsd.sync.sync import Sync
from htoolsd.threads import encoded

if TYPE_CHECKING:
    from htoolsd.store.ledger import Ledger

T = TypeVar("T")

_REFUSALS: Mapping[type[LedgerError], Refusal] = {
    ConflictError: Refusal.CONFLICT,
    CapacityError: Refusal.CAPACITY,
    UnavailableError: Refusal.LEDGER,
}
_KINDS: Mapping[Kind, str] = {"node": "a node", "instance": "an instance", "plan": "a plan", "claim": ""}


_OneProvider = Annotated[Name | None, f"only this one: {given.PROVIDER}"]
_OneConsumer = Annotated[Name | None, f"only this one: {given.CONSUMER}, or the beginning up to a dot"]
_NO_GENERATIONS: Mapping[str, int] = {}


class LedgerMethods:
    """Methods about the ledger. They raise RefusalError.

    Nothing is changed while ``sync`` has an obstacle. Each change is reconciled.
    """

    def __init__(
        self,
        worker: LedgerWorker,
        sync: Sync,
        reconciler: Reconciler,
        claims: Claims,
        tags: InventoryTags,
        settings: Settings,
    ) -> None:
        self._worker = worker
        self._sync = sync
        self._reconciler = reconciler
        self._claims = claims
        self._tags = tags
        self._settings = settings
        self._setting = trio.Lock()

    @method(
        "Lists the resource providers (nodes and pools). The generation of a provider grows with every change"
        " of its inventories and allocations.",
        role=Role.READ,
    )
    async def providers(self) -> object:
        return await self._do(lambda ledger: list(map(asdict, ledger.providers())))

    @method(
        "Returns the inventories of resource providers, by resource class. Sizes are MiB.", role=Role.READ
    )
    async def inventory(self, provider: _OneProvider = None) -> object:
        return await self._of_providers(provider, self._inventories)

    @method(
        "Returns the amount of each resource class that is allocated from resource providers, and their"
        " capacity.",
        role=Role.READ,
    )
    async def usage(self, provider: _OneProvider = None) -> object:
        return await self._of_providers(provider, lambda found: list(map(_usages, found)))

    @method(
        "Sets a provider's inventory of a resource class, in a tag of the node (of the cluster for a pool),"
        " by a job, and in the ledger. Figures that are not given stay as they are. Of MEMORY_MB, VCPU,"
        " CUSTOM_SPINDLES and CUSTOM_DISK_MIB_..., total and allocation_ratio follow Ganeti. Refused as a"
        " conflict if the generation has changed, or if a removed inventory is in use.",
        role=Role.ACT,
        recorded=True,
    )
    async def set_inventory(
        self,
        provider: Annotated[Name, given.PROVIDER],
        generation: Annotated[given.Count, "of the provider, from the last answer"],
        resource_class: given.ResourceClass,
        total: Annotated[given.Count, "the amount, needed for a new inventory"] = given.NOT_GIVEN,
        reserved: Annotated[given.Count, "the part of it that is not allocated (0)"] = given.NOT_GIVEN,
        min_unit: Annotated[given.Positive, "the smallest amount of an allocation (1)"] = given.NOT_GIVEN,
        max_unit: Annotated[given.Positive | None, "the largest, null for no limit"] = given.NOT_GIVEN,
        step_size: Annotated[given.Positive, "amounts are multiples of it (1)"] = given.NOT_GIVEN,
        allocation_ratio: Annotated[given.Number, "overcommit factor (1.0)"] = given.NOT_GIVEN,
        remove: given.Remove = False,
    ) -> object:
        cluster = self._sync.cluster_name
        counts = {"total": total, "reserved": reserved, "min_unit": min_unit, "max_unit": max_unit}
        figures = counts | {"step_size": step_size, "allocation_ratio": allocation_ratio}

        def check(ledger: "Ledger") -> tuple[Provider, Inventory | None]:
            found = named.provider(ledger, provider, cluster)
            (before,) = ledger.provider_usages(found.uuid)
            if (was := before.provider.generation) != generation:
                raise ConflictError(f"{found.name}: generation is {was}, not {generation}; read it again")
            present = before.inventories.get(resource_class)
            if resource_class == VCPU and present is not None and self._settings.now.limits_vcpus:
                follows = present.max_unit == present.total  # the node's CPUs, no setting
                present = replace(present, max_unit=None if follows else present.max_unit)
            new = given.inventory(resource_class, present, remove, figures)
            if new is None and before.used.get(resource_class):
                users = _users(ledger.snapshot(), found, resource_class)
                raise ConflictError(f"the inventory is in use by {users}; release or move them first")
            return found, new

        def write(ledger: "Ledger") -> tuple[ProviderUsage, ...]:
            (now,) = ledger.provider_usages(owner.uuid)
            present = now.inventories.get(resource_class)
            if inventory is None if present is None else replace(present, tagged=False) == inventory:
                return (now,)
            ledger.set_inventory(owner.uuid, now.provider.generation, resource_class, inventory)
            return ledger.provider_usages(owner.uuid)

        async with self._setting:
            self._check_obstacle()
            owner, inventory = await self._do(check)
            if owner.name.startswith(f"{cluster}/"):
                await self._tags.write(owner.name.removeprefix(f"{cluster}/"), resource_class, inventory)
            return self._inventories(await self._change(write))

    @method(
        "Lists the allocations of consumers, by provider. pending: claimed, and not in Ganeti yet."
        " over_capacity: they exceed the capacity.",
        role=Role.READ,
    )
    async def allocations(self, consumer: _OneConsumer = None) -> object:
        cluster = self._sync.cluster_name

        def work(ledger: "Ledger") -> object:
            which = None if consumer is None else named.consumer(ledger, consumer, cluster).uuid
            contents = ledger.snapshot(which)
            return encoded([_allocations(each, contents) for each in contents.consumers.values()])

        return await self._do(work)

    @method(
        "Lists the nodes and pools in which amounts are free. First comes the one that leaves the largest"
        " share of its scarcest class (left). A candidate is a node that is online, with a pool that it sees"
        " if pool space is wanted, or a pool. Its allocations can be claimed, with the generations.",
        role=Role.READ,
    )
    async def candidates(
        self,
        resources: given.Amounts,
        group: Annotated[Name | None, "only nodes of this node group, and pools that they see"] = None,
        consumer: Annotated[Name | None, f"count what it has as free: {given.CONSUMER}"] = None,
    ) -> object:
        synced = self._reconciler.synced
        if synced is None:
            raise RefusalError(Refusal.CLUSTER, "the cluster is not known yet; ask again")
        desired = synced.desired

        def work(ledger: "Ledger") -> list[dict[str, object]]:
            nodes = pools_of_nodes(desired, group)
            cluster = desired.resources.cluster
            uuid = None if consumer is None else named.new_consumer(consumer, cluster)[0]
            now = ledger.refresh(synced.snapshot)
            return [
                {"left": each.shares[0], "allocations": _amounts_to_json(each.allocations, now)}
                for each in allocation_candidates(now, nodes, resources, uuid)
            ]

        return await self._do(work)

    @method(
        "Allocates resources to a consumer, all or nothing, in place of its last claim (replaced). Refused as"
        " a conflict if another client was first, as no-capacity if there is not enough.",
        role=Role.DECIDE,
        recorded=True,
    )
    async def claim(
        self,
        consumer: Annotated[Name, given.CONSUMER],
        allocations: given.AmountsByProvider,
        generations: given.Generations = _NO_GENERATIONS,
        consumer_generation: given.ConsumerGeneration = given.NOT_GIVEN,
        seconds: Annotated[given.Number | None, "time after which the claim ends"] = None,
    ) -> object:
        cluster, expires = self._sync.cluster_name, None
        if seconds is not None:
            expires = machine.now() + seconds
            self._worker.ends.note(expires, seconds, trio.current_time())

        def work(ledger: "Ledger") -> list[dict[str, object]]:
            uuid, full_name = named.new_consumer(consumer, cluster)
            had = ledger.snapshot(uuid)
            before = had.consumers.get(uuid)
            if before is not None and before.kind != "claim":
                raise LedgerError(f"{full_name} already exists, as {_KINDS[before.kind]}")
            generation = _generation(consumer_generation, before)
            names = {*allocations, *generations}
            uuids = {each: named.provider(ledger, each, cluster).uuid for each in names}
            ledger.claim(
                Consumer(uuid, full_name, "claim", generation, expires),
                {uuids[each]: requested for each, requested in allocations.items()},
                {uuids[each]: number for each, number in generations.items()},
            )
            replaced = None if before is None else _allocations(before, had)["allocations"]
            now = ledger.snapshot(uuid)
            return [{**_allocations(each, now), "replaced": replaced} for each in now.consumers.values()]

        return await self._change(work)

    @method(
        "Ends a claim, and returns it. Allocations of what exists in Ganeti cannot be released.",
        role=Role.DECIDE,
        recorded=True,
    )
    async def release(
        self,
        consumer: Annotated[Name, f"{given.CONSUMER}, or the beginning up to a dot"],
        consumer_generation: given.ConsumerGeneration = given.NOT_GIVEN,
    ) -> object:
        cluster = self._sync.cluster_name

        def work(ledger: "Ledger") -> Consumer:
            found = named.consumer(ledger, consumer, cluster)
            if not found.is_claim:
                raise LedgerError(f"{found.name} exists in Ganeti; expected a claim")
            ledger.release(replace(found, generation=_generation(consumer_generation, found)))
            return found

        released = await self._change(work)
        if released.promised is not None and released.name.startswith(f"{cluster}/"):
            self._claims.cancel(released.name.removeprefix(f"{cluster}/"))
        return _consumer(released)

    def _inventories(self, standings: Iterable[ProviderUsage]) -> list[dict[str, object]]:
        """Return inventories as JSON, those of pools with what the configuration reserves."""
        synced = self._reconciler.synced
        reserves = configured_reserves(synced.desired) if synced else {}
        return [_inventories(each, reserves.get(each.provider.uuid, 0)) for each in standings]

    async def _of_providers(self, name: str | None, to_json: Callable[[Iterable[ProviderUsage]], T]) -> T:
        cluster = self._sync.cluster_name

        def work(ledger: "Ledger") -> T:
            which = None if name is None else named.provider(ledger, name, cluster).uuid
            return to_json(ledger.provider_usages(which))

        return await self._do(work)

    def _check_obstacle(self) -> None:
        if (why := self._sync.obstacle()) is not None:
            raise RefusalError(Refusal.CLUSTER, why)

    async def _do(self, work: Work[T]) -> T:
        """Return the result of work on the ledger. Raises RefusalError."""
        try:
            return await self._worker.do(work)
        except LedgerError as error:
            raise RefusalError(_REFUSALS.get(type(error), Refusal.ARGUMENTS), str(error)) from None

    async def _change(self, work: Work[T]) -> T:
        self._check_obstacle()
        changed = await self._do(work)
        self._reconciler.trigger()
        return changed


def _generation(argument: int | None, consumer: Consumer | None) -> int | None:
    """Return the generation that a consumer must have: any if not given, 0 for null (a new consumer)."""
    return consumer.generation if consumer and argument == given.NOT_GIVEN else max(0, argument or 0)


def _users(content: LedgerSnapshot, provider: Provider, resource_class: str) -> str:
    """Name the consumers of a class of a provider."""
    return first_names(
        [
            consumer.name
            for uuid, consumer in content.consumers.items()
            if content.allocations.get(uuid, {}).get(provider.uuid, {}).get(resource_class)
        ]
    )


def _inventories(standing: ProviderUsage, more: int) -> dict[str, object]:
    found = {
        name: {**asdict(inventory), "capacity": inventory.capacity}
        for name, inventory in standing.inventories.items()
    }
    if POOL in found:
        pool = standing.inventories[POOL]
        found[POOL] |= {"total": pool.total + more, "reserved": pool.reserved + more}
    return {**asdict(standing.provider), "inventories": found}


def _usages(standing: ProviderUsage) -> dict[str, object]:
    """Return usage and capacity (None: unknown) of all classes in the inventories or in use, as JSON."""
    found = {}
    for name in sorted({*standing.inventories, *standing.used}):
        inventory = standing.inventories.get(name)
        capacity = inventory.capacity if inventory else None
        found[name] = {"used": standing.used.get(name, 0), "capacity": capacity}
    return {**asdict(standing.provider), "usages": found}


def _consumer(consumer: Consumer) -> dict[str, object]:
    figures = asdict(consumer)
    promised = figures.pop("promised")
    return {**figures, "pending": promised is not None}


def _allocations(consumer: Consumer, contents: LedgerSnapshot) -> dict[str, object]:
    held = contents.allocations.get(consumer.uuid, {})
    return {**_consumer(consumer), "allocations": _amounts_to_json(held, contents)}


def _amounts_to_json(allocations: Allocations, contents: LedgerSnapshot) -> list[dict[str, object]]:
    """Return allocations with the names and generations of their providers, as JSON."""
    return [
        {
            "provider": uuid,
            "name": contents.providers[uuid].name,
            "generation": contents.providers[uuid].generation,
            "resources": dict(amounts),
        }
        for uuid, amounts in allocations.items()
    ]
