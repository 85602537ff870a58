"""The master's role changes hands in the middle of work: each node has a state directory of its own."""

import shutil

import pytest

from ganeti_htools.client.calls import ask
from tests.integration import cluster
from tests.integration.cluster import TOP, jobs, run
from tests.integration.daemon import Daemon
from tests.integration.test_policies import NAMES, considered, decides, drift, settings, states
from tests.support.programs import PATIENCE

__all__ = ["drift"]  # a fixture

pytestmark = pytest.mark.integration

LIMITS = "max_moves = 2\nmoves_per_day = 3\n"


def left(daemon: Daemon) -> int:
    """The moves that the policy may still make today."""
    policies = {each["name"]: each for each in ask(daemon.socket, "policies", {}, patience=PATIENCE)}  # type: ignore[attr-defined]
    return int(policies["rebalance"]["left"]["moves"])


def carry_on(daemon: Daemon) -> None:
    """Have the policy consider the cluster, and wait for the end of its plan if it begins one."""
    plan = considered(daemon)["plan"]
    if plan is not None:
        cluster.wait_until(lambda: states(daemon)[plan] not in ("running", "stopping"))


def fail_over(new: Daemon) -> None:
    run(["gnt-cluster", "master-failover"], node=new.node)
    new.wait_until_it_leads()
    new.refresh()


@pytest.mark.usefixtures("drift")
def test_policy_s_budget_holds_over_failovers_in_the_middle_of_its_plan() -> None:
    last, wish = jobs()[-1].number, settings("act") + LIMITS
    hook, go = TOP / "node1/etc/ganeti/hooks/instance-migrate-pre.d/waits", TOP / "go"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\nuntil [ -e {go} ]; do sleep 0.1; done\n")
    hook.chmod(0o755)
    with Daemon(wish) as first, Daemon(wish, node="node2") as second:
        first.wait_until_it_leads()
        first.refresh()
        plan = decides(first, "begun")["plan"]
        cluster.wait_until(lambda: [job for job in jobs(after=last) if job.status == "running"])
        fail_over(second)
        go.touch()
        shutil.rmtree(hook.parent)
        cluster.wait_until(lambda: left(second) == 1)
        second.wait_until(lambda status: any(plan in each["text"] for each in status["attention"]))
        assert states(second)[plan] == "interrupted"
        carry_on(second)
        fail_over(first)
        cluster.wait_until(lambda: left(first) < 2)
        for _ in range(2):
            carry_on(first)
        moves = [job.summary for job in jobs(after=last) if any(name in job.summary for name in NAMES)]
        assert len(moves) == len(set(moves)), moves
        assert len(moves) <= 3 - left(first)
