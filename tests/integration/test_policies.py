"""A policy on a real Ganeti. The drift that it finds in the group "other" is made here, and removed again."""

import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration import cluster
from tests.integration.cluster import GROUPS, TOP, add_shared, jobs, nodes_of, remove, run, start
from tests.integration.daemon import Daemon
from tests.support.programs import ROOT

pytestmark = pytest.mark.integration

NAMES = [f"drifted{number}" for number in range(1, 5)]
HOOK = ROOT / "contrib" / "hooks" / "watcher" / "htoolsd-policies"


def settings(mode: str) -> str:
    """The configuration of a policy that makes do with little drift."""
    return (
        f'config_seconds = 1\nlive_seconds = 20\n[rebalance]\nmode = "{mode}"\ngroups = ["other"]\n'
        "start = 0.02\nstop = 0.001\nhold = 1\nmin_gain = 0.0001\n"
    )


def decided(daemon: Daemon) -> list[Any]:
    """What the policy has decided so far."""
    return [entry for entry in daemon.ask("history", most=1000) if entry["kind"] == "policy"]


def states(daemon: Daemon) -> dict[str, str]:
    """The state of each plan."""
    return {plan["id"]: plan["state"] for plan in daemon.ask("plans")}


def considered(daemon: Daemon, by: cluster.Command = (HOOK,)) -> Any:
    """The policy's decision once the hook has asked for one, run by itself or by another program."""

    def asked() -> list[Any]:
        return [entry for entry in decided(daemon) if entry["trigger"] == "asked"]

    count = len(asked())
    start(by, daemon.node).communicate(timeout=cluster.PATIENCE)
    cluster.wait_until(lambda: len(asked()) > count)
    return asked()[count]


def decides(daemon: Daemon, outcome: str, by: cluster.Command = (HOOK,)) -> Any:
    """The decision with this outcome. What holds it back for a moment, as late data, is waited for."""

    def wanted() -> Any:
        decision = considered(daemon, by)
        return decision if decision["outcome"] == outcome else None

    return cluster.wait_until(wanted)


def streaks(decisions: list[Any]) -> list[int]:
    """For how many rounds in a row there was a reason to act, by each decision that waits for more."""
    found = (re.search(r"for (\d+) of \d+ rounds", entry["reason"]) for entry in decisions)
    return [int(each[1]) for each in found if each]


@pytest.fixture(scope="module")
def drift() -> Iterator[None]:
    """Instances that are all on one node though another one is empty, a hook of the watcher, and daemons that
    know of no earlier plan.
    """
    for node in GROUPS:
        shutil.rmtree(TOP / node / "htoolsd", ignore_errors=True)
    hooks = TOP / "node1" / "etc" / "ganeti" / "hooks" / "watcher"
    hooks.mkdir(parents=True)
    shutil.copy(HOOK, hooks)
    add_shared(dict.fromkeys(NAMES, "node4"))
    yield
    remove(*NAMES)
    shutil.rmtree(hooks)


@pytest.mark.slow
@pytest.mark.usefixtures("drift")
def test_rounds_begin_anew_after_an_outage() -> None:
    """A node is lost for a while. The policy waits for so many rounds that it never acts."""
    waiting = settings("act").replace("hold = 1", "hold = 1000\nevery_seconds = 3")
    with Daemon(waiting) as daemon:
        daemon.refresh()
        cluster.wait_until(lambda: max(streaks(decided(daemon)), default=0) >= 6)
        before = len(decided(daemon))
        cluster.switch_off("node5")
        run(["gnt-node", "modify", "--offline=yes", "node5"])
        daemon.refresh()
        considered(daemon)
        cluster.switch_on("node5")
        run(["gnt-node", "modify", "--force", "--offline=no", "node5"])
        daemon.refresh()
        considered(daemon)
        back = len(decided(daemon))
        cluster.wait_until(lambda: streaks(decided(daemon)[back:]))
        assert 1 in streaks(decided(daemon)[before:])


@pytest.mark.usefixtures("drift")
def test_policy_reports_drift_then_empties_the_node() -> None:
    """By the watcher's hook; on a node that is not the master it does nothing."""
    assert run([HOOK], node="node2") == [""]
    with Daemon(settings("shadow")) as daemon:
        daemon.refresh()
        before = jobs()
        decides(daemon, "would act")
        assert jobs() == before
    with Daemon(settings("act")) as daemon:
        daemon.refresh()
        done = decides(daemon, "begun", by=["ganeti-watcher"])
        cluster.wait_until(lambda: states(daemon)[done["plan"]] == "done")
        moved = {move["instance"]: move["to"] for move in done["moves"]}
        assert moved
        assert all(nodes_of(name) == nodes for name, nodes in moved.items())
        assert len(jobs(after=before[-1].number)) >= len(moved)
