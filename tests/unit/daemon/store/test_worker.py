"""The ledger beside the event loop."""

import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import structlog
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from ganeti_htools import machine
from ganeti_htools.model.inventory import Inventory
from htoolsd.store.ledger import Ledger
from htoolsd.store.records import ConflictError, Consumer, LedgerChanges, Provider, UnavailableError
from htoolsd.store.worker import LedgerWorker
from tests.support.postgresql import Server
from tests.support.programs import PATIENCE
from tests.support.workers import close

NODE = LedgerChanges(providers=(Provider("node", "c/node"),), inventories={"node": {"VCPU": Inventory(4)}})
WEB = Consumer("web", "c/web", "claim")


@pytest.fixture
async def tried(tmp_path: Path) -> AsyncIterator[LedgerWorker]:
    worker = LedgerWorker(f"sqlite:///{tmp_path / 'ledger'}")
    yield worker
    await close(worker)


async def test_work_runs_in_a_thread(tried: LedgerWorker) -> None:
    found = await tried.do(lambda ledger: (threading.current_thread(), ledger.providers()))
    assert found[0] is not threading.current_thread()
    assert found[1] == ()


@pytest.mark.parametrize("error", [ConflictError("changed"), AttributeError("create_table")])
async def test_worker_survives_errors(
    autojump_clock: MockClock, tried: LedgerWorker, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    tries = 0

    def fail(_ledger: Ledger) -> None:
        nonlocal tries
        tries += 1
        raise error

    monkeypatch.setattr(Ledger, "expiring", fail)
    with trio.move_on_after(60):
        await tried.run()
    assert tries > 2


async def test_work_runs_in_order(tried: LedgerWorker) -> None:
    order, going = list[str](), threading.Event()

    def slow(_ledger: Ledger) -> None:
        order.append("begun")
        going.wait()
        order.append("done")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tried.do, slow)
        while not order:
            await trio.sleep(0)
        nursery.start_soon(tried.do, lambda _ledger: order.append("next"))
        await wait_all_tasks_blocked()
        assert order == ["begun"]
        going.set()
    assert order == ["begun", "done", "next"]


async def test_cancelled_caller_does_not_wait_and_work_completes(tried: LedgerWorker) -> None:
    going = threading.Event()

    def slow(ledger: Ledger) -> None:
        going.wait()
        ledger.apply(NODE)

    with trio.move_on_after(0) as waiting:
        await tried.do(slow)
    assert waiting.cancelled_caught
    with trio.move_on_after(0.01) as waiting:
        await tried.do(slow)
    assert waiting.cancelled_caught
    going.set()
    assert len(await tried.do(lambda ledger: ledger.providers())) == 1


async def test_status_has_counts_and_conflicts(tried: LedgerWorker, tmp_path: Path) -> None:
    await tried.do(lambda ledger: ledger.apply(NODE))
    await tried.do(lambda ledger: ledger.claim(WEB, {"node": {"VCPU": 5}}, {}, over_capacity=True))
    with pytest.raises(ConflictError):
        await tried.do(lambda ledger: ledger.claim(WEB, {"node": {"VCPU": 1}}, {"node": 0}))
    assert await tried.status() == {
        "database": str(tmp_path / "ledger"),
        "error": None,
        "providers": 1,
        "claims": 1,
        "over_capacity": 1,
        "conflicts": 1,
    }


async def test_database_that_is_opened_for_the_first_time_is_no_error(
    tried: LedgerWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("htoolsd.store.worker._COUNTING", 0.0)
    assert (await tried.status())["error"] is None
    await tried.do(Ledger.providers)
    assert (await tried.status())["error"] == "no answer within 0 s"


async def test_unavailable_database_is_tried_again_later(
    tried: LedgerWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(machine, "steady", lambda: now)
    (tmp_path / "ledger").mkdir()
    with pytest.raises(UnavailableError, match="Is a directory"):
        await tried.do(Ledger.providers)
    told = await tried.status()
    assert (told["error"], told["providers"]) == (f"{tmp_path / 'ledger'}: Is a directory", None)
    (tmp_path / "ledger").rmdir()
    with pytest.raises(UnavailableError, match="Is a directory"):
        await tried.do(Ledger.providers)
    now += 10
    assert await tried.do(Ledger.providers) == ()
    assert (await tried.status())["error"] is None


async def opened(url: str) -> LedgerWorker:
    worker = LedgerWorker(url)
    await worker.do(Ledger.providers, PATIENCE)
    await worker.claims.do(Ledger.providers, PATIENCE)
    return worker


async def test_claims_do_not_wait_for_the_follower_of_a_server(postgresql: Server) -> None:
    worker, going = await opened(postgresql.database()), threading.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.do, lambda _ledger: going.wait())
        await wait_all_tasks_blocked()
        assert await worker.claims.do(Ledger.providers) == ()
        going.set()
    await close(worker)


async def test_frozen_server_is_waited_for_once(postgresql: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("htoolsd.store.worker._REST", 0.01)
    worker = await opened(postgresql.database())
    with structlog.testing.capture_logs() as log:
        with postgresql.frozen():
            for thread, limit, error in ((worker.claims, 0.1, "100 ms"), (worker, 0.2, "200 ms")):
                while thread.error is None:  # work that began late has its time
                    with pytest.raises(UnavailableError, match=f"no answer within {error}"):
                        await thread.do(Ledger.providers, limit)
            with pytest.raises(UnavailableError), trio.fail_after(0):
                await worker.claims.do(Ledger.providers, 1000, probe=False)
            async with worker._turn:  # the call has ended with an error of its own
                assert (await worker.status())["error"] == "no answer within 200 ms"
        while worker.error or worker.claims.error:
            with suppress(UnavailableError):
                await worker.claims.do(Ledger.providers, PATIENCE)
                await worker.do(Ledger.providers, PATIENCE)
    assert [line["event"] for line in log] == ["ledger unavailable", "ledger available again"]
    await close(worker)


async def test_end_does_not_wait_for_a_frozen_server(postgresql: Server) -> None:
    worker = await opened(postgresql.database())
    with postgresql.frozen():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(worker.do, Ledger.providers)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await close(worker)


async def test_removed_file_is_noticed_and_begun_anew(
    tried: LedgerWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("htoolsd.store.worker._REST", 0)
    await tried.do(lambda ledger: ledger.apply(NODE))
    for path in tmp_path.glob("ledger*"):
        path.unlink()
    with pytest.raises(UnavailableError, match="ledger: removed or replaced while htoolsd was using it"):
        await tried.do(Ledger.providers)
    assert (await tried.do(Ledger.providers), tried.opened) == ((), 2)


async def test_status_survives_defects_and_logs_them_once(
    mock_clock: MockClock, tried: LedgerWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ledger, "counts", None)
    with structlog.testing.capture_logs() as log:
        for _ in range(2):
            assert (await tried.status())["error"] == "TypeError: 'NoneType' object is not callable"
    assert [line["event"] for line in log] == ["ledger work failed"]


async def test_expired_claims_are_released(tried: LedgerWorker, autojump_clock: MockClock) -> None:
    await tried.do(lambda ledger: ledger.apply(NODE))
    await tried.do(lambda ledger: ledger.claim(WEB, {"node": {"VCPU": 1}}, {}))
    due = Consumer("due", "c/due", "claim", expires=1.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tried.run)
        await tried.do(lambda ledger: ledger.claim(due, {"node": {"VCPU": 1}}, {}))
        while len(await tried.do(Ledger.consumers)) > 1:
            await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert [each.name for each in await tried.do(Ledger.consumers)] == ["c/web"]
