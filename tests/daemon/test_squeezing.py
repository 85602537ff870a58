"""Nodes powered down by a daemon that is killed on the way."""

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.tags import SQUEEZING
from tests.daemon.planning import (
    AT_ONCE,
    FOR_EVER,
    OFTEN,
    SPACIOUS,
    begun,
    ctl,
    following,
    known,
    last,
    made,
    restarted,
    settled,
    submitted,
    tool,
)
from tests.daemon.planning import call as asked
from tests.support.clusters import Shape
from tests.support.interposed import Interposed, Moment
from tests.support.phases import in_phases
from tests.support.programs import running, wait_until
from tests.support.rows import generated
from tests.support.simulators import Simulator, simulator

pytestmark = pytest.mark.usefixtures("heeding")


def test_a_daemon_that_was_killed(tmp_path: Path) -> None:
    """While its jobs go on nothing else is begun; then another run finishes what was left."""
    with following(tmp_path, generated(4, SPACIOUS), FOR_EVER) as (daemon, ganeti):
        plan = begun(daemon, "hsqueeze")
        with restarted(daemon) as again:
            wait_until(lambda: last(again)["jobs"]["going"])
            refused = tool("hsqueeze", f"-D{again.socket}", "-X")
            assert refused.returncode == 1
            assert (
                f"jobs of interrupted plan {plan['id']} are still running in node group group1"
                in refused.stderr
            )
            ganeti.finish()
            wait_until(lambda: {state for _, state in ganeti.tell("jobs")} == {"success"})
            wait_until(lambda: not any(each["jobs"]["going"] for each in asked(again, "plans")))
            done = tool("hsqueeze", f"-D{again.socket}", "-X")
            assert (done.returncode, "not finished by an earlier run" in done.stderr) == (0, True)
        tags = {row.tags for row in ganeti.rows().nodes if row.offline}
        assert tags == {("htools:standby:auto",)}


def test_plan_that_is_stopped_at_once_says_what_it_leaves(tmp_path: Path) -> None:
    with following(tmp_path, generated(4, SPACIOUS), FOR_EVER) as (daemon, ganeti):
        plan = made(daemon, "hsqueeze")
        drains = [job["title"] for job in plan["execution"]["not_submitted"][0]]
        asked(daemon, "execute", plan=plan["id"])
        submitted(daemon, len(drains))
        lines = ctl(daemon, "cancel", "--now", plan["id"]).stdout.splitlines()
        assert lines[1:-1] == [
            f"  node {drain.split()[1]}: job {job} ({drain}) goes on" for job, drain in enumerate(drains, 1)
        ]
        assert lines[-1].endswith(
            "hsqueeze -D -X finishes that: it goes on with these nodes, or uses them again"
        )
        ganeti.finish()
        wait_until(lambda: "an hsqueeze works there, or was interrupted" in ctl(daemon, "status").stdout)
        assert tool("hsqueeze", f"-D{daemon.socket}", "-X").returncode == 0
        assert not any(SQUEEZING in node.tags for node in ganeti.rows().nodes)


def cut_off(directory: Path, ganeti: Simulator, moment: Moment, wish: Mapping[str, Any]) -> bool:
    """Whether a daemon still has something to do; it is killed at that moment."""
    with (
        Interposed(directory / "interposed", ganeti.socket, moment) as luxi,
        running(directory, config=OFTEN, options=("--luxi", str(luxi.path))) as daemon,
    ):
        known(daemon)
        wait_until(lambda: settled(daemon))
        plan = made(daemon, "hsqueeze", **wish)
        if plan["execution"]["not_submitted"]:
            asked(daemon, "execute", plan=plan["id"])
            wait_until(luxi.reached.is_set)
        return luxi.reached.is_set()


def finished(ganeti: Simulator) -> set[str]:
    """The nodes that are powered down, whole, as no others are; no job has done what another had."""
    jobs = ganeti.ask("QueryJobs", [], ["ops"])
    work = [[{**opcode, "comment": "", "reason": []} for opcode in opcodes] for (opcodes,) in jobs]
    assert not [each for place, each in enumerate(work) if each in work[:place]]
    nodes = ganeti.rows().nodes
    assert {row.tags for row in nodes if row.offline} == {("htools:standby:auto",)}
    assert {row.tags for row in nodes if not row.offline} == {()}
    return {row.name for row in nodes if row.offline}


IN_PHASES = {"allow_drbd": True, "minimal_resources": 0.25, "target_resources": 0.25}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "cluster", "wish", "steps"),
    [
        pytest.param(Moment.ENDED, generated(4, SPACIOUS), {}, 6, marks=pytest.mark.long),
        (Moment.UNANSWERED, generated(4, SPACIOUS), {}, 6),
        pytest.param(Moment.UNANSWERED, in_phases(), IN_PHASES, 14, marks=pytest.mark.long),
    ],
)
def test_each_daemon_continues_the_last_one_s_plan(
    tmp_path: Path, moment: Moment, cluster: Cluster, wish: Mapping[str, Any], steps: int
) -> None:
    """And none does what another has done: drained, emptied, tagged, offline, off, and no longer marked."""
    directory = tmp_path / "daemon"
    directory.mkdir()
    with simulator(directory, cluster, AT_ONCE) as ganeti:
        for times in count():
            if not cut_off(directory, ganeti, moment, wish):
                break
            assert times < 2 * steps
        assert times >= steps
        assert finished(ganeti)


SMALL = Shape(nodes=3, instances=3, templates={"ext": 1}, fill=0.05, down=0)
POLICY = f"""{OFTEN}[squeeze]
mode = "act"
hold = 1
max_nodes = 9
allow_drbd = true
minimal_resources = 0.25
target_resources = 0.25
cool_down_seconds = 0.001
"""


def cut_off_policy(directory: Path, ganeti: Simulator) -> bool:
    """Whether the policy of a daemon still has something to do; that is killed when it has submitted it."""
    with (
        Interposed(directory / "interposed", ganeti.socket, Moment.UNANSWERED) as luxi,
        running(directory, config=POLICY, options=("--luxi", str(luxi.path))) as daemon,
    ):
        known(daemon)
        wait_until(lambda: settled(daemon))
        left = any(SQUEEZING in row.tags for row in ganeti.rows().nodes)

        def decided() -> list[str]:
            return [each["outcome"] for each in asked(daemon, "history") if each["kind"] == "policy"]

        before = len(decided())
        assert ctl(daemon, "run", "squeeze").returncode == 0
        wait_until(lambda: "begun" in decided()[before:] or len(decided()) >= before + 2 + left)
        if "begun" in decided()[before:]:
            wait_until(luxi.reached.is_set)
        return luxi.reached.is_set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cluster", "steps", "nodes"),
    [
        (generated(4, SMALL), 5, 1),
        pytest.param(in_phases(), 10, 3, marks=pytest.mark.long),
    ],
)
def test_policy_of_each_daemon_continues_the_last_one_s_work(
    tmp_path: Path, cluster: Cluster, steps: int, nodes: int
) -> None:
    """Nodes that one daemon leaves drained are powered down by the next, not put back in use."""
    directory = tmp_path / "daemon"
    directory.mkdir()
    with simulator(directory, cluster, AT_ONCE) as ganeti:
        for times in count():
            if not cut_off_policy(directory, ganeti):
                break
            assert times < 30
        assert times >= steps
        assert len(finished(ganeti)) >= nodes
