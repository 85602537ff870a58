"""Whatever happens to claims, in whatever order: the ledger says what it would if all had gone one by one."""

import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, NamedTuple

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.types import DiskTemplate, Status
from ganeti_htools.planning.decision import Response
from ganeti_htools.planning.gist import Gist
from ganeti_htools.planning.promises import Promise
from htoolsd.claims.booking import Booking, make_up
from htoolsd.claims.claims import Claims
from htoolsd.claims.entries import entry_of
from htoolsd.ledger.following import Agreed, difference
from htoolsd.ledger.identities import provider_uuid
from htoolsd.ledger.ledger import Ledger
from htoolsd.ledger.saying import statement
from htoolsd.ledger.worker import Worker
from htoolsd.sync.queue import Work
from tests.support.by_hand import cluster, instance

NODES = ("a", "b", "c")
NAMES = st.sampled_from([f"inst{number}" for number in range(2)])
PLACES = st.permutations(NODES).map(lambda nodes: (nodes[0], nodes[1]))
SECONDS = 600.0


def row_of(name: str, place: tuple[str, str], **facts: Any) -> Instance:
    return replace(instance(name, DiskTemplate.DRBD, *place), **facts)


def said(ledger: Ledger) -> dict[str, Any]:
    """What the ledger says of consumers, their times and generations aside."""
    contents = ledger.contents()
    return {
        each.name: (each.kind, each.promised, contents.allocations.get(uuid, {}))
        for uuid, each in contents.consumers.items()
    }


class Step(NamedTuple):
    """Something that happens: to an instance, perhaps at a place; there are two ways in which it may."""

    what: str
    name: str
    place: tuple[str, str]
    so: bool


class Daemon:
    """A daemon's claims; what happens to them in Ganeti, and to the daemon."""

    def __init__(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.clock = MockClock()
        self.rows: dict[str, Instance] = {}
        self.jobs: dict[str, str] = {}  # what jobs are under way, by instance
        self.expected: dict[str, Promise] = {}
        self.generations: dict[str, int] = {}
        self.agreed: Agreed | None = None
        self.worker = Worker(f"sqlite:///{self.directory.name}/ledger")
        self.begin()
        self.run(self.again)

    def begin(self) -> None:
        self.claims = Claims("always", SECONDS, lambda: True)
        self.booking = Booking(self.claims, self.worker, self, lambda: "c")
        self.run(self.round)

    def run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        return trio.run(work, clock=self.clock)

    def on_ledger(self, work: Callable[[Ledger], Any]) -> Any:
        return self.run(lambda: self.worker.do(work))

    async def round(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.booking.run)
            await self.booking.again()
            nursery.cancel_scope.cancel()

    def heed(self) -> None:
        """As the daemon's view of the ledger: it is looked at when the test says so."""

    async def again(self) -> None:
        self.agreed = await self.worker.do(self.look)

    def look(self, ledger: Ledger) -> Agreed:
        now = statement(cluster(dict.fromkeys(NODES, 1 << 20), list(self.rows.values())), "c")
        ledger.synchronise(difference(now, ledger.contents()))
        return Agreed(now, ledger.contents())

    def decide(self, name: str, promise: Promise | None, job: str, reachable: bool) -> None:
        promises = (promise,) if promise else ()
        response = Response("", (), Gist("", [name]), promises=promises, about=(name,))
        view, self.agreed = self.agreed, self.agreed if reachable else None

        async def decided() -> None:
            for last in (False, True):
                outcome = await self.booking.decided(response, "job", self.booking.basis(), last)
                if not outcome.again:
                    return

        self.run(decided)
        self.agreed = self.agreed or view
        self.expected.pop(name, None)
        if promise:
            self.expected[name] = promise
            self.jobs[name] = job

    def happen(self, step: Step) -> None:
        name, there = step.name, step.name in self.rows
        match step.what:
            case "place" if not there:
                self.decide(name, Promise(row_of(name, step.place), new=True), "CREATE", step.so)
            case "move" if there and name not in self.jobs:
                moved = row_of(name, step.place, status=self.rows[name].status)
                self.decide(name, Promise(moved, new=False), "MIGRATE", step.so)
            case "refuse":
                self.decide(name, None, "", reachable=True)
            case "appear" if name in self.jobs and not there:
                row = self.expected[name].row if step.so and name in self.expected else None
                place = (row.pnode, str(row.snode)) if row else step.place
                self.rows[name] = row_of(name, place, status=Status.DOWN)
            case "go" if there:
                row = row_of(name, step.place)
                self.rows[name] = row if step.so else replace(self.rows[name], status=Status.RUNNING)
            case "job ends" if self.jobs.pop(name, None) == "CREATE" and step.so:
                self.rows.pop(name, None)  # it has failed
            case "look at queue":
                self.look_at_queue()
            case "expire" if step.so:
                self.expire()
            case "cancel":
                assert self.claims.cancel(name) is (name in self.expected)
                self.expected.pop(name, None)
            case "resynchronise":
                self.run(self.again)
            case "make up":
                self.run(self.round)
            case "restart":
                self.restart()

    def look_at_queue(self) -> None:
        self.clock.jump(5)
        opcodes = {
            number: [{"OP_ID": f"OP_INSTANCE_{job}", "instance_name": name}]
            for number, (name, job) in enumerate(self.jobs.items())
        }

        async def looked() -> None:
            self.claims.looked(Work(trio.current_time(), opcodes))

        self.run(looked)
        self.expected = {
            name: promise
            for name, promise in self.expected.items()
            if self.jobs.get(name) == ("CREATE" if promise.new else "MIGRATE")
        }

    def expire(self) -> None:
        self.clock.jump(SECONDS + 1)

        async def promises() -> None:
            self.claims.promises()

        self.run(promises)
        self.expected = {}

    def restart(self) -> None:
        """What had not been written is lost; what had ended, but was not released, comes back."""
        kept = {
            name.removeprefix("c/") for name, (_, promised, _) in self.on_ledger(said).items() if promised
        }
        self.begin()
        assert self.claims.living.keys() == kept
        self.expected = {name: claim.promise for name, claim in self.claims.living.items()}

    def check(self) -> None:
        """Generations only grow, and what is expected lives."""
        now = {uuid: each.generation for uuid, each in self.on_ledger(Ledger.contents).providers.items()}
        assert all(now[uuid] >= was for uuid, was in self.generations.items())
        self.generations = now
        assert {name: claim.promise for name, claim in self.claims.living.items()} == self.expected

    def nodes(self, promise: Promise) -> set[str | None]:
        """Where an instance has something, or is going to."""
        row = self.rows.get(promise.name)
        there = {row.pnode, row.snode} if row else set()
        return there if row and promise.new else there | {promise.row.pnode, promise.row.snode}

    def end(self) -> None:
        """The ledger says what it would if all had gone one by one."""
        for work in (self.again, self.round, self.again):
            self.run(work)
        found = self.on_ledger(said)
        serial = Ledger(f"sqlite:///{self.directory.name}/serial")
        view = self.look(serial)
        living = self.claims.living.items()
        make_up(serial, [entry_of(claim, self.rows.get(name), view, 0.0) for name, claim in living], ())
        assert found == said(serial)
        for name, promise in self.expected.items():
            providers = {provider_uuid(f"c/{node}") for node in self.nodes(promise)}
            assert found[f"c/{name}"][2].keys() == providers
        serial.close()
        self.on_ledger(lambda ledger: ledger.close())
        self.directory.cleanup()


OFTEN = ("place", "place", "place", "appear", "appear", "move", "look at queue", "resynchronise", "make up")
SELDOM = ("refuse", "go", "job ends", "expire", "cancel", "restart")
STEPS = st.builds(Step, st.sampled_from(OFTEN + SELDOM), NAMES, PLACES, st.booleans())


@settings(max_examples=40)
@given(st.lists(STEPS, min_size=20, max_size=40))
def test_any_order_ends_as_one_by_one(steps: list[Step]) -> None:
    daemon = Daemon()
    for step in steps:
        daemon.happen(step)
        daemon.check()
    daemon.end()
