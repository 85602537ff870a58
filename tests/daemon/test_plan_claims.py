"""Claims of plans survive the daemon exactly as long as the plans' jobs."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.planning import DRAINED, FOR_EVER, OFTEN, call, ctl, following, known, made, submitted
from tests.support.programs import Daemon, running, wait_until
from tests.support.rows import generated

pytestmark = pytest.mark.usefixtures("heeding")


def claimed(daemon: Daemon) -> list[Any]:
    """Return the claims of plans."""
    consumers = json.loads(ctl(daemon, "allocations", "--json").stdout)
    return [each for each in consumers if each["kind"] == "plan"]


def test_claim_of_a_plan_survives_a_daemon_kill(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED), FOR_EVER) as (daemon, ganeti):
        plan = made(daemon, max_length=3)["id"]
        call(daemon, "execute", plan=plan)
        submitted(daemon)
        before = claimed(daemon)
        assert [each["name"] for each in before] == [f"cluster/plan/{plan}"]
        assert before[0]["allocations"]
        daemon.signal(signal.SIGKILL)
        daemon.wait()
        with running(tmp_path / "daemon", config=OFTEN) as again:
            known(again)
            wait_until(lambda: again.status()["ledger"]["behind_s"] is not None)
            assert claimed(again) == before
            ganeti.finish()
            wait_until(lambda: not claimed(again))


def test_plan_claims_nothing_when_claims_are_off(tmp_path: Path) -> None:
    config = f'{OFTEN}claims = "never"\n'
    with following(tmp_path, generated(3, DRAINED), FOR_EVER, config) as (daemon, _):
        call(daemon, "execute", plan=made(daemon, max_length=3)["id"])
        submitted(daemon)
        assert claimed(daemon) == []
