import gc
import queue
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from ganeti_htools.backends.documents import without_garbage_collection
from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.deciding.decision import Cache, KnownCluster, Response, TooLargeError
from ganeti_htools.deciding.promises import Promise
from ganeti_htools.deciding.summary import DecisionSummary
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.sources.ssconf import Ssconf
from htoolsd.api import decisions as subject
from htoolsd.api.decisions import Decisions
from htoolsd.api.turn import MAX_HUNG
from htoolsd.claims.claim_writer import ClaimWriter
from htoolsd.claims.claims import Claims
from htoolsd.config.settings import Settings
from htoolsd.events import EventStream
from htoolsd.follow.reconciler import Reconciler
from htoolsd.history.entries import HistoryQuery
from htoolsd.history.history import History
from htoolsd.socket.peer import PassedFile
from htoolsd.store.worker import LedgerWorker
from htoolsd.sync.sync import Sync
from htoolsd.sync.this_node import ThisNode
from htoolsd.witness.witness import Witness
from tests.support.by_hand import instance
from tests.support.memory_peer import open_file, wait_closed
from tests.support.settings import change, settings
from tests.support.workers import close

AGES = {"configuration": 1.5, "live": 100.0}
KNOWN = KnownCluster(Cluster(), 100.0)
GIST = DecisionSummary("allocate", ["new"], [["one", "two"]], ["default"], 1.5)
RANKING = [{"instance": "new", "groups": []}]
WARNINGS = "Warning: cluster has inconsistent data:\n  - one\n  - two\n\n"


@dataclass
class Data:
    """The data of a daemon; what Ganeti shows when it is asked is another cluster."""

    known: KnownCluster | None = KNOWN
    ages: dict[str, float] = field(default_factory=lambda: AGES)
    asked: int = 0
    units_requested: bool = False

    def now(self) -> tuple[KnownCluster | None, dict[str, float]]:
        return self.known, self.ages

    async def newest(self) -> KnownCluster | None:
        self.asked += 1
        self.known = KnownCluster(Cluster(), 1.0)
        return self.known

    def request_units(self) -> None:
        self.units_requested = True


class Engine:
    """Decides when it is told to: every decision waits for its outcome."""

    def __init__(self) -> None:
        self.begun: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.outcomes: queue.SimpleQueue[str | Exception] = queue.SimpleQueue()
        self.at_once = self.most_at_once = 0
        self.caches: list[Cache | None] = []
        self.summary = GIST
        self.promises: tuple[Promise, ...] = ()

    def respond(
        self,
        data: bytes,
        _options: PlacementOptions,
        cache: Cache | None = None,
        known: KnownCluster | None = None,
        _promises: Collection[Promise] = (),
    ) -> Any:
        assert known is KNOWN
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        self.caches.append(cache)
        self.begun.put(data)
        outcome = self.outcomes.get(timeout=30)
        self.at_once -= 1
        if isinstance(outcome, Exception):
            raise outcome
        return Response(outcome, ("one", "two"), self.summary, ranking=RANKING, promises=self.promises)

    async def next_begun(self) -> bytes:
        """The data of the next decision, once it has begun."""
        return await trio.to_thread.run_sync(lambda: self.begun.get(timeout=30))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    engine = Engine()
    monkeypatch.setattr(subject, "respond", engine.respond)
    yield engine
    for _ in range(5):
        engine.outcomes.put("for threads that nobody waits for")


@pytest.fixture
def known() -> Settings:
    return settings(wait_seconds=1000.0, decision_seconds=1000.0)


def deciding(known: Settings, data: Data | None = None) -> Decisions:
    """Return decisions that claim nothing, without a witness."""
    claims: Any = SimpleNamespace(active=False)
    return Decisions(known, data or Data(), EventStream(), claims, Witness(known, ""))


@pytest.fixture
def decisions(known: Settings) -> Decisions:
    return deciding(known)


def counts(decisions: Decisions) -> dict[str, object]:
    status = decisions.status()
    return {key: value for key, value in status.items() if type(value) is int and value}


async def test_relays_answer_and_warnings(engine: Engine, decisions: Decisions) -> None:
    before = decisions.status()
    engine.outcomes.put('{"success":true}')
    relay: Any = await decisions.decide({"request": "text"}, None)
    expected = {"stdout": '{"success":true}\n', "stderr": WARNINGS, "exit_status": 0, "ages": AGES}
    told = {"id": relay["id"], "ranking": RANKING, "summary": engine.summary.to_json()}
    assert relay == {**expected, **told}
    assert before["by_type"] == {}  # a thread may read the status meanwhile
    assert engine.begun.get() == b"text"
    assert counts(decisions) == {"served": 1}


async def test_wrong_input_has_exit_status_1(engine: Engine, decisions: Decisions) -> None:
    engine.outcomes.put(DataError("nodes: expected an object"))
    relay = await decisions.decide({"request": ""}, None)
    assert relay == {
        "stdout": "",
        "stderr": "Error: nodes: expected an object\n",
        "exit_status": 1,
        "ages": AGES,
        "ranking": [],
    }
    assert counts(decisions) == {"failed": 1}


async def test_wrong_request_leaves_no_garbage() -> None:
    decisions = deciding(settings(), Data(None, {}))
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):  # a thread keeps the last one
            relay: Any = await decisions.decide({"request": f'{{"nodes": [{"[0]," * 1000}0]}}'}, None)
            assert relay["exit_status"] == 1
        assert gc.collect() < 500
    finally:
        gc.enable()


async def test_cache_is_replaced_after_a_defect(engine: Engine, decisions: Decisions) -> None:
    for outcome in ("", DataError("x"), ZeroDivisionError("defect"), ""):
        engine.outcomes.put(outcome)
        try:
            await decisions.decide({"request": ""}, None)
        except ZeroDivisionError:
            assert isinstance(outcome, ZeroDivisionError)
    first, second, third, fourth = engine.caches
    assert isinstance(first, Cache)
    assert first is second is third
    assert isinstance(fourth, Cache)
    assert fourth is not first
    assert counts(decisions) == {"served": 2, "failed": 1, "broken": 1}


async def test_reads_and_closes_the_request_file(
    engine: Engine, decisions: Decisions, tmp_path: Path
) -> None:
    passed = open_file(tmp_path / "request", "from a file")
    engine.outcomes.put("")
    await decisions.decide({"arguments": []}, PassedFile(passed, 2))
    assert engine.begun.get() == b"from a file"
    wait_closed(passed)


@pytest.mark.parametrize(
    ("args", "counted"),
    [
        ({}, 1),
        ({"request": 7}, 0),
        ({"request": "", "arguments": "--no-capacity-checks="}, 0),
        ({"request": "", "arguments": [7]}, 0),
        ({"request": "", "arguments": ["--restrict-allocation-to=" + "n" * (1 << 16)]}, 1),
        ({"request": "", "arguments": ["--no-such-option=1"]}, 1),
        ({"request": "", "claim": 1}, 0),
    ],
)
async def test_refuses_wrong_arguments(decisions: Decisions, args: dict[str, object], counted: int) -> None:
    """A call with an argument of another type is no decision."""
    with pytest.raises(RefusalError) as caught:
        await decisions.decide(args, None)
    assert caught.value.kind is Refusal.ARGUMENTS
    assert counts(decisions).get("refused", 0) == counted


@pytest.mark.parametrize("outcome", [None, TooLargeError("the request has more than 3000 nodes")])
async def test_refuses_too_long_messages(
    engine: Engine, decisions: Decisions, outcome: Exception | None
) -> None:
    if outcome:
        engine.outcomes.put(outcome)
    with pytest.raises(RefusalError, match="the request has more than") as caught:
        await decisions.decide({"request": "" if outcome else "[]," * 600_000}, None)
    assert caught.value.kind is Refusal.FILE
    assert counts(decisions) == {"refused": 1}


async def test_refuses_a_file_together_with_a_text(decisions: Decisions, tmp_path: Path) -> None:
    file = PassedFile(open_file(tmp_path / "request"), 2)
    with pytest.raises(RefusalError, match="either a passed file or the argument request"):
        await decisions.decide({"request": ""}, file)
    file.close()


async def test_decides_one_at_a_time_in_order(engine: Engine, decisions: Decisions) -> None:
    texts = ["first", "second", "third"]
    async with trio.open_nursery() as nursery:
        for text in texts:
            nursery.start_soon(decisions.decide, {"request": text}, None)
            await wait_all_tasks_blocked()
        assert counts(decisions) == {"running": 1, "waiting": 2}
        for text in texts:
            assert await engine.next_begun() == text.encode()
            assert engine.begun.empty()
            engine.outcomes.put("")
    assert engine.most_at_once == 1
    assert counts(decisions) == {"served": 3}


async def test_data_and_its_ages_are_those_of_the_turn(engine: Engine) -> None:
    data = Data(ages={"live": 1.0})
    decisions = deciding(settings(), data)
    answers: list[Any] = []

    async def ask(text: str) -> None:
        answers.append(await decisions.decide({"request": text}, None))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "first")
        assert await engine.next_begun() == b"first"
        nursery.start_soon(ask, "second")
        await trio.testing.wait_all_tasks_blocked(0.01)
        data.ages = {"live": 3.0}
        for _ in range(2):
            engine.outcomes.put("{}")
    assert [answer["ages"] for answer in answers] == [{"live": 1.0}, {"live": 3.0}]


async def test_abandoned_decision_keeps_its_turn_until_it_ends(engine: Engine, decisions: Decisions) -> None:
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as client:
            client.start_soon(decisions.decide, {"request": "abandoned"}, None)
            assert await engine.next_begun() == b"abandoned"
            client.cancel_scope.cancel()
        nursery.start_soon(decisions.decide, {"request": "next"}, None)
        await wait_all_tasks_blocked()
        assert engine.begun.empty()
        assert counts(decisions) == {"running": 1, "waiting": 1, "abandoned": 1}
        engine.outcomes.put("")
        assert await engine.next_begun() == b"next"
        engine.outcomes.put("")
    assert engine.most_at_once == 1
    assert counts(decisions) == {"served": 1, "abandoned": 1}


async def test_claimant_of_a_decision(engine: Engine, tmp_path: Path) -> None:
    """Who passes a file, unless he says otherwise; and nobody who does not wait for the decision any more."""
    always = settings(claims="always", claim_wait_seconds=0.0)
    claims = Claims(always)
    ledger = LedgerWorker(f"sqlite:///{tmp_path / 'ledger'}")
    sync = Sync("", ThisNode(Ssconf("", "/nonexistent")), always, EventStream())
    writer = ClaimWriter(claims, ledger, Reconciler(sync, ledger, always), sync, always)
    history = History(str(tmp_path / "history"), always)
    decisions = Decisions(always, Data(), EventStream(history), writer, Witness(always, ""))
    engine.promises = (Promise(instance("new", DiskTemplate.PLAIN, "a"), new=True),)

    async def decided(args: dict[str, object], passed: bool) -> int:
        engine.outcomes.put("")
        file = PassedFile(open_file(tmp_path / "request", ""), 2) if passed else None
        await decisions.decide(args, file)
        living = len(claims.promises())
        claims.cancel("new")
        return living

    async with trio.open_nursery() as client:
        client.start_soon(decisions.decide, {"request": "abandoned", "claim": True}, None)
        await engine.next_begun()
        client.cancel_scope.cancel()
    engine.outcomes.put("")
    assert await decided({"request": ""}, passed=False) == 0
    assert await decided({"request": "", "claim": True}, passed=False) == 1
    assert await decided({}, passed=True) == 1
    assert await decided({"claim": False}, passed=True) == 0
    assert [entry["test"] for entry in await history.find(HistoryQuery())] == [True, False, False, True]
    await close(ledger)


async def test_forgets_a_client_that_leaves_while_it_waits(engine: Engine, decisions: Decisions) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(decisions.decide, {"request": "first"}, None)
        assert await engine.next_begun() == b"first"
        async with trio.open_nursery() as client:
            client.start_soon(decisions.decide, {"request": "second"}, None)
            await wait_all_tasks_blocked()
            client.cancel_scope.cancel()
        assert counts(decisions) == {"running": 1, "abandoned": 1}
        engine.outcomes.put("")
    assert engine.begun.empty()


async def test_stop_refuses_waiting_decisions(engine: Engine, decisions: Decisions) -> None:
    async def refused() -> None:
        with pytest.raises(RefusalError) as caught:
            await decisions.decide({"request": "refused"}, None)
        assert caught.value.kind is Refusal.STOPPING

    async with trio.open_nursery() as nursery:
        nursery.start_soon(decisions.decide, {"request": "finished"}, None)
        assert await engine.next_begun() == b"finished"
        async with trio.open_nursery() as waiting:
            waiting.start_soon(refused)
            await wait_all_tasks_blocked()
            decisions.stop()
        await refused()
        engine.outcomes.put("")
    assert counts(decisions) == {"served": 1, "refused": 2}
    await refused()


async def test_gives_up_a_decision_that_takes_too_long(engine: Engine, autojump_clock: MockClock) -> None:
    decisions = deciding(settings(wait_seconds=1000.0))

    async def given_up(request: str) -> None:
        with pytest.raises(RefusalError, match="took longer than 60 s") as caught:
            await decisions.decide({"request": request}, None)
        assert caught.value.kind is Refusal.INTERNAL

    autojump_clock.autojump_threshold = inf
    for number in range(MAX_HUNG):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(given_up, "stuck")
            assert await engine.next_begun() == b"stuck"
            autojump_clock.jump(59)
            decisions.give_up_late()
            assert (decisions.status()["lost"], decisions.healthy) == (number, True)
            autojump_clock.jump(2)
            decisions.give_up_late()
    assert not decisions.healthy
    assert counts(decisions) == {"refused": MAX_HUNG, "given_up": MAX_HUNG, "lost": MAX_HUNG}
    with pytest.raises(RefusalError, match="4 decisions have hung"):
        await decisions.decide({"request": ""}, None)
    assert len({id(cache) for cache in engine.caches}) == MAX_HUNG
    engine.outcomes.put("")
    while not decisions.healthy:
        await trio.lowlevel.checkpoint()
    engine.outcomes.put("")
    for _ in range(MAX_HUNG - 1):
        engine.outcomes.put("")
    await decisions.decide({"request": "next"}, None)
    assert decisions.status()["served"] == 1


async def test_gives_up_an_abandoned_decision(engine: Engine, decisions: Decisions, known: Settings) -> None:
    change(known, decision_seconds=0.001)
    async with trio.open_nursery() as client:
        client.start_soon(decisions.decide, {"request": "left"}, None)
        assert await engine.next_begun() == b"left"
        client.cancel_scope.cancel()
    await trio.sleep(0.01)
    decisions.give_up_late()
    assert counts(decisions) == {"abandoned": 1, "given_up": 1, "lost": 1}


async def test_collects_garbage_beside_a_hung_decision(
    engine: Engine, decisions: Decisions, known: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "respond", without_garbage_collection()(engine.respond))
    change(known, decision_seconds=0.001)
    async with trio.open_nursery() as client:
        client.start_soon(decisions.decide, {"request": "stuck"}, None)
        assert await engine.next_begun() == b"stuck"
        assert not gc.isenabled()
        client.cancel_scope.cancel()
    await trio.sleep(0.01)
    decisions.give_up_late()
    assert gc.isenabled()


async def test_logs_decisions(engine: Engine, decisions: Decisions) -> None:
    refused = DecisionSummary("allocate", ["new"], refusal="no place")
    with structlog.testing.capture_logs() as log:
        engine.outcomes.put("")
        decided: Any = await decisions.decide({"request": ""}, None)
        engine.summary = refused
        engine.outcomes.put("")
        await decisions.decide({"request": ""}, None)
        engine.outcomes.put(DataError("nodes: expected an object"))
        await decisions.decide({"request": ""}, None)
    ages = {"configuration": 1.5, "live": 100.0}
    assert log[0]["id"] == decided["id"] != log[1]["id"]
    for line in log:
        line.pop("id", None)
        assert line.pop("ms") >= 0
        assert line.pop("ages") == ages
    assert log == [
        {
            "event": "decided",
            "log_level": "info",
            "request": "allocate",
            "instances": ["new"],
            "nodes": [["one", "two"]],
            "groups": ["default"],
            "score": 1.5,
        },
        {
            "event": "no place",
            "log_level": "info",
            "request": "allocate",
            "instances": ["new"],
            "refusal": "no place",
        },
        {"event": "request is wrong", "log_level": "warning", "error": "nodes: expected an object"},
    ]
    assert counts(decisions) == {"served": 1, "unsatisfied": 1, "failed": 1}
    assert decisions.status()["by_type"] == {"allocate": {"served": 1, "unsatisfied": 1}}


async def test_notices_requests_for_other_units(monkeypatch: pytest.MonkeyPatch) -> None:
    for named in (False, True):
        monkeypatch.setattr(subject, "respond", lambda *_, named=named: Response("", (), GIST, named))
        data = Data()
        await deciding(settings(), data).decide({"request": "x"}, None)
        assert data.units_requested is named


async def test_refuses_a_template_only_by_the_newest_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have been enabled a moment ago."""
    data = Data()

    def respond(
        _data: bytes, _options: PlacementOptions, _cache: Cache, known: KnownCluster, _promises: Any
    ) -> Response:
        return Response(f"{known.age}", (), GIST, not_enabled=known is KNOWN)

    monkeypatch.setattr(subject, "respond", respond)
    decisions = deciding(settings(), data)
    for _ in range(2):
        answer = await decisions.decide({"request": "x"}, None)
        assert isinstance(answer, dict)
        assert answer["stdout"] == "1.0\n"
    assert data.asked == 1
