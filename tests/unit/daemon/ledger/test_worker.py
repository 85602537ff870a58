"""The ledger beside the event loop."""

import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from ganeti_htools.model.inventory import Inventory
from htoolsd.ledger.ledger import Ledger
from htoolsd.ledger.records import ConflictError, Consumer, LedgerChanges, Provider, UnavailableError
from htoolsd.ledger.worker import LedgerWorker

NODE = LedgerChanges(providers=(Provider("node", "c/node"),), inventories={"node": {"VCPU": Inventory(4)}})
WEB = Consumer("web", "c/web", "claim")


@pytest.fixture
async def tried(tmp_path: Path) -> AsyncIterator[LedgerWorker]:
    worker = LedgerWorker(f"sqlite:///{tmp_path / 'ledger'}")
    yield worker
    with trio.CancelScope() as ending:
        ending.cancel()
        await worker.run()  # which closes what is open


async def test_work_runs_in_a_thread(tried: LedgerWorker) -> None:
    found = await tried.do(lambda ledger: (threading.current_thread(), ledger.providers()))
    assert found[0] is not threading.current_thread()
    assert found[1] == ()


@pytest.mark.parametrize("error", [ConflictError("changed"), AttributeError("create_table")])
async def test_worker_survives_errors(
    autojump_clock: MockClock, tried: LedgerWorker, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    tries = 0

    def fail(_ledger: Ledger, _now: float) -> None:
        nonlocal tries
        tries += 1
        raise error

    monkeypatch.setattr(Ledger, "release_expired", fail)
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
    await tried.do(lambda ledger: ledger.claim(WEB, {"node": {"VCPU": 5}}, {}, beyond=True))
    with pytest.raises(ConflictError):
        await tried.do(lambda ledger: ledger.claim(WEB, {"node": {"VCPU": 1}}, {"node": 0}))
    assert await tried.status() == {
        "database": str(tmp_path / "ledger"),
        "error": None,
        "providers": 1,
        "claims": 1,
        "beyond": 1,
        "conflicts": 1,
    }


async def test_unavailable_database_is_tried_again_later(
    tried: LedgerWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("htoolsd.ledger.worker.time.monotonic", lambda: now)
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
