"""Plans claim what their jobs need, and respect the claims of others."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.deciding.promises import Promise
from ganeti_htools.execution.jobs import Job
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.moves import MoveKind, NamedMove
from ganeti_htools.model.types import DiskTemplate
from htoolsd.claims.claim import new_claim
from htoolsd.claims.claim_writer import ClaimWriter
from htoolsd.claims.claims import Claims
from htoolsd.claims.plan_claims import PlanClaims, move_needs
from htoolsd.follow.desired_state import desired_state
from htoolsd.follow.reconciler import Reconciler
from htoolsd.plans.plan import Plan, PlanState
from htoolsd.plans.plans import Plans
from htoolsd.socket.peer import Credentials, caller
from htoolsd.store.ledger import Ledger
from htoolsd.store.records import Allocations, Consumer, consumer_uuid, provider_uuid
from htoolsd.store.worker import LedgerWorker
from htoolsd.sync.sync import Sync
from tests.support import by_hand
from tests.support.ledgers import standing
from tests.support.memory_ganeti import MemoryGaneti, following, ganeti
from tests.support.plan_methods import plan_methods
from tests.support.settings import settings, unjudged
from tests.support.workers import close
from tests.support.worlds import instance


@dataclass
class Daemon:
    """A daemon with plans and claims, on a Ganeti in memory and a ledger on disk."""

    luxid: MemoryGaneti
    sync: Sync
    worker: LedgerWorker
    reconciler: Reconciler
    claims: PlanClaims
    plans: Plans

    async def made(self) -> Plan:
        """Make a plan that empties drained nodes."""
        before = {plan.id for plan in self.plans.all}
        await plan_methods(self.plans, self.sync).plan({"tool": "hbal"}, None)
        (plan,) = (plan for plan in self.plans.all if plan.id not in before)
        return plan

    async def begun(self, plan: Plan) -> Plan:
        """Begin a plan; return it when its first jobs are submitted."""
        await self.plans.begin(plan, "stop", False)
        while plan.state.going and not any(task.number for task in plan.run.current):
            await plan.news.wait()
        return plan

    async def over(self, plan: Plan) -> None:
        while plan.state.going:
            await plan.news.wait()

    async def claimed(self) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
        """Return the claims of plans, by their names and by providers."""
        contents = await self.worker.do(lambda ledger: ledger.snapshot())
        names = {uuid: each.name for uuid, each in contents.providers.items()}
        return {
            each.name: {names[at]: amounts for at, amounts in contents.allocations.get(uuid, {}).items()}
            for uuid, each in contents.consumers.items()
            if each.kind == "plan"
        }

    def reserved(self, name: str) -> dict[str, int]:
        """Return what is reserved of a node, by class."""
        cluster = self.sync.model.cluster
        assert cluster is not None
        (node,) = (row for row in cluster.nodes if row.name == name)
        return {each: inventory.reserved for each, inventory in node.inventories}

    async def promise(self, name: str, memory: int, *names: str) -> None:
        """Promise memory of these nodes to an instance, of every node without names."""
        name = f"{self.sync.model.name}/{name}"
        cluster = self.sync.model.cluster
        assert cluster is not None
        chosen = names or [node.name for node in cluster.nodes]
        nodes = [provider_uuid(f"{self.sync.model.name}/{node}") for node in chosen]
        consumer = Consumer(consumer_uuid(name), name, "instance", promised="{}")
        wanted = {node: {"MEMORY_MB": memory} for node in nodes}
        await self.claim(consumer, wanted)

    async def claim(self, consumer: Consumer, wanted: Allocations) -> None:
        await self.worker.do(lambda ledger: ledger.claim(consumer, wanted, {}, over_capacity=True))


@asynccontextmanager
async def daemon(directory: Path, luxid: MemoryGaneti) -> AsyncIterator[Daemon]:
    """Run a daemon whose ledger is in step with the cluster."""
    caller.set(Credentials(pid=1, uid=2, gid=3))
    async with following(luxid) as sync:
        worker = LedgerWorker(f"sqlite:///{directory}/ledger.sqlite")
        reconciler = Reconciler(sync, worker, settings(socket=str(directory / "socket")))
        known = settings(claims="always")
        writer = ClaimWriter(Claims(known), worker, reconciler, sync, known)
        claims = PlanClaims(sync, worker, reconciler, writer)
        plans = Plans(str(directory / "plans"), sync, sync.events, unjudged(), claims)
        sync.events.follow(reconciler, plans)
        await sync.poll_all()
        async with trio.open_nursery() as nursery:
            await nursery.start(plans.run)
            nursery.start_soon(reconciler.run)
            await reconciler.reconcile()
            yield Daemon(luxid, sync, worker, reconciler, claims, plans)
            nursery.cancel_scope.cancel()
        await close(worker)


DISK = {"CUSTOM_DISK_MIB_LVM_VG": 1024, "CUSTOM_SPINDLES": 1}
RUNS = {"MEMORY_MB": 1000, "VCPU": 1}


def web(number: int, **facts: Any) -> Instance:
    return by_hand.instance(f"web{number}", DiskTemplate.DRBD, "node1", "node2", **facts)


def needs(kind: MoveKind, *rows: Instance) -> dict[str, Any]:
    """Return what moves of a kind need, by node; node3 is new to the instances."""
    nodes = ("node1", "node2", "node3")
    desired = desired_state(by_hand.cluster(dict.fromkeys(nodes, 10_000), rows), "c1")
    was = ("node1", "node2")
    moves = (NamedMove.of(row.name, kind, "node3", was, kind.nodes(*was, "node3")) for row in rows)
    names = {provider_uuid(f"c1/{node}"): node for node in nodes}
    return {names[uuid]: dict(amounts) for uuid, amounts in move_needs(moves, desired).items() if amounts}


async def test_plan_claims_until_its_jobs_have_ended(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with ganeti(job_seconds=100) as luxid, daemon(tmp_path, luxid) as here:
        plan = await here.begun(await here.made())
        ((name, claimed),) = (await here.claimed()).items()
        assert name == f"{here.sync.model.name}/plan/{plan.id}"
        targets = {task.job.step.now[0] for task in plan.run.current if task.job.step is not None}
        assert {f"{here.sync.model.name}/{node}" for node in targets} <= {*claimed}
        assert all(amounts["MEMORY_MB"] > 0 for at, amounts in claimed.items() if at.split("/")[1] in targets)
        await here.over(plan)
        assert plan.state is PlanState.DONE
        assert await here.claimed() == {}


async def test_claims_survive_the_daemon_until_the_jobs_have_ended(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with ganeti(job_seconds=100) as luxid:
        async with daemon(tmp_path, luxid) as here:
            plan = await here.begun(await here.made())
            before = await here.claimed()
            autojump_clock.autojump_threshold = 1000  # the jobs do not end meanwhile
        async with daemon(tmp_path, luxid) as there:
            assert before
            assert await there.claimed() == before
            autojump_clock.autojump_threshold = 0
            (kept,) = there.plans.all
            assert kept.id == plan.id
            while await there.claimed():
                await there.reconciler.reconcile()
                await trio.sleep(1)
            assert not kept.run.current


async def test_claims_of_unknown_plans_are_released(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with ganeti() as luxid, daemon(tmp_path, luxid) as here:
        name = f"{here.sync.model.name}/plan/gone"
        node = provider_uuid(f"{here.sync.model.name}/one")
        await here.claim(Consumer(consumer_uuid(name), name, "plan"), {node: {"MEMORY_MB": 1}})
        theirs = Consumer(consumer_uuid("other/plan/theirs"), "other/plan/theirs", "plan")
        await here.claim(theirs, {node: {"MEMORY_MB": 1}})
        await here.reconciler.reconcile()
        while name in await here.claimed():
            await trio.sleep(1)
        await here.reconciler.reconcile()
        assert [*await here.claimed()] == ["other/plan/theirs"]
        assert here.reserved("one") == {"MEMORY_MB": 1}


async def test_promise_on_its_nodes_stops_a_plan(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with ganeti() as luxid, daemon(tmp_path, luxid) as here:
        plan = await here.made()
        await here.promise("new", 1_000_000)
        await here.begun(plan)
        await here.over(plan)
        assert plan.state is PlanState.FAILED
        assert not plan.run.tasks
        assert await here.claimed() == {}


async def test_plan_is_reviewed_again_when_another_client_was_first(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """Another client claims between the plan's review and its claim."""
    async with ganeti() as luxid, daemon(tmp_path, luxid) as here:
        plan, looks, look = await here.made(), [], here.claims.available_cluster

        async def look_and_be_late() -> object:
            seen = await look()
            looks.append(seen)
            if len(looks) == 1:
                await here.promise("new", 1)
            return seen

        here.claims.available_cluster = look_and_be_late  # type: ignore[method-assign, assignment]
        await here.begun(plan)
        assert len(looks) == 2
        assert [*await here.claimed()] == [f"{here.sync.model.name}/plan/{plan.id}"]


async def test_claim_needs_the_generations_of_its_own_review(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """Another plan's review comes in between."""
    async with ganeti(job_seconds=100) as luxid, daemon(tmp_path, luxid) as here:
        jobs = (await here.made()).run.rest[0]
        _, seen = await here.claims.available_cluster()
        target = next(job.step.now[0] for job in jobs if job.step)
        uuid = provider_uuid(f"{here.sync.model.name}/{target}")

        def reserve(ledger: Ledger) -> None:
            inventory = replace(standing(ledger, uuid).inventories["MEMORY_MB"], reserved=500)
            ledger.set_inventory(uuid, standing(ledger, uuid).provider.generation, "MEMORY_MB", inventory)

        await here.worker.do(reserve)
        _, theirs = await here.claims.available_cluster()
        assert await here.claims.claim("a", jobs, seen) is not None
        assert await here.claims.claim("a", jobs, theirs) is None


async def test_plan_runs_without_a_ledger(autojump_clock: MockClock, tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").mkdir()
    async with ganeti() as luxid, daemon(tmp_path, luxid) as here:
        plan = await here.begun(await here.made())
        await here.over(plan)
        assert plan.state is PlanState.DONE


async def test_plan_with_promises_on_its_nodes_fits_its_first_review(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with ganeti() as luxid, daemon(tmp_path, luxid) as here:
        before = await here.made()
        targets = {job.step.now[0] for jobs in before.run.rest for job in jobs if job.step is not None}
        await here.promise("new", 3500, *targets)
        plan = await here.made()
        await here.begun(plan)
        await here.over(plan)
        assert plan.state is PlanState.DONE
        assert plan.run.tasks
        assert plan.run.changes == []


async def test_nodes_with_claims_are_not_powered_down(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with ganeti() as luxid, daemon(tmp_path, luxid) as here:
        name = f"{here.sync.model.name}/new"
        consumer = Consumer(consumer_uuid(name), name, "instance", promised="{}")
        provider = provider_uuid(f"{here.sync.model.name}/one")
        assert here.plans.claims_on_nodes() == {}
        await here.claim(consumer, {provider: {"MEMORY_MB": 1}})
        await here.reconciler.reconcile()
        assert here.plans.claims_on_nodes() == {"one": {"new"}}
        told: Any = await plan_methods(here.plans, here.sync).plan(
            {"tool": "hsqueeze", "options": {"never": ["two"]}}, None
        )
        assert told["options"]["never"] == ["two"]
        assert told["options"]["stay_up"] == {"one": "has resources claimed by new"}
        job = Job("power down one", (), (), nodes=("one",))
        assert await here.claims.claim("plan", [job], None) == "others have claimed resources of one"


async def test_promise_counts_before_it_is_in_the_ledger(tmp_path: Path) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        worker = LedgerWorker(f"sqlite:///{tmp_path}/ledger.sqlite")
        promise = Promise(instance("new", DiskTemplate.DRBD, "one", "two"), new=True)
        known = settings(claims="always")
        reconciler = Reconciler(sync, worker, known)
        writer = ClaimWriter(Claims(known), worker, reconciler, sync, known)
        writer.claims.restore(new_claim(promise, trio.current_time(), 600.0, "job"))
        plans = PlanClaims(sync, worker, reconciler, writer)
        assert plans.claims_on_nodes() == {"one": {"new"}, "two": {"new"}}


MOVES = [
    (MoveKind.FAILOVER, {"node2": RUNS}),
    (MoveKind.REPLACE_SECONDARY, {"node3": DISK}),
    (MoveKind.REPLACE_PRIMARY, {"node2": RUNS, "node3": DISK | RUNS}),
]


@pytest.mark.parametrize(("kind", "needed"), MOVES)
def test_move_needs_what_any_of_its_operations_needs(kind: MoveKind, needed: dict[str, Any]) -> None:
    assert needs(kind, web(1)) == needed


def test_needs_of_several_moves_are_added() -> None:
    assert needs(MoveKind.FAILOVER, web(1), web(2, mem=500)) == {"node2": {"MEMORY_MB": 1500, "VCPU": 2}}


def test_unknown_instance_needs_nothing() -> None:
    move = NamedMove.of("web1", MoveKind.FAILOVER, None, ("node1", "node2"), ("node2", "node1"))
    assert move_needs([move], desired_state(by_hand.cluster({"node1": 10_000}, []), "c1")) == {}
