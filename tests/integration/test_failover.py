"""The master's role changes hands in the middle of work: each node has a state directory of its own."""

import shutil

import pytest

from ganeti_htools.client.calls import ask
from tests.integration import cluster
from tests.integration.cluster import TOP, jobs, run
from tests.integration.daemon import Daemon
from tests.integration.test_policies import HOOK, NAMES, decided, drift, settings, states
from tests.support.programs import PATIENCE

__all__ = ["drift"]  # a fixture

pytestmark = pytest.mark.integration

LIMITS = "max_moves = 2\nmoves_per_day = 3\n"


def left(daemon: Daemon) -> int:
    """The moves that the policy may still make today."""
    policies = {each["name"]: each for each in ask(daemon.socket, "policies", {}, patience=PATIENCE)}  # type: ignore[attr-defined]
    return int(policies["rebalance"]["left"]["moves"])


def considered(daemon: Daemon) -> str:
    """The outcome of a decision of the policy, once its plan has ended."""
    count = len(decided(daemon))
    run([HOOK], node=daemon.node)
    cluster.wait_until(lambda: len(decided(daemon)) > count)
    decision = decided(daemon)[count]
    if decision["plan"] is not None:
        cluster.wait_until(lambda: states(daemon)[decision["plan"]] not in ("running", "stopping"))
    return str(decision["outcome"])


def fail_over(new: Daemon) -> None:
    run(["gnt-cluster", "master-failover"], node=new.node)
    new.wait_until_it_leads()
    new.refresh()


@pytest.mark.usefixtures("drift")
def test_policy_s_budget_holds_over_failovers_in_the_middle_of_its_plan() -> None:
    last, wish = jobs()[-1].number, settings("act") + LIMITS
    slow = TOP / "node1/etc/ganeti/hooks/instance-migrate-pre.d/slow"
    slow.parent.mkdir(parents=True)
    slow.write_text("#!/bin/sh\nsleep 20\n")  # longer than it takes until the other node begins to take over
    slow.chmod(0o755)
    with Daemon(wish) as first, Daemon(wish, node="node2") as second:
        first.wait_until_it_leads()
        first.refresh()
        run([HOOK])
        cluster.wait_until(lambda: {"running", "success"} & {job.status for job in jobs(after=last)})
        (plan,) = states(first)
        fail_over(second)
        shutil.rmtree(slow.parent)
        cluster.wait_until(lambda: left(second) == 1)
        second.wait_until(lambda status: any(plan in each["text"] for each in status["attention"]))
        assert states(second)[plan] == "interrupted"
        considered(second)
        fail_over(first)
        cluster.wait_until(lambda: left(first) < 2)
        for _ in range(2):
            considered(first)
        moves = [job.summary for job in jobs(after=last) if any(name in job.summary for name in NAMES)]
        assert len(moves) == len(set(moves)), moves
        assert len(moves) <= 3 - left(first)
