"""Claims are written to the ledger sooner or later; a decision does not wait for that.

The clock stands still, so only what a test delays is late.
"""

import sqlite3
import threading
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
import trio.testing
from trio.testing import MockClock, wait_all_tasks_blocked

from ganeti_htools.deciding.decision import Response
from ganeti_htools.deciding.promises import Promise
from ganeti_htools.deciding.summary import DecisionSummary
from ganeti_htools.model.cluster import Cluster, Disk, Instance
from ganeti_htools.model.resource_classes import MEMORY, POOL
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType
from ganeti_htools.model.types import DiskTemplate, Status
from htoolsd.claims.claim_writer import ClaimWriter
from htoolsd.claims.claims import Claims
from htoolsd.follow.desired_state import SyncedState, desired_state
from htoolsd.follow.diff import diff
from htoolsd.store.ledger import Ledger
from htoolsd.store.records import Consumer, consumer_uuid, provider_uuid
from htoolsd.store.worker import LedgerWorker
from htoolsd.sync.job_queue import PendingWork
from htoolsd.sync.polls import RoleChanged
from tests.support.by_hand import cluster, instance
from tests.support.ledgers import standing
from tests.support.settings import change, settings
from tests.support.workers import close

A, B = provider_uuid("c/a"), provider_uuid("c/b")
RBD = Pool(DesiredUnit(StorageType.RADOS, "rbd"), 10_000)
JOB = {1: [{"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "new"}]}


def promise(name: str, node: str = "a", new: bool = True, mem: int = 1000) -> Promise:
    return Promise(instance(name, DiskTemplate.PLAIN, node, mem=mem), new)


def on_pool(name: str, mib: int) -> Promise:
    row = instance(name, DiskTemplate.RBD, "a", mem=0)
    return Promise(replace(row, dsk=mib, disks=(Disk(mib, unit=RBD.unit),)), new=True)


def response(*promises: Promise, about: Sequence[str] = ()) -> Response:
    names = tuple(about) or tuple(each.name for each in promises)
    return Response(
        '{"info":"x"}', (), DecisionSummary("allocate", names), promises=promises, instances=names
    )


class Looking:
    """A view of the ledger that tests update."""

    def __init__(self, worker: LedgerWorker, *rows: Instance) -> None:
        self.synced: SyncedState | None = None
        self.pending = False
        self.worker = worker
        self.cluster = self.of(*rows)
        self.looks = 0

    def of(self, *rows: Instance) -> Cluster:
        return cluster({"a": 10_000, "b": 10_000}, rows)

    def trigger(self) -> None:
        self.looks += 1

    async def reconcile(self) -> None:
        self.synced = await self.worker.do(self.look)

    async def reread(self, _providers: Collection[str], limit: float) -> None:
        await self.reconcile()

    def look(self, ledger: Ledger) -> SyncedState:
        desired = desired_state(self.cluster, "c")
        ledger.apply(diff(desired, ledger.snapshot()))
        return SyncedState(desired, ledger.snapshot())


class Daemon:
    """A daemon's claims, and the ledger in a file."""

    def __init__(self, path: Path, *rows: Instance) -> None:
        self.worker = LedgerWorker(f"sqlite:///{path}")
        self.view = Looking(self.worker, *rows)
        self.settings = settings(claims="always", claim_wait_seconds=0.0)
        self.claims = Claims(self.settings)
        self.claims.follows_ganeti = True
        self.leads = True
        self.looks = 0
        view: Any = self.view
        sync: Any = self
        self.writer = ClaimWriter(self.claims, self.worker, view, sync, self.settings)

    def own_cluster(self) -> str | None:
        self.looks += 1
        return "c" if self.leads else None

    async def poll_configuration(self) -> None:
        pass

    async def decided(self, *promises: Promise, last: bool = True, about: Sequence[str] = ()) -> str:
        """Record a decision; return the note for the answer, or "again"."""
        told = response(*promises, about=about)
        outcome = await self.writer.record(told, "job", self.writer.basis(), -inf if last else inf)
        return outcome.note if outcome.until is None else "again"

    async def taken(self, mib: int, uuid: str = A, name: str = MEMORY) -> None:
        """Have another client claim an amount of a provider instead of what it had."""
        await self.worker.do(
            lambda ledger: ledger.claim(Consumer("x", "x", "claim"), {uuid: {name: mib}}, {})
        )

    async def used(self) -> int:
        """Return the used memory of the first node."""
        return (await self.worker.do(lambda ledger: standing(ledger, A))).used[MEMORY]

    async def memory(self) -> dict[str, int]:
        """Return the promised memory by instance."""
        contents = await self.worker.do(Ledger.snapshot)
        return {
            contents.consumers[uuid].name: each[MEMORY]
            for uuid, held in contents.allocations.items()
            if contents.consumers[uuid].promised
            for each in held.values()
        }


@asynccontextmanager
async def daemon(path: Path, *rows: Instance) -> AsyncIterator[Daemon]:
    """Run a daemon that has reconciled the ledger once."""
    here = Daemon(path, *rows)
    await here.view.reconcile()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(here.writer.run)
        yield here
        nursery.cancel_scope.cancel()
    await close(here.worker)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


async def test_decision_is_written_to_the_ledger(path: Path, mock_clock: MockClock) -> None:
    async with daemon(path) as here:
        assert await here.decided(promise("new"), promise("two"), last=False) == ""
        assert await here.memory() == {"c/new": 1000, "c/two": 1000}
        assert await here.decided(promise("new", "b"), last=False) == ""
        assert await here.memory() == {"c/new": 1000, "c/two": 1000}
        assert await here.decided(about=["new"]) == ""  # it was refused
        await here.writer.wait_for_round()
        assert await here.memory() == {"c/two": 1000}


async def test_decides_again_when_another_client_was_first(path: Path, mock_clock: MockClock) -> None:
    async with daemon(path) as here:
        await here.taken(500)
        assert await here.decided(promise("new"), last=False) == "again"
        assert await here.decided(promise("new"), last=False) == ""
        await here.taken(500)
        assert await here.decided(promise("new"), last=True) == ""  # too late to decide again, and it fits
        assert await here.memory() == {"c/new": 1000}


async def test_change_of_a_pool_does_not_repeat_a_decision(path: Path, mock_clock: MockClock) -> None:
    async with daemon(path) as here:
        uuid, here.view.cluster = provider_uuid("c/rados/rbd"), replace(here.view.cluster, pools=(RBD,))
        await here.view.reconcile()
        await here.taken(1, uuid, POOL)
        assert await here.decided(on_pool("new", 4000), last=False) == ""
        await here.taken(6000, uuid, POOL)
        assert await here.decided(on_pool("two", 4000), last=False) == "again"


async def test_refused_claim_is_not_written_while_it_is_decided_again(
    path: Path, mock_clock: MockClock
) -> None:
    async with daemon(path) as here:
        await here.taken(9500)
        reconcile = here.view.reconcile

        async def slowly() -> None:
            await here.writer.wait_for_round()
            await reconcile()

        here.view.reconcile = slowly  # type: ignore[method-assign]
        assert await here.decided(promise("new"), last=False) == "again"
        assert await here.memory() == {}


async def test_claims_that_end_while_a_decision_is_repeated_stay_ended(
    path: Path, mock_clock: MockClock
) -> None:
    """Also one on the instance that the decision is about."""
    async with daemon(path) as here:
        await here.decided(promise("ended", "b"))
        await here.decided(promise("new", "b"))
        reconcile = here.view.reconcile

        async def cancel() -> None:
            here.claims.cancel("ended")
            here.claims.cancel("new")
            await reconcile()

        here.view.reconcile = cancel  # type: ignore[method-assign]
        await here.taken(9500)
        assert await here.decided(promise("new"), last=False) == "again"
        assert here.claims.promises() == ()


@pytest.mark.parametrize("last", [False, True])
async def test_decides_again_when_capacity_was_taken(path: Path, mock_clock: MockClock, last: bool) -> None:
    async with daemon(path) as here:
        await here.taken(9500)
        assert await here.decided(promise("new"), last=last) == "again"
        assert "500 of 10000 free" in await here.decided(promise("new"), last=False)


async def test_decides_again_when_the_ledger_still_counts_a_claim_that_has_ended(
    path: Path, mock_clock: MockClock
) -> None:
    async with daemon(path) as here:
        change(here.settings, claim_wait_seconds=2.0)
        await here.writer.wait_for_round()
        await here.decided(promise("old", mem=6000))
        here.claims.cancel("old")
        assert await here.decided(promise("new", mem=8000), last=False) == "again"
        assert await here.decided(promise("new", mem=8000), last=False) == ""
        await here.writer.wait_for_round()
        assert await here.memory() == {"c/new": 8000}


async def test_decides_again_when_ganeti_has_removed_an_instance(path: Path, mock_clock: MockClock) -> None:
    async with daemon(path, instance("old", DiskTemplate.PLAIN, "a", mem=6000)) as here:
        change(here.settings, claim_wait_seconds=2.0)

        async def poll_configuration() -> None:
            here.view.cluster = here.view.of()

        here.poll_configuration = poll_configuration  # type: ignore[method-assign]
        assert await here.decided(promise("new", mem=8000), last=False) == "again"
        assert await here.decided(promise("new", mem=8000), last=False) == ""


async def test_ended_claim_counts_until_the_ledger_follows_ganeti(path: Path, mock_clock: MockClock) -> None:
    async with daemon(path) as here:
        await here.writer.wait_for_round()
        await here.decided(promise("new"), promise("failed"))
        for name in ("new", "failed"):
            here.claims.cancel(name)
        await here.writer.wait_for_round()
        assert (await here.used(), await here.memory()) == (2000, {})
        here.view.cluster = here.view.of(promise("new").row)
        await here.view.reconcile()
        assert await here.used() == 1000


async def test_claim_beyond_the_capacity_is_written_and_marked(path: Path, mock_clock: MockClock) -> None:
    async with daemon(path) as here:
        large = promise("new", mem=20_000)
        told = "; exceeds the capacity in the ledger: c/a: MEMORY_MB: 20000 requested, 10000 of 10000 free"
        assert await here.decided(large, last=False) == told
        await here.writer.wait_for_round()
        (kept,) = await here.worker.do(lambda ledger: [each for each in ledger.consumers() if each.promised])
        assert kept.over_capacity


async def test_decision_does_not_wait_for_a_slow_ledger(path: Path, mock_clock: MockClock) -> None:
    begun, gate = threading.Event(), threading.Event()

    def slow(_ledger: Ledger) -> None:
        begun.set()
        gate.wait(30)

    async with daemon(path) as here, trio.open_nursery() as nursery:
        nursery.start_soon(here.worker.do, slow)
        await trio.to_thread.run_sync(begun.wait, 30)
        told: list[str] = []

        async def decide() -> None:
            told.append(await here.decided(promise("new")))

        nursery.start_soon(decide)
        await trio.testing.wait_all_tasks_blocked(0.01)
        mock_clock.jump(0.05)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert told == ["; decided without the ledger: no answer within 50 ms"]
        assert here.claims.promises() == (promise("new"),)
        gate.set()
        await here.writer.wait_for_round()
        assert await here.memory() == {"c/new": 1000}
        gate.clear()
        nursery.start_soon(here.worker.do, lambda _ledger: gate.wait(30))
        nursery.start_soon(decide)
        await trio.testing.wait_all_tasks_blocked(0.01)
        here.claims.cancel("new")  # it is written, though nobody has waited for that
        mock_clock.jump(0.05)
        await trio.testing.wait_all_tasks_blocked(0.01)  # until the decision has given up
        gate.set()
        await here.writer.wait_for_round()
        assert await here.memory() == {}


async def test_decision_passes_when_ledger_is_locked(
    path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("htoolsd.store.database._PATIENCE", 1)
    async with daemon(path) as here:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        note = await here.decided(promise("new"))
        assert note.startswith("; decided without the ledger: ")
        assert here.claims.promises() == (promise("new"),)
        other.close()


async def test_claims_wait_for_the_first_reconciliation(path: Path, mock_clock: MockClock) -> None:
    async with daemon(path) as here:
        here.view.synced, here.view.pending = None, True
        told = "; decided without the ledger: the ledger does not have the cluster yet"
        assert await here.decided(promise("new")) == told
        here.view.pending = False  # nothing is known of a cluster: memory has to do
        assert await here.decided(promise("new")) == ""
        await here.view.reconcile()
        await here.writer.wait_for_round()
        assert await here.memory() == {"c/new": 1000}


async def test_note_names_the_error_of_the_ledger(tmp_path: Path, mock_clock: MockClock) -> None:
    here = Daemon(tmp_path)  # a directory
    async with trio.open_nursery() as nursery:
        nursery.start_soon(here.writer.run)
        await here.writer.wait_for_round()
        note = await here.decided(promise("new"))
        assert note == f"; decided without the ledger: {tmp_path}: Is a directory"
        nursery.cancel_scope.cancel()


async def test_defect_is_logged_once_and_rounds_go_on(
    path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ledger, "consumers", None)
    with structlog.testing.capture_logs() as log:
        async with daemon(path) as here:
            await here.writer.wait_for_round()
            await here.writer.wait_for_round()
            told = "; decided without the ledger: TypeError: 'NoneType' object is not callable"
            assert await here.decided(promise("new")) == told
    assert [line["event"] for line in log] == ["claims not written to the ledger"]


async def test_created_instance_is_claimed_where_it_is(path: Path, mock_clock: MockClock) -> None:
    async with daemon(path) as here:
        await here.decided(promise("new"))
        down = replace(instance("new", DiskTemplate.PLAIN, "b"), status=Status.DOWN)
        here.view.cluster = here.view.of(down)
        await here.view.reconcile()
        await here.writer.wait_for_round()
        held = (await here.worker.do(Ledger.snapshot)).allocations[consumer_uuid("c/new")]
        assert (set(held), held[B][MEMORY]) == ({B}, 1000)
        here.claims.cancel("new")
        looks = here.view.looks
        await here.writer.wait_for_round()
        assert here.view.looks > looks
        await here.view.reconcile()
        held = (await here.worker.do(Ledger.snapshot)).allocations[consumer_uuid("c/new")]
        assert MEMORY not in held[B]


async def test_claims_are_restored_by_the_next_daemon(path: Path, mock_clock: MockClock) -> None:
    async with daemon(path) as here:
        await here.decided(promise("new"), promise("two", "b"))
        mock_clock.jump(100)
        here.claims.check(PendingWork(trio.current_time(), JOB | {2: [JOB[1][0] | {"instance_name": "two"}]}))
        await here.writer.wait_for_round()
    async with daemon(path) as there:
        await there.writer.wait_for_round()
        assert set(there.claims.promises()) == {promise("new"), promise("two", "b")}
        assert there.claims.living["new"].job_seen
        mock_clock.jump(1)
        there.claims.check(PendingWork(trio.current_time(), JOB))
        await there.writer.wait_for_round()
        assert await there.memory() == {"c/new": 1000}


async def test_own_claim_that_has_ended_is_not_restored_once_the_cluster_is_known(
    path: Path, mock_clock: MockClock
) -> None:
    async with daemon(path) as here:
        here.leads = False
        await here.decided(promise("new"))
        assert await here.memory() == {"c/new": 1000}
        assert here.claims.cancel("new")
        here.leads = True
        await here.writer.wait_for_round()
        assert here.claims.promises() == ()


async def test_claims_go_with_the_master_role(path: Path, mock_clock: MockClock) -> None:
    async with daemon(path) as here, daemon(path) as there:
        there.leads = False
        await there.writer.wait_for_round()
        await here.decided(promise("new"))
        assert there.claims.promises() == ()
        looks = there.looks
        mock_clock.jump(100)
        await wait_all_tasks_blocked()
        assert there.looks == looks  # a standby rests until something happens
        for each in here, there:
            each.leads = each is there
            each.writer.note(RoleChanged(each.leads))
        await wait_all_tasks_blocked()
        await there.worker.do(Ledger.counts)  # after the round
        await wait_all_tasks_blocked()
        assert (here.claims.promises(), there.claims.promises()) == ((), (promise("new"),))
        await here.writer.wait_for_round()
        assert await there.memory() == {"c/new": 1000}


async def test_unreadable_claim_is_released(path: Path, mock_clock: MockClock) -> None:
    async with daemon(path) as here:
        for name in ("c/new", "other/new"):
            unreadable = Consumer(name, name, "instance", promised="nonsense")
            await here.worker.do(
                partial(Ledger.claim, consumer=unreadable, allocations={A: {MEMORY: 1}}, generations={})
            )
    async with daemon(path) as there:
        await there.writer.wait_for_round()
        assert await there.memory() == {"other/new": 1}
