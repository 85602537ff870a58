"""The master's role changes hands in the middle of work: each node has a state directory of its own."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.integration import cluster
from tests.integration.cluster import TOP, Command, jobs, nodes_of, run, start, table
from tests.integration.daemon import Daemon
from tests.integration.test_policies import NAMES, considered, decides, drift, settings, states
from tests.support.programs import PROGRAMS

__all__ = ["drift"]  # a fixture

pytestmark = pytest.mark.integration

LIMITS = "max_moves = 2\nmoves_per_day = 3\n"


def left(daemon: Daemon) -> int:
    """The moves that the policy may still make today."""
    policies = {each["name"]: each for each in daemon.ask("policies")}
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


@contextmanager
def stopped_migration(node: str) -> Iterator[None]:
    """Migrations that a master begins within the block stay under way until its end."""
    hook, go = TOP / node / "etc/ganeti/hooks/instance-migrate-pre.d/waits", TOP.parent / f"{node}-go"
    go.unlink(missing_ok=True)
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\nuntil [ -e {go} ]; do sleep 0.1; done\n")
    hook.chmod(0o755)
    yield
    go.touch()
    shutil.rmtree(hook.parent)


@pytest.mark.slow
@pytest.mark.usefixtures("drift")
def test_policy_s_budget_holds_over_failovers_in_the_middle_of_its_plan() -> None:
    last, wish = jobs()[-1].number, settings("act") + LIMITS
    with Daemon(wish) as first, Daemon(wish, node="node2") as second:
        first.wait_until_it_leads()
        first.refresh()
        with stopped_migration("node1"):
            plan = decides(first, "begun")["plan"]
            cluster.wait_until(lambda: [job for job in jobs(after=last) if job.status == "running"])
            fail_over(second)
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


def migrated(node: str, after: int) -> list[str]:
    """What jobs with a higher number have migrated, as the master on a node knows."""
    return [job.summary for job in jobs(after, node) if job.status == "success" and "MIGRATE" in job.summary]


def interrupt(old: Daemon, command: Command, new: Daemon) -> None:
    """Let the role change hands in the middle of a plan's first move; the next daemon reports the plan."""
    last = jobs(node=old.node)[-1].number
    with stopped_migration(old.node):
        tool = start(command, old.node)
        cluster.wait_until(
            lambda: any("MIGRATE" in job.summary and job.status == "running" for job in jobs(last, old.node))
        )
        (plan,) = [name for name, state in states(old).items() if state == "running"]
        fail_over(new)
        new.wait_until(lambda _status: states(new).get(plan) == "interrupted")
    tool.kill()
    tool.communicate()
    (shown,) = run([PROGRAMS / "htoolsctl", "status"], node=new.node)
    assert plan in shown
    assert "not known here" in shown
    cluster.wait_until(lambda: not new.going())


@pytest.mark.slow
@pytest.mark.usefixtures("drift")
def test_tools_end_what_was_begun_under_another_master() -> None:
    """A plan by hand, and on the way back one that powers a node down: nothing is done twice."""
    balance = (PROGRAMS / "hbal", "-D", "-G", "other", "-X")
    few = "--never=node1,node2,node3,node4", "--minimal-resources=0", "--target-resources=0"
    squeeze = (PROGRAMS / "hsqueeze", "-D", *few, "-X")
    run(["gnt-node", "modify", "--drained=yes", "node5"])
    run([PROGRAMS / "hbal", "-L", "-G", "other", "-X"])
    run(
        ["gnt-node", "modify", "--drained=no", "node5"],
        ["gnt-node", "add-tags", "node5", "htools:standby:now"],
    )
    with Daemon() as first, Daemon(node="node2") as second:
        for old, new, command in (first, second, balance), (second, first, squeeze):
            old.wait_until_it_leads()
            old.refresh()
            last = jobs(node=old.node)[-1].number
            interrupt(old, command, new)
            new.refresh()
            run(command, node=new.node)
            moves = migrated(new.node, last)
            assert moves
            assert len(moves) == len(set(moves)), moves
    assert {node for name in NAMES for node in nodes_of(name)} == {"node4"}
    assert table("gnt-node", "offline,drained,tags", "node5") == [["Y", "N", "htools:standby:now"]]
    run(["gnt-node", "modify", "--force", "--offline=no", "node5"])
    run(["gnt-node", "remove-tags", "node5", "htools:standby:now"])


@contextmanager
def failing_migration(node: str) -> Iterator[None]:
    """Migrations that a master begins within the block fail."""
    hook = TOP / node / "etc/ganeti/hooks/instance-migrate-pre.d/fails"
    hook.parent.mkdir(parents=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    yield
    shutil.rmtree(hook.parent)


@pytest.mark.usefixtures("drift")
def test_failed_and_resumed_plans_after_a_failover() -> None:
    """A failed plan is failed and shows its jobs; one that was resumed and done does not return."""
    balance = PROGRAMS / "hbal", "-D", "-G", "other", "-X"
    with Daemon(node="node2") as second:
        with Daemon() as first:
            first.wait_until_it_leads()
            first.refresh()
            before = {*states(first), *states(second)}  # of other tests
            with failing_migration("node1"):
                tool = start(balance, "node1")
                tool.communicate()
            (failed,) = states(first).keys() - before
            assert states(first)[failed] == "failed"
            last = jobs()[-1].number
            with stopped_migration("node1"):
                tool = start(balance, "node1")
                cluster.wait_until(lambda: [job for job in jobs(after=last) if job.status == "running"])
                first.kill()
            tool.kill()
            tool.communicate()
        with Daemon() as first:
            first.wait_until_it_leads()
            first.refresh()
            (resumed,) = states(first).keys() - before - {failed}
            assert states(first)[resumed] == "interrupted"
            cluster.wait_until(lambda: not first.going())
            run([PROGRAMS / "htoolsctl", "resume", resumed], node="node1")
            fail_over(second)
            cluster.wait_until(lambda: failed in states(second))
            assert states(second)[failed] == "failed"
            assert resumed not in states(second)
            plans = [each for each in second.status()["attention"] if each["kind"] == "plan"]
            assert all(before.issuperset(each["names"]) for each in plans)
            shown = start((PROGRAMS / "htoolsctl", "plan", failed), "node2").communicate()[0]
            assert "migrate" in shown.lower()
            assert "error" in shown
            fail_over(first)
