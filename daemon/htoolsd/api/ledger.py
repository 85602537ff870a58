"""The methods about the ledger, after those of OpenStack Placement's API.

What was read has generations; what is written may name them, and is refused as a conflict (Placement's 409)
if they have passed.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.model.inventory import Inventory
from htoolsd.api import ledger_arguments as given
from htoolsd.api import ledger_names as named
from htoolsd.ledger.records import (
    CapacityError,
    ConflictError,
    Consumer,
    Kind,
    LedgerError,
    LedgerSnapshot,
    ProviderUsage,
    UnavailableError,
)
from htoolsd.ledger.worker import LedgerWorker, Work
from htoolsd.socket.methods import Args, File

if TYPE_CHECKING:
    from htoolsd.ledger.ledger import Ledger

T = TypeVar("T")

_REFUSALS: Mapping[type[LedgerError], Refusal] = {
    ConflictError: Refusal.CONFLICT,
    CapacityError: Refusal.CAPACITY,
    UnavailableError: Refusal.LEDGER,
}
_KINDS: Mapping[Kind, str] = {"node": "a node", "instance": "an instance", "plan": "a plan", "claim": ""}


class LedgerMethods:
    """Answers about the ledger.

    ``cluster`` tells the cluster's name, None while it is not known. Nothing is changed while the master is
    ``elsewhere``. What is changed here is to be heeded by decisions; what those have promised to an instance
    can be cancelled.
    """

    def __init__(
        self,
        worker: LedgerWorker,
        cluster: Callable[[], str | None],
        elsewhere: Callable[[], bool],
        heed: Callable[[], object],
        cancel: Callable[[str], object],
    ) -> None:
        self._worker = worker
        self._cluster = cluster
        self._elsewhere = elsewhere
        self._heed = heed
        self._cancel = cancel

    # All of these raise RefusalError.

    async def providers(self, _args: Args, _file: File) -> object:
        return [asdict(each) for each in await self._do(lambda ledger: ledger.providers())]

    async def inventory(self, args: Args, _file: File) -> object:
        return list(map(_inventories, await self._standings(args)))

    async def usage(self, args: Args, _file: File) -> object:
        return list(map(_usages, await self._standings(args)))

    async def set_inventory(self, args: Args, _file: File) -> object:
        name, generation = given.name(args, "provider"), given.generation(args, "generation")
        resource_class, cluster = given.resource_class(args), self._cluster()

        def work(ledger: "Ledger") -> tuple[ProviderUsage, ...]:
            provider = named.provider(ledger, name, cluster)
            (before,) = ledger.provider_usages(provider.uuid)
            if before.provider.generation != generation:
                was = before.provider.generation
                raise ConflictError(f"{provider.name}: its generation is {was}, not {generation}")
            made = given.inventory(args, resource_class, before.inventories.get(resource_class))
            ledger.set_inventory(provider.uuid, generation, resource_class, made)
            return ledger.provider_usages(provider.uuid)

        return list(map(_inventories, await self._change(work)))

    async def allocations(self, args: Args, _file: File) -> object:
        name, cluster = given.name_if_any(args, "consumer"), self._cluster()

        def work(ledger: "Ledger") -> LedgerSnapshot:
            return ledger.snapshot(None if name is None else named.consumer(ledger, name, cluster).uuid)

        contents = await self._do(work)
        return [_allocations(each, contents) for each in contents.consumers.values()]

    async def claim(self, args: Args, _file: File) -> object:
        name, generation = given.name(args, "consumer"), given.consumer_generation(args)
        wanted, generations = given.allocations(args), given.generations(args)
        seconds, cluster = given.seconds(args), self._cluster()

        def work(ledger: "Ledger") -> LedgerSnapshot:
            uuid, full_name = named.new_consumer(name, cluster)
            before = ledger.consumer(uuid)
            if before is not None and before.kind != "claim":
                raise LedgerError(f"{full_name} is there already, as {_KINDS[before.kind]}")
            was = before.generation if before is not None and generation is None else generation
            expires = None if seconds is None else time.time() + seconds
            uuids = {each: named.provider(ledger, each, cluster).uuid for each in {*wanted, *generations}}
            ledger.claim(
                Consumer(uuid, full_name, "claim", was or 0, expires),
                {uuids[each]: amounts for each, amounts in wanted.items()},
                {uuids[each]: number for each, number in generations.items()},
            )
            return ledger.snapshot(uuid)

        contents = await self._change(work)
        return [_allocations(each, contents) for each in contents.consumers.values()]

    async def release(self, args: Args, _file: File) -> object:
        name, generation = given.name(args, "consumer"), given.consumer_generation(args)
        cluster = self._cluster()

        def work(ledger: "Ledger") -> Consumer:
            found = named.consumer(ledger, name, cluster)
            if not found.is_claim:
                raise LedgerError(f"{found.name} exists in Ganeti")
            ledger.release(found.uuid, found.generation if generation is None else generation)
            return found

        released = await self._change(work)
        if released.promised is not None and released.name.startswith(f"{cluster}/"):
            self._cancel(released.name.removeprefix(f"{cluster}/"))
        return _consumer(released)

    async def _standings(self, args: Args) -> tuple[ProviderUsage, ...]:
        name, cluster = given.name_if_any(args, "provider"), self._cluster()

        def work(ledger: "Ledger") -> tuple[ProviderUsage, ...]:
            return ledger.provider_usages(
                None if name is None else named.provider(ledger, name, cluster).uuid
            )

        return await self._do(work)

    async def _change(self, work: Work[T]) -> T:
        if self._elsewhere():
            raise RefusalError(Refusal.CLUSTER, "this is not the master node")
        changed = await self._do(work)
        self._heed()
        return changed

    async def _do(self, work: Work[T]) -> T:
        try:
            return await self._worker.do(work)
        except LedgerError as error:
            raise RefusalError(_REFUSALS.get(type(error), Refusal.ARGUMENTS), str(error)) from None


def _inventories(standing: ProviderUsage) -> dict[str, object]:
    found = {
        name: {**asdict(inventory), "capacity": inventory.capacity}
        for name, inventory in standing.inventories.items()
    }
    return {**asdict(standing.provider), "inventories": found}


def _usages(standing: ProviderUsage) -> dict[str, object]:
    """Of all classes that it has, or that are used of it."""
    found = {}
    for name in sorted({*standing.inventories, *standing.used}):
        used, capacity = standing.used.get(name, 0), standing.inventories.get(name, Inventory(0)).capacity
        found[name] = {"used": used, "capacity": capacity}
    return {**asdict(standing.provider), "usages": found}


def _consumer(consumer: Consumer) -> dict[str, object]:
    return {**asdict(consumer), "promised": consumer.promised is not None}


def _allocations(consumer: Consumer, contents: LedgerSnapshot) -> dict[str, object]:
    held = contents.allocations.get(consumer.uuid, {})
    found = [
        {
            "provider": uuid,
            "name": contents.providers[uuid].name,
            "generation": contents.providers[uuid].generation,
            "resources": dict(amounts),
        }
        for uuid, amounts in held.items()
    ]
    return {**_consumer(consumer), "allocations": found}
