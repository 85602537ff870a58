"""What the daemon tells about itself."""

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.sources.ssconf import Ssconf
from ganeti_htools.version import VERSION
from htoolsd.api import status as status_module
from htoolsd.api.decisions import Decisions
from htoolsd.api.parts import Deciding, Following, Outside, Planning
from htoolsd.api.status import HealthCache, StatusMethods, resident_mib
from htoolsd.claims.claim_writer import ClaimWriter
from htoolsd.claims.claims import Claims
from htoolsd.claims.plan_claims import PlanClaims
from htoolsd.events import EventStream
from htoolsd.follow.reconciler import Reconciler
from htoolsd.history.history import History
from htoolsd.load.measured_load import MeasuredLoad
from htoolsd.metrics.capacity import CapacityCount
from htoolsd.metrics.forecast import CapacityForecast
from htoolsd.notify.outbox import Outbox
from htoolsd.plans.plans import Plans
from htoolsd.policies.coordinator import Policies
from htoolsd.policies.remedies import POLICIES
from htoolsd.process.decision_data import DecisionData
from htoolsd.recording import Recording
from htoolsd.socket.methods import Methods, methods_of
from htoolsd.socket.server import Server
from htoolsd.store.state_copies import StateCopies
from htoolsd.store.worker import LedgerWorker
from htoolsd.sync.storage_polls import StoragePolls
from htoolsd.sync.sync import Sync
from htoolsd.sync.this_node import ThisNode
from htoolsd.witness.witness import Witness
from tests.support.memory_ganeti import following, ganeti
from tests.support.memory_peer import MemoryPeer, open_access
from tests.support.programs import PATIENCE
from tests.support.settings import settings, unjudged
from tests.support.workers import close

WORDS = {"healthy", "not redundant", "weakly unhealthy", "unhealthy"}


async def test_status_has_all_parts_of_the_daemon(autojump_clock: MockClock, tmp_path: Path) -> None:
    socket = str(tmp_path / "socket")
    async with ganeti() as luxid, following(luxid) as sync:
        methods, access = Methods(), open_access()
        known = settings(claims="always", connections=2, socket=socket, state_dir=str(tmp_path))
        server = Server(methods, known, access, sync.events)
        history = History(str(tmp_path / "history"), known)
        ledger = LedgerWorker(f"sqlite:///{tmp_path / 'ledger'}")
        reconciler, storage = Reconciler(sync, ledger, known), StoragePolls("", known, sync)
        claims = ClaimWriter(Claims(known), ledger, reconciler, sync, known)
        witness, load = Witness(known, str(tmp_path)), MeasuredLoad("", known, sync)
        decisions = Decisions(known, DecisionData(sync, storage, load), sync.events, claims, witness)
        plans = Plans(str(tmp_path), sync, sync.events, unjudged())
        policies = Policies(str(tmp_path / "policies"), sync, plans, known, sync.events)
        status = StatusMethods(
            known,
            Following(
                sync,
                storage,
                history,
                ledger,
                reconciler,
                CapacityCount(sync),
                CapacityForecast(sync, history),
                load,
            ),
            Deciding(
                claims,
                witness,
                Recording(str(tmp_path), known, decisions),
                decisions,
                access,
                server,
            ),
            Planning(
                PlanClaims(sync, ledger, reconciler, claims),
                StateCopies(ledger, sync, str(tmp_path)),
                plans,
                policies,
            ),
            Outside(Outbox(known)),
        )
        methods.add(*methods_of(status))
        await sync.poll_all()
        peer = MemoryPeer()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve, peer)
            await peer.call("status")
            told: Any = (await peer.hear())["result"]
            await peer.leave()
        await close(ledger)
    assert [each["kind"] for each in told["attention"]] == ["redundancy"]
    assert told["reload"] == {"path": None, "error": None, "waiting": []}
    assert (told["version"], told["pid"], told["socket"]) == (VERSION, os.getpid(), socket)
    assert told["uptime_s"] >= 0
    assert told["connections"] == 1
    assert told["luxi"]["state"] == "reachable"
    assert (told["cluster"]["master"], told["cluster"]["nodes"]) == (True, 4)
    assert {group["health"] for group in told["groups"]} <= WORDS
    assert [group["name"] for group in told["groups"]] == ["default"]
    assert (told["decisions"]["served"], told["decisions"]["alone"]) == (0, 0)
    assert told["claims"] == {"active": True, "living": 0}
    assert told["plans"] == {}
    assert {policy["name"]: policy["mode"] for policy in told["policies"]} == dict.fromkeys(POLICIES, "off")
    assert (told["history"]["waiting"], told["history"]["error"]) == (0, None)
    assert (told["ledger"]["providers"], told["ledger"]["error"]) == (0, None)
    assert (told["ledger"]["lag_s"], told["ledger"]["following"]) == (None, None)
    assert told["memory_mib"] > 10


def test_resident_memory_matches_the_kernel() -> None:
    line = next(each for each in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in each)
    assert abs(resident_mib() - int(line.split()[1]) / 1024) < 50


async def test_newest_of_two_computations_of_the_health_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The older one ends later."""
    old, new = (Cluster(groups=(Group(name, name),)) for name in ("old", "new"))
    go_on, ended = threading.Event(), threading.Event()

    def health(cluster: Cluster) -> list[dict[str, Any]]:
        if cluster is old:
            go_on.wait(PATIENCE)
        return [{"name": cluster.groups[0].name}]

    async def in_thread(_size: int, work: Callable[[], None], abandon: bool) -> None:
        def run() -> None:
            work()
            if go_on.is_set():
                ended.set()

        await trio.to_thread.run_sync(run, abandon_on_cancel=abandon)

    monkeypatch.setattr(status_module, "group_health", health)
    monkeypatch.setattr(status_module, "run_by_size", in_thread)
    monkeypatch.setattr(status_module, "_PATIENCE", 0.05)
    sync = Sync("/luxi", ThisNode(Ssconf("node1", "/nonexistent")), settings(), EventStream())
    cache = HealthCache(sync)
    sync.model = replace(sync.model, cluster=old)
    assert (await cache.health()).groups is None
    sync.model = replace(sync.model, cluster=new)
    monkeypatch.setattr(status_module, "_PATIENCE", PATIENCE)
    assert (await cache.health()).groups == [{"name": "new"}]
    go_on.set()
    assert await trio.to_thread.run_sync(ended.wait, PATIENCE)
    assert (await cache.health()).groups == [{"name": "new"}]
