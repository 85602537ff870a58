"""Nodes powered down by a daemon that is killed on the way."""

import signal
from pathlib import Path

import pytest

from ganeti_htools.backends import text
from tests.daemon.planning import FOR_EVER, OFTEN, SPACIOUS, following, known, last, made, submitted, tool
from tests.daemon.planning import call as asked
from tests.support.programs import running, wait_until
from tests.support.rows import generated

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
            assert (done.returncode, "an earlier run was cut off" in done.stderr) == (0, True)
        tags = {row.tags for row in text.parse(ganeti.cluster(), "").nodes if row.offline}
        assert tags == {("htools:standby:auto",)}
