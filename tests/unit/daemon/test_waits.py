"""Every wait ends: what the daemon waits for never comes, and time passes."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock, wait_all_tasks_blocked

from ganeti_htools.client.protocol import RefusalError
from ganeti_htools.luxi import query_jobs
from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.errors import DataError, HtoolsError
from htoolsd.api.metrics import MetricsMethods
from htoolsd.api.report import ReportMethods
from htoolsd.api.status import HealthCache
from htoolsd.api.turn import DecisionTurn
from htoolsd.claims.plan_claims import PlanClaims
from htoolsd.config.notify import NotifySettings
from htoolsd.follow.reconciler import Reconciler
from htoolsd.history.history import History
from htoolsd.metrics.capacity import CapacityCount
from htoolsd.notify.deliver import deliver
from htoolsd.notify.notifier import Notifier
from htoolsd.notify.outbox import Outbox
from htoolsd.policies.coordinator import Policies
from htoolsd.socket.access import Access
from htoolsd.store.ledger import Ledger
from htoolsd.store.records import UnavailableError
from htoolsd.store.state_copies import StateCopies
from htoolsd.store.worker import LedgerWorker
from htoolsd.sync.pool_probes import probe
from htoolsd.sync.standby import StandbyFile
from htoolsd.sync.this_node import ThisNode
from tests.support.memory_ganeti import following, ganeti
from tests.support.plan_methods import plan_methods
from tests.support.settings import settings
from tests.support.workers import close
from tests.unit.daemon.history.test_database import entry
from tests.unit.daemon.notify.test_events import plan as event_of_plan
from tests.unit.daemon.plans.test_plans import kept

LATE = 1000.0  # seconds; every wait below is shorter
ANY: Any = SimpleNamespace


class Silence:
    """What never answers, until the test gives up; ``late`` then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
        self.monkeypatch, self.directory = monkeypatch, directory
        self.late = False
        self._over = trio.Event()

    async def __call__(self, *_args: object, abandon_on_cancel: bool = True, **_options: object) -> Any:
        """Wait, like a thread, a program or a peer that hangs."""
        with trio.CancelScope(shield=not abandon_on_cancel):
            await self._over.wait()
        raise OSError("silent")

    def begin(self) -> None:
        """Let all threads and programs hang that start from now on."""
        self.monkeypatch.setattr(trio.to_thread, "run_sync", self)
        self.monkeypatch.setattr(trio, "run_process", self)
        self.monkeypatch.setattr(trio.lowlevel, "open_process", self)

    async def keep(self, lock: trio.Lock) -> None:
        """Keep a lock."""
        async with lock:
            await self()

    async def end(self) -> None:
        await trio.sleep(LATE)
        self.late = True
        self._over.set()

    async def end_of(self, run: Callable[..., Awaitable[object]], then: Callable[[], object]) -> None:
        """Run a task, do something, and cancel the task while nothing answers."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            then()
            self.begin()


async def last_history(silence: Silence) -> None:
    history = History(str(silence.directory / "history"), settings())
    await silence.end_of(history.run, lambda: history.note(entry(1.0)))


async def history_under_way(silence: Silence) -> None:
    history = History(str(silence.directory / "history"), settings())
    history.note(entry(1.0))
    silence.begin()
    await silence.end_of(history.run, lambda: None)


async def last_memory_of_policies(silence: Silence) -> None:
    async with kept(silence.directory) as daemon:
        sync = daemon.sync
        policies = Policies(str(silence.directory / "policies"), sync, daemon.plans, settings(), sync.events)
        await silence.end_of(policies.run, lambda: policies.forget_failures("rebalance"))


async def last_notifications(silence: Silence) -> None:
    known = settings(notify=NotifySettings(program="/bin/true"))
    outbox = Outbox(known)
    notifier = Notifier(str(silence.directory / "notified"), known, outbox, ANY(report=silence), ANY())
    await silence.end_of(notifier.run, lambda: outbox.note(event_of_plan("failed")))


async def last_figures_of_standby_nodes(silence: Silence) -> None:
    file = StandbyFile(str(silence.directory / "standby"))
    await silence.end_of(file.run, lambda: file.put({}, Cluster()))


async def last_copies(silence: Silence) -> None:
    async def do(_work: object, **_options: object) -> Any:
        return {} if not silence.late and copying is False else await silence()

    copying = False
    sync = ANY(own_cluster=lambda: "cluster", node=ANY(ssconf=ANY(name="node1")))
    copies = StateCopies(ANY(shared=True, do=do), sync, "here")
    await copies.fetch()
    copying = True
    await silence.end_of(copies.run, lambda: copies.put("name", "content"))


async def last_record_of_a_plan(silence: Silence) -> None:
    async with trio.open_nursery() as nursery:
        async with kept(silence.directory, job_seconds=100) as daemon:
            plan = await daemon.begun()
            async with plan.recording:
                nursery.start_soon(silence.keep, plan.recording)
                await wait_all_tasks_blocked()
            daemon.plans.stop()
            plan.scope.cancel()
            await daemon.over(plan)
        nursery.cancel_scope.cancel()


async def record_of_a_plan_that_ends(silence: Silence) -> None:
    async with kept(silence.directory, job_seconds=100) as daemon:
        plan = await daemon.begun()
        silence.begin()
        daemon.plans.stop()
        plan.scope.cancel()
        await daemon.over(plan)


async def cancellation_of_a_plan(silence: Silence) -> None:
    async with kept(silence.directory, job_seconds=100) as daemon:
        plan = await daemon.begun()
        silence.monkeypatch.setattr(plan, "scope", trio.CancelScope())
        methods = plan_methods(daemon.plans, daemon.sync)
        answer: Any = await methods.cancel({"plan": plan.id, "now": True}, None)
        assert answer["state"] == "stopping"


async def killed_program(silence: Silence) -> None:
    stdin, stderr = trio.testing.memory_stream_pair()
    process = ANY(stdin=stdin, stdout=None, stderr=stderr, pid=1 << 30, returncode=None, wait=silence)

    async def start(*_args: object, **_options: object) -> object:
        return process

    silence.monkeypatch.setattr(trio.lowlevel, "open_process", start)
    found = await deliver(NotifySettings(program="/bin/true", timeout_seconds=10), b"{}")
    assert "no end within 10 s" in (found.error or "")


async def name_of_this_node(silence: Silence) -> None:
    silence.begin()
    node = ThisNode(ANY(leads=lambda: False))
    assert await node.leads() is False


async def first_capacity(silence: Silence) -> None:
    await CapacityCount(ANY(led_cluster=Cluster())).request()


async def count_of_the_capacity(silence: Silence) -> None:
    silence.monkeypatch.setattr(trio, "run_process", silence)
    count = CapacityCount(ANY(led_cluster=Cluster()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(count.run)
        await count.request()
        while count.status()["error"] is None:
            await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert count.status()["error"].startswith("given up after 300 s")


async def page(silence: Silence) -> None:
    history = History(str(silence.directory / "history"), settings())
    sync = ANY(model=ANY(available=Cluster()), cluster_name="")
    with pytest.raises(HtoolsError, match="it takes longer than 25 s"):
        await ReportMethods(ANY(report=silence), history, sync).html()


async def names_of_users(silence: Silence) -> None:
    silence.begin()
    async with trio.open_nursery() as nursery:
        await nursery.start(Access(settings()).run)
        nursery.cancel_scope.cancel()


async def turn_of_a_decision(silence: Silence) -> None:
    turn = DecisionTurn(settings())
    async with turn.taken():
        with pytest.raises(RefusalError):
            async with turn.taken():
                pass


async def health(silence: Silence) -> None:
    silence.begin()
    rows = (Instance("a", 1, 1, (), 1),) * 1000
    await HealthCache(ANY(model=ANY(cluster=Cluster(instances=rows)))).health()


async def jobs_of_the_metrics(silence: Silence) -> None:
    class Client:
        async def __aenter__(self) -> None:
            await silence()

        async def __aexit__(self, *_error: object) -> None: ...

    async def report(count: bool) -> dict[str, Any]:
        return {"cluster": {"master": count}}

    silence.monkeypatch.setattr("htoolsd.api.metrics.render", lambda *_args: "")
    silence.monkeypatch.setattr("htoolsd.api.metrics.exporter", ANY(document=lambda *_args: {}))
    await MetricsMethods(ANY(report=report), ANY(client=Client, model=None)).text(exporter_names=True)


async def counts_of_the_ledger(silence: Silence) -> None:
    worker = LedgerWorker(f"sqlite:///{silence.directory / 'ledger'}")
    await worker.do(Ledger.providers)
    silence.begin()
    assert "no answer within" in str((await worker.status())["error"])
    with pytest.raises(UnavailableError):
        await worker.do(Ledger.providers)
    await close(worker)


async def reconciliation(silence: Silence) -> None:
    async with kept(silence.directory) as daemon:
        reconciler = Reconciler(daemon.sync, ANY(), settings())
        await reconciler.reconcile()
        assert "no answer within" in str(reconciler.error)


async def claims_before_a_plan(silence: Silence) -> None:
    await PlanClaims(ANY(), ANY(), ANY(reconcile=silence), ANY()).read_newest()


async def poll_of_the_configuration(silence: Silence) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await sync.poll_all()
        silence.monkeypatch.setattr(luxid, "_name", lambda _request: "live some")
        luxid.hung = True
        with trio.fail_after(30):  # before the connection is given up
            assert "no answer within" in str(await sync.poll_configuration())


async def probe_of_a_pool(silence: Silence) -> None:
    silence.begin()
    with pytest.raises(DataError, match="no end within"):
        await probe(["true"])


async def job_that_never_ends(silence: Silence) -> None:
    async def submit(*_args: object) -> list[int]:
        return [1]

    class Client:
        def another(self) -> Any:
            return self

        async def __aenter__(self) -> None: ...
        async def __aexit__(self, *_error: object) -> None: ...

    for name in "wait_for_change", "cancel":
        silence.monkeypatch.setattr(f"ganeti_htools.luxi.job_queries.{name}", silence)
    silence.monkeypatch.setattr("ganeti_htools.luxi.job_queries.submit", submit)
    client: Any = Client()
    with pytest.raises(HtoolsError, match="has not ended within 60 s"):
        await query_jobs.results_of(client, [{"OP_ID": "OP_TEST"}], "test", 60)


CASES = (
    last_history,
    history_under_way,
    last_memory_of_policies,
    last_notifications,
    last_figures_of_standby_nodes,
    last_copies,
    last_record_of_a_plan,
    record_of_a_plan_that_ends,
    cancellation_of_a_plan,
    killed_program,
    name_of_this_node,
    first_capacity,
    count_of_the_capacity,
    page,
    names_of_users,
    turn_of_a_decision,
    health,
    jobs_of_the_metrics,
    counts_of_the_ledger,
    reconciliation,
    claims_before_a_plan,
    poll_of_the_configuration,
    probe_of_a_pool,
    job_that_never_ends,
)


@pytest.mark.parametrize("wait", CASES, ids=lambda wait: wait.__name__)
async def test_waits_end(
    wait: Callable[[Silence], Awaitable[None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
) -> None:
    silence = Silence(monkeypatch, tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(silence.end)
        with trio.fail_after(LATE):
            await wait(silence)
        assert not silence.late
        nursery.cancel_scope.cancel()
