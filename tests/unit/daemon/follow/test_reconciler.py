"""The ledger follows Ganeti, and decisions respect its reservations."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.model.inventory import Inventory
from htoolsd import marks
from htoolsd.follow.reconciler import Reconciler
from htoolsd.store.ledger import Ledger
from htoolsd.store.records import Consumer, consumer_uuid, provider_uuid
from htoolsd.store.worker import LedgerWorker
from htoolsd.sync.sync import Sync
from tests.support.ledgers import standing
from tests.support.memory_ganeti import MemoryGaneti, following, ganeti
from tests.support.settings import settings
from tests.support.workers import close


class Parts:
    """A daemon's model and ledger, and the reconciler between them."""

    def __init__(self, luxid: MemoryGaneti, sync: Sync, directory: Path) -> None:
        self.luxid, self.sync = luxid, sync
        self.worker = LedgerWorker(f"sqlite:///{directory}/ledger.sqlite")
        self.reconciler = Reconciler(sync, self.worker, settings(socket=str(directory / "socket")))
        sync.events.follow(self.reconciler)

    async def poll(self) -> None:
        """Poll Ganeti, and reconcile the ledger."""
        await self.sync.poll_all()
        await self.reconciler.reconcile()

    async def used(self, node: str, name: str) -> int:
        """Return the used amount of a node's class."""
        uuid = provider_uuid(f"{self.sync.model.name}/{node}")
        return (await self.worker.do(lambda ledger: standing(ledger, uuid).used)).get(name, 0)

    async def reserve(self, node: str, name: str, inventory: Inventory) -> None:
        """Set figures of a node's inventory."""
        uuid = provider_uuid(f"{self.sync.model.name}/{node}")

        def work(ledger: Ledger) -> None:
            ledger.set_inventory(uuid, standing(ledger, uuid).provider.generation, name, inventory)

        await self.worker.do(work)

    def inventories(self, node: str) -> dict[str, Inventory]:
        """Return the inventories of a node that decisions get."""
        cluster = self.sync.model.cluster
        assert cluster is not None
        return dict(next(row.inventories for row in cluster.nodes if row.name == node))


@asynccontextmanager
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    async with ganeti() as luxid, following(luxid) as sync:
        await sync.poll_all()
        made = Parts(luxid, sync, tmp_path)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.reconciler.run)
            yield made
            nursery.cancel_scope.cancel()
        await close(made.worker)


async def test_poll_writes_the_cluster_to_the_ledger(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with parts(tmp_path) as made:
        assert made.reconciler.status()["lag_s"] is None
        await made.poll()
        cluster = made.sync.model.cluster
        assert cluster is not None
        names = [each.name for each in await made.worker.do(lambda ledger: ledger.providers())]
        assert {f"{made.sync.model.name}/{node.name}" for node in cluster.nodes} <= {*names}
        status = made.reconciler.status()
        assert (status["lag_s"], status["following"]) == (0.0, None)
        written = status["written"]
        await made.poll()
        assert made.reconciler.status()["written"] == written  # there was nothing more to be written


async def test_inventory_reaches_decisions(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with parts(tmp_path) as made:
        await made.poll()
        before = made.sync.model
        assert before.cluster is not None
        node = before.cluster.nodes[0].name
        assert made.inventories(node) == {}
        await made.reserve(node, "CUSTOM_GPU", Inventory(2))
        await made.reserve(node, "VCPU", Inventory(1, 3, allocation_ratio=1.0))
        await made.reconciler.reconcile()
        ratio = before.cluster.groups[0].ipolicy.vcpu_ratio
        found = made.inventories(node)
        assert found["CUSTOM_GPU"] == Inventory(2)
        assert found["VCPU"].reserved == 3 * ratio
        assert made.sync.model.generations["ledger"] == 1
        known = made.sync.recent_model(before.generations)
        assert known is not None
        assert known.cluster is before.cluster  # who was told of it can still refer to it


async def test_inventories_that_are_in_no_tag_are_shown(autojump_clock: MockClock, tmp_path: Path) -> None:
    shown = tmp_path / f"socket{marks.UNTAGGED}"
    shown.touch()
    async with parts(tmp_path) as made:
        await made.poll()
        assert made.sync.model.cluster is not None
        node = made.sync.model.cluster.nodes[0].name
        assert not shown.exists()
        await made.reserve(node, "CUSTOM_GPU", Inventory(2))
        await made.reconciler.reconcile()
        await made.reconciler.reconcile()
        assert shown.exists()
        await made.reserve(node, "CUSTOM_GPU", Inventory(2, tagged=True))  # dropped: no tag has it
        await made.reconciler.reconcile()
        assert not shown.exists()


async def test_claims_of_plans_are_reserved(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with parts(tmp_path) as made:
        await made.poll()
        cluster = made.sync.model.cluster
        assert cluster is not None
        node = cluster.nodes[0].name
        plan = Consumer(consumer_uuid("plan"), "plan", "plan")
        wanted = {provider_uuid(f"{made.sync.model.name}/{node}"): {"MEMORY_MB": 700}}
        await made.worker.do(lambda ledger: ledger.claim(plan, wanted, {}))
        await made.reconciler.reconcile()
        assert made.inventories(node)["MEMORY_MB"].reserved == 700
        await made.worker.do(lambda ledger: ledger.release(plan))
        await made.reconciler.reconcile()
        assert made.inventories(node) == {}


async def test_unusable_ledger_is_behind(autojump_clock: MockClock, tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").mkdir()
    async with parts(tmp_path) as made:
        await made.poll()
        status = made.reconciler.status()
        assert status["lag_s"] is None
        assert "ledger.sqlite" in status["following"]
        assert made.sync.model.cluster is not None


async def test_only_the_master_writes(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with parts(tmp_path) as made:
        made.sync.master = False
        await made.reconciler.reconcile()
        assert await made.worker.do(lambda ledger: ledger.providers()) == ()


@pytest.mark.parametrize("promised", [None, "{}"])
async def test_promise_to_an_instance_is_not_reserved(
    autojump_clock: MockClock, tmp_path: Path, promised: Any
) -> None:
    """Decisions count the instance on its new nodes instead."""
    async with parts(tmp_path) as made:
        await made.poll()
        name = f"{made.sync.model.name}/new"
        cluster = made.sync.model.cluster
        assert cluster is not None
        node = cluster.nodes[0].name
        one = Consumer(consumer_uuid(name), name, "instance" if promised else "claim", promised=promised)
        wanted = {provider_uuid(f"{made.sync.model.name}/{node}"): {"MEMORY_MB": 700}}
        await made.worker.do(lambda ledger: ledger.claim(replace(one, generation=0), wanted, {}))
        await made.reconciler.reconcile()
        assert ("MEMORY_MB" in made.inventories(node)) == (promised is None)


async def test_inventories_in_tags_count_without_a_ledger(autojump_clock: MockClock, tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").mkdir()
    async with parts(tmp_path) as made:
        world = made.luxid.jobs.world
        node = replace(world.cluster.nodes[0], tags=("htools:inventory:CUSTOM_GPU:2",))
        made.luxid.jobs.change(world.with_nodes((node,)))
        await made.poll()
        assert made.reconciler.error is not None
        assert made.inventories(node.name) == {"CUSTOM_GPU": Inventory(2)}
        made.luxid.jobs.change(world)
        await made.poll()
        assert made.inventories(node.name) == {}
