"""The declarations of the methods."""

from pathlib import Path
from unittest.mock import Mock

import pytest
import trio

from ganeti_htools.sources.ssconf import Ssconf
from htoolsd.api.candidates import CandidateMethods
from htoolsd.api.cluster import ClusterMethods
from htoolsd.api.decisions import Decisions
from htoolsd.api.history import HistoryMethods
from htoolsd.api.inventory_tags import InventoryTags
from htoolsd.api.ledger import LedgerMethods
from htoolsd.api.plans import PlanMethods
from htoolsd.api.policies import PolicyMethods
from htoolsd.api.reload_status import ReloadStatus
from htoolsd.api.status import StatusMethods
from htoolsd.claims.claims import Claims
from htoolsd.follow.reconciler import Reconciler
from htoolsd.history.history import History
from htoolsd.metrics.capacity import CapacityCount
from htoolsd.plans.plans import Plans
from htoolsd.policies.coordinator import Policies
from htoolsd.process.mastership import ThisNode
from htoolsd.socket.methods import Method, Methods, methods_of
from htoolsd.socket.server import Server
from htoolsd.store.worker import LedgerWorker
from htoolsd.sync.sync import Sync
from htoolsd.threads import Computations
from tests.support.memory_peer import open_access
from tests.support.notifying import unused_notifier
from tests.support.policies import none_again
from tests.support.settings import settings


async def is_master() -> bool:
    return False


@pytest.fixture
def methods(tmp_path: Path) -> tuple[Method, ...]:
    known = settings(claims="never")
    sync = Sync("nowhere", is_master, known)
    plans = Plans(str(tmp_path), sync)
    computations = Computations(trio.lowlevel.checkpoint)
    policies = Policies(str(tmp_path / "policies"), sync, plans, known, Mock())
    history = History(str(tmp_path / "history"), known)
    decisions = Decisions(known, lambda: (None, {}))
    ledger = LedgerWorker("sqlite://")
    server = Server(Methods(), known, open_access())
    claims, reconciler = Claims(known, lambda: False), Reconciler(sync, ledger, known)
    reload = ReloadStatus()
    subjects = (
        decisions,
        ClusterMethods(sync),
        PlanMethods(plans, sync, settings(), none_again),
        PolicyMethods(policies, sync, computations),
        HistoryMethods(history, sync, computations),
        LedgerMethods(
            ledger,
            lambda: None,
            lambda: None,
            lambda: None,
            lambda _name: None,
            InventoryTags(sync, reconciler.reconcile).write,
            known,
        ),
        CandidateMethods(ledger, reconciler),
        StatusMethods(
            "socket",
            str(tmp_path),
            ThisNode(Ssconf("node1", str(tmp_path))),
            server,
            sync,
            decisions,
            claims,
            plans,
            policies,
            history,
            ledger,
            reconciler,
            reload,
            CapacityCount(lambda: None),
            unused_notifier(tmp_path),
            lambda: {"listen": "", "error": None},
        ),
    )
    return tuple(methods_of(*subjects))


async def test_methods_have_unique_names_and_descriptions(methods: tuple[Method, ...]) -> None:
    names = [method.name for method in methods]
    assert len(set(names)) == len(names)
    for method in methods:
        assert method.version >= 1
        assert method.doc.endswith(".")
        assert all(method.arguments.values())


async def test_methods_have_different_functions(methods: tuple[Method, ...]) -> None:
    assert len({method.run for method in methods}) == len(methods)
