"""Nodes powered down by a daemon that is killed on the way."""

import signal
from itertools import count
from pathlib import Path

import pytest

from ganeti_htools.backends import text
from tests.daemon.planning import (
    AT_ONCE,
    FOR_EVER,
    OFTEN,
    SPACIOUS,
    following,
    known,
    last,
    made,
    submitted,
    tool,
)
from tests.daemon.planning import call as asked
from tests.support.interposed import Interposed, Moment
from tests.support.programs import running, wait_until
from tests.support.rows import generated
from tests.support.simulators import Simulator, simulator

pytestmark = pytest.mark.usefixtures("heeding")


def test_a_daemon_that_was_killed(tmp_path: Path) -> None:
    """While its jobs go on nothing else is begun; then another run finishes what was left."""
    with following(tmp_path, generated(4, SPACIOUS), FOR_EVER) as (daemon, ganeti):
        plan = made(daemon, "hsqueeze")
        asked(daemon, "execute", plan=plan["id"])
        submitted(daemon, len(plan["execution"]["not_submitted"][0]))
        daemon.signal(signal.SIGKILL)
        daemon.wait()
        with running(tmp_path / "daemon", config=OFTEN) as again:
            known(again)
            wait_until(lambda: last(again)["jobs"]["going"])
            refused = tool("hsqueeze", f"-D{again.socket}", "-X")
            assert refused.returncode == 1
            assert f"jobs of plan {plan['id']}, which was left, go on in node group group1" in refused.stderr
            ganeti.finish()
            wait_until(lambda: {state for _, state in ganeti.tell("jobs")} == {"success"})
            wait_until(lambda: not any(each["jobs"]["going"] for each in asked(again, "plans")))
            done = tool("hsqueeze", f"-D{again.socket}", "-X")
            assert (done.returncode, "not finished by an earlier run" in done.stderr) == (0, True)
        tags = {row.tags for row in text.parse(ganeti.cluster(), "").nodes if row.offline}
        assert tags == {("htools:standby:auto",)}


def cut_off(directory: Path, ganeti: Simulator, moment: Moment) -> bool:
    """Whether a daemon still has something to do; it is killed at that moment."""
    with (
        Interposed(directory / "interposed", ganeti.socket, moment) as luxi,
        running(directory, config=OFTEN, options=("--luxi", str(luxi.path))) as daemon,
    ):
        known(daemon)
        wait_until(lambda: not any(each["jobs"]["going"] for each in asked(daemon, "plans")))
        plan = made(daemon, "hsqueeze")
        if plan["execution"]["not_submitted"]:
            asked(daemon, "execute", plan=plan["id"])
            wait_until(luxi.reached.is_set)
        return luxi.reached.is_set()


@pytest.mark.slow
@pytest.mark.parametrize("moment", Moment)
def test_each_daemon_comes_a_step_farther(tmp_path: Path, moment: Moment) -> None:
    """And none does what another has done."""
    directory = tmp_path / "daemon"
    directory.mkdir()
    with simulator(directory, generated(4, SPACIOUS), AT_ONCE) as ganeti:
        for times in count():
            if not cut_off(directory, ganeti, moment):
                break
            assert times < 12
        assert times >= 6  # drained, emptied, tagged, offline, off, and no longer marked
        jobs = ganeti.ask("QueryJobs", [], ["ops"])
        work = [[{**opcode, "comment": "", "reason": []} for opcode in opcodes] for (opcodes,) in jobs]
        assert not [each for place, each in enumerate(work) if each in work[:place]]
        nodes = text.parse(ganeti.cluster(), "").nodes
        assert {row.tags for row in nodes if row.offline} == {("htools:standby:auto",)}
