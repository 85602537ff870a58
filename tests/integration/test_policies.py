"""A policy on a real Ganeti. The drift that it finds in the group "other" is made here, and removed again."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from ganeti_htools.client.calls import ask
from tests.integration import cluster
from tests.integration.cluster import ADD, SMALL, TOP, jobs, nodes_of, run, start, succeed
from tests.integration.daemon import Daemon
from tests.support.programs import PATIENCE, ROOT

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
    entries: Any = ask(daemon.socket, "history", {}, patience=PATIENCE)
    return [entry for entry in entries if entry["kind"] == "policy"]


def states(daemon: Daemon) -> dict[str, str]:
    """The state of each plan."""
    plans: Any = ask(daemon.socket, "plans", {}, patience=PATIENCE)
    return {plan["id"]: plan["state"] for plan in plans}


@pytest.fixture
def drift() -> Iterator[None]:
    """Instances that are all on one node though another one is empty, and a hook of the watcher."""
    hooks = TOP / "node1" / "etc" / "ganeti" / "hooks" / "watcher"
    hooks.mkdir(parents=True)
    shutil.copy(HOOK, hooks)
    disk = ("-t", "sharedfile", "--disk", "0:size=1G")
    succeed(*([*ADD, *SMALL, *disk, "--node", "node4", name] for name in NAMES))
    yield
    run(*(["gnt-instance", "remove", "-f", name] for name in NAMES))
    shutil.rmtree(hooks)


@pytest.mark.usefixtures("drift")
def test_rounds_begin_anew_after_an_outage() -> None:
    """A node is lost for a while: until it is back, and for some rounds then, no plan begins."""

    def begun() -> list[Any]:
        return [entry for entry in decided(daemon) if entry["outcome"] == "begun"]

    waiting = settings("act").replace("hold = 1", "hold = 4\nevery_seconds = 10")
    with Daemon(waiting) as daemon:
        daemon.refresh()
        run([HOOK])
        cluster.switch_off("node5")
        run(["gnt-node", "modify", "--offline=yes", "node5"])
        daemon.refresh()
        run([HOOK])
        cluster.switch_on("node5")
        run(["gnt-node", "modify", "--force", "--offline=no", "node5"])
        daemon.refresh()
        run([HOOK])
        assert not begun()
        cluster.wait_until(begun)
        cluster.wait_until(lambda: states(daemon)[begun()[-1]["plan"]] == "done")


@pytest.mark.usefixtures("drift")
def test_policy_reports_drift_then_empties_the_node() -> None:
    """By the watcher's hook; on a node that is not the master it does nothing."""
    assert run([HOOK], node="node2") == [""]
    with Daemon(settings("shadow")) as daemon:
        daemon.refresh()
        before, earlier = jobs(), len(decided(daemon))
        run([HOOK])
        cluster.wait_until(lambda: len(decided(daemon)) > earlier)
        told = decided(daemon)[-1]
        assert told["outcome"] == "would act", told
        assert jobs() == before
    with Daemon(settings("act")) as daemon:
        daemon.refresh()
        earlier = len(decided(daemon))
        start(["ganeti-watcher"], "node1").communicate(timeout=cluster.PATIENCE)
        cluster.wait_until(lambda: len(decided(daemon)) > earlier)
        done = decided(daemon)[-1]
        assert (done["trigger"], done["outcome"]) == ("asked", "begun"), done
        plan = done["plan"]
        cluster.wait_until(lambda: states(daemon)[plan] == "done")
        moved = {move["instance"]: move["to"] for move in done["moves"]}
        assert moved
        assert all(nodes_of(name) == nodes for name, nodes in moved.items())
        assert len(jobs(after=before[-1].number)) >= len(moved)
