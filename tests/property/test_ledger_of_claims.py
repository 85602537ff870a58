"""The ledger of concurrent claims equals a ledger in which everything happened one by one."""

import tempfile
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from math import inf
from types import SimpleNamespace
from typing import Any

import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from trio.testing import MockClock

from ganeti_htools.deciding.decision import Response
from ganeti_htools.deciding.promises import Promise
from ganeti_htools.deciding.summary import DecisionSummary
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.types import DiskTemplate, Status
from htoolsd.claims.claim import new_claim
from htoolsd.claims.claim_writer import ClaimWriter
from htoolsd.claims.claims import Claims
from htoolsd.claims.entries import ledger_entry, write_beyond
from htoolsd.follow.desired_state import SyncedState, desired_state
from htoolsd.follow.diff import diff
from htoolsd.store.ledger import Ledger
from htoolsd.store.records import LedgerSnapshot, provider_uuid
from htoolsd.store.worker import LedgerWorker
from htoolsd.sync.job_queue import PendingWork
from tests.support import settings as support
from tests.support.by_hand import cluster, instance

NODES = ("a", "b", "c")
NAMES = st.sampled_from(["inst0", "inst1"])
PLACES = st.permutations(NODES).map(lambda nodes: (nodes[0], nodes[1]))
SECONDS = 600.0
MEANWHILE = st.sampled_from(["nothing", "nothing", "make up", "resynchronise"])

Place = tuple[str, str]


def row_of(name: str, place: Place, **facts: Any) -> Instance:
    return replace(instance(name, DiskTemplate.DRBD, *place), **facts)


def said(contents: LedgerSnapshot) -> dict[str, Any]:
    """Return the consumers of a ledger: kinds, promises and allocations."""
    return {
        each.name: (each.kind, each.promised is not None, contents.allocations.get(uuid, {}))
        for uuid, each in contents.consumers.items()
    }


def standing(contents: LedgerSnapshot) -> dict[str, Any]:
    """Return inventories and allocations of each provider."""
    return {
        uuid: (
            contents.inventories.get(uuid),
            {name: held[uuid] for name, held in contents.allocations.items() if uuid in held},
        )
        for uuid in contents.providers
    }


class Steps(RuleBasedStateMachine):
    """A daemon's claims on its ledger, under events in Ganeti and restarts of the daemon.

    Beside it is what is expected: ``promised``, and the ``serial`` ledger, to which the outcome of each step
    is written before the next.
    """

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.clock = MockClock()
        self.rows: dict[str, Instance] = {}
        self.jobs: dict[str, str] = {}  # what jobs are under way, by instance
        self.promised: dict[str, Promise] = {}
        self.synced: SyncedState | None = None
        self.before: LedgerSnapshot | None = None
        self.worker = LedgerWorker(f"sqlite:///{self.directory.name}/ledger")
        self.serial = Ledger(f"sqlite:///{self.directory.name}/serial")
        self.begin()
        self.run(self.reconcile)

    def begin(self) -> None:
        known = support.settings(claims="always", claim_seconds=SECONDS, claim_wait_seconds=0.0)
        view: Any = self
        sync: Any = SimpleNamespace(own_cluster=lambda: "c", poll_configuration=trio.lowlevel.checkpoint)
        self.claims = Claims(known)
        self.claims.follows_ganeti = True
        self.writer = ClaimWriter(self.claims, self.worker, view, sync, known)
        self.run(self.round)

    def run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        return trio.run(work, clock=self.clock)

    def contents(self) -> LedgerSnapshot:
        found: LedgerSnapshot = self.run(lambda: self.worker.do(Ledger.snapshot))
        return found

    async def round(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.writer.run)
            await self.writer.wait_for_round()
            nursery.cancel_scope.cancel()

    # The daemon's view of the ledger: it is looked at when a step says so.

    pending = False

    def trigger(self) -> None:
        pass

    async def reconcile(self) -> None:
        self.synced = await self.worker.do(self.look)

    async def reread(self, _providers: Collection[str], limit: float) -> None:
        await self.reconcile()

    def look(self, ledger: Ledger) -> SyncedState:
        now = desired_state(cluster(dict.fromkeys(NODES, 1 << 20), list(self.rows.values())), "c")
        ledger.apply(diff(now, ledger.snapshot()))
        return SyncedState(now, ledger.snapshot())

    # What happens.

    def decided(self, name: str, promise: Promise | None, reachable: bool, meanwhile: str) -> None:
        """Make a decision, with a reachable ledger or not, and something else at the same time."""
        promises = (promise,) if promise else ()
        response = Response("", (), DecisionSummary("", [name]), promises=promises, instances=(name,))
        view, self.synced = self.synced, self.synced if reachable else None

        async def decide() -> None:
            for until in (inf, -inf):
                outcome = await self.writer.record(response, "job", self.writer.basis(), until)
                if outcome.until is None:
                    return

        async def both() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(decide)
                if meanwhile == "make up":
                    nursery.start_soon(self.round)
                elif meanwhile == "resynchronise":
                    nursery.start_soon(self.reconcile)

        self.run(both)
        self.synced = self.synced or view
        self.promised.pop(name, None)
        if promise:
            self.promised[name] = promise

    @rule(name=NAMES, place=PLACES, reachable=st.booleans(), meanwhile=MEANWHILE)
    def decide(self, name: str, place: Place, reachable: bool, meanwhile: str) -> None:
        """Decide for a new instance that a job creates; or, if it exists, for its move."""
        row = self.rows.get(name)
        if row is None:
            self.jobs[name] = "CREATE"
            self.decided(name, Promise(row_of(name, place), new=True), reachable, meanwhile)
        else:
            self.jobs[name] = "MIGRATE"
            moved = row_of(name, place, status=row.status)
            self.decided(name, Promise(moved, new=False), reachable, meanwhile)

    @rule(name=NAMES, meanwhile=MEANWHILE)
    def refuse(self, name: str, meanwhile: str) -> None:
        self.decided(name, None, True, meanwhile)

    @rule(name=NAMES)
    def appear(self, name: str) -> None:
        if name in self.promised:
            row = self.promised[name].row
            self.appear_elsewhere(name, (row.pnode, str(row.snode)))

    @rule(name=NAMES, place=PLACES)
    def appear_elsewhere(self, name: str, place: Place) -> None:
        if name in self.jobs and name not in self.rows:
            self.rows[name] = row_of(name, place, status=Status.DOWN)

    @rule(name=NAMES, place=PLACES)
    def move(self, name: str, place: Place) -> None:
        if name in self.rows:
            self.rows[name] = row_of(name, place, status=self.rows[name].status)

    @rule(name=NAMES)
    def start(self, name: str) -> None:
        if name in self.rows:
            self.rows[name] = replace(self.rows[name], status=Status.RUNNING)

    @rule(name=NAMES)
    def job_ends(self, name: str) -> None:
        self.jobs.pop(name, None)

    @rule(name=NAMES)
    def job_fails(self, name: str) -> None:
        if self.jobs.pop(name, None) == "CREATE":
            self.rows.pop(name, None)

    @rule()
    def look_at_queue(self) -> None:
        self.clock.jump(5)
        opcodes = {
            number: [{"OP_ID": f"OP_INSTANCE_{job}", "instance_name": name}]
            for number, (name, job) in enumerate(self.jobs.items())
        }

        async def looked() -> None:
            self.claims.check(PendingWork(trio.current_time(), opcodes))

        self.run(looked)
        self.promised = {
            name: promise
            for name, promise in self.promised.items()
            if self.jobs.get(name) == ("CREATE" if promise.new else "MIGRATE")
        }

    @rule(chance=st.integers(0, 5))
    def expire(self, chance: int) -> None:
        if not chance:
            self.clock.jump(SECONDS + 1)

            async def promises() -> None:
                assert self.claims.promises() == ()

            self.run(promises)
            self.promised = {}

    @rule(name=NAMES)
    def cancel(self, name: str) -> None:
        assert self.claims.cancel(name) is (self.promised.pop(name, None) is not None)

    @rule()
    def resynchronise(self) -> None:
        self.run(self.reconcile)

    @rule()
    def write_missing(self) -> None:
        self.run(self.round)

    @rule()
    def restart(self) -> None:
        """Unwritten claims are lost; ended claims that were not released return."""
        kept = {
            name.removeprefix("c/") for name, (_, promised, _) in said(self.contents()).items() if promised
        }
        self.begin()
        assert self.claims.living.keys() == kept
        self.promised = {name: claim.promise for name, claim in self.claims.living.items()}

    def concerned(self, promise: Promise) -> set[str | None]:
        """Return the present and future nodes of an instance."""
        row = self.rows.get(promise.name)
        there = {row.pnode, row.snode} if row else set()
        return there if row and promise.new else there | {promise.row.pnode, promise.row.snode}

    # What is always so.

    @invariant()
    def what_is_promised_lives(self) -> None:
        assert {name: claim.promise for name, claim in self.claims.living.items()} == self.promised

    @invariant()
    def generations_only_grow(self) -> None:
        """The generation of a provider rises with each write, and never falls."""
        before, now = self.before, self.contents()
        if before is not None:
            was, stands = standing(before), standing(now)
            for uuid, each in before.providers.items():
                assert now.providers[uuid].generation >= each.generation + (was[uuid] != stands[uuid])
        self.before = now

    @invariant()
    def one_by_one(self) -> None:
        """Write the cluster and the promises to the serial ledger."""
        view = self.look(self.serial)
        claims = [new_claim(promise, 0.0, SECONDS, "job") for promise in self.promised.values()]
        entries = [ledger_entry(claim, view, 0.0) for claim in claims]
        living = {entry.consumer.uuid for entry in entries}
        ended = [each for each in self.serial.consumers() if each.promised and each.uuid not in living]
        write_beyond(self.serial, entries, ended)
        self.look(self.serial)

    @rule()
    def settle(self) -> None:
        """Check that both ledgers agree, and that each promise is on all its nodes."""
        for work in (self.reconcile, self.round, self.reconcile):
            self.run(work)
        found = said(self.contents())
        assert found == said(self.serial.snapshot())
        for name, promise in self.promised.items():
            *_, held = found[f"c/{name}"]
            assert held.keys() == {provider_uuid(f"c/{node}") for node in self.concerned(promise)}

    def teardown(self) -> None:
        self.settle()
        self.serial.close()
        self.run(lambda: self.worker.do(Ledger.close))
        self.directory.cleanup()


TestSteps = Steps.TestCase
TestSteps.settings = settings(max_examples=5, stateful_step_count=30)
