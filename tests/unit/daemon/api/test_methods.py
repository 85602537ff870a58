"""The list of methods."""

from pathlib import Path

import pytest

from htoolsd.api.cluster import ClusterMethods
from htoolsd.api.decisions import Decisions
from htoolsd.api.history import HistoryMethods
from htoolsd.api.ledger import LedgerMethods
from htoolsd.api.methods import declared
from htoolsd.api.plans import PlanMethods
from htoolsd.api.policies import PolicyMethods
from htoolsd.history.history import History
from htoolsd.ledger.worker import LedgerWorker
from htoolsd.plans.plans import Plans
from htoolsd.policies.schedule import Policies
from htoolsd.policies.settings import PolicySettings
from htoolsd.socket.methods import Args, File, Method
from htoolsd.sync.sync import Sync
from tests.support.policies import none_again


async def nobody() -> bool:
    return False


async def status(_args: Args, _file: File) -> object:
    return {}


@pytest.fixture
def methods(tmp_path: Path) -> tuple[Method, ...]:
    sync = Sync("nowhere", nobody, 1.0, 1.0)
    kept = Plans(str(tmp_path), sync)
    plans = PlanMethods(kept, sync, none_again)
    policies = Policies(
        str(tmp_path / "policies"), sync, kept, {"rebalance": PolicySettings()}, lambda _decision: None
    )
    history = HistoryMethods(History(str(tmp_path / "history"), 1.0, 1), sync)
    decisions = Decisions(1.0, 1.0, 1, lambda: (None, {}))
    ledger = LedgerMethods(
        LedgerWorker("sqlite://"), lambda: None, lambda: False, lambda: None, lambda _name: None
    )
    policy_methods = PolicyMethods(policies, sync)
    return declared(decisions, ClusterMethods(sync), plans, policy_methods, history, ledger, status)


async def test_each_is_named_once_and_described(methods: tuple[Method, ...]) -> None:
    names = [method.name for method in methods]
    assert len(set(names)) == len(names)
    for method in methods:
        assert method.version >= 1
        assert method.doc.endswith(".")
        assert all(method.arguments.values())


async def test_each_is_carried_out_by_its_own_function(methods: tuple[Method, ...]) -> None:
    assert len({method.run for method in methods}) == len(methods)
