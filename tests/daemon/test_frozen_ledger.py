"""A PostgreSQL server that is frozen: nobody waits for it without limit."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.daemon.planning import FOR_EVER, OFTEN, SPACIOUS, begun, call, ctl, following, until
from tests.support.postgresql import Server
from tests.support.programs import Daemon, wait_until
from tests.support.rows import generated
from tests.support.simulators import Simulator

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("heeding")]


def powering_down(daemon: Daemon) -> str:
    """Begin to power nodes down, and return the plan once its nodes are drained or about to be."""
    wait_until(lambda: daemon.status()["ledger"]["lag_s"] is not None)
    return str(begun(daemon, "hsqueeze")["id"])


def drained(ganeti: Simulator) -> list[str]:
    return [row.name for row in ganeti.rows().nodes if row.drained and not row.offline]


def configuration(postgresql: Server) -> str:
    return f'{OFTEN}ledger = "{postgresql.database()}"\n'


def test_plan_goes_on_without_a_frozen_ledger(tmp_path: Path, postgresql: Server) -> None:
    config = configuration(postgresql)
    with following(tmp_path, generated(4, SPACIOUS), FOR_EVER, config) as (daemon, ganeti):
        powering_down(daemon)
        with postgresql.frozen():
            ganeti.finish()
            until(daemon, "done")
            refused = ctl(daemon, "usage")
            assert (refused.returncode, refused.stderr[:30]) == (1, "htoolsctl: refused (no-ledger)")
            assert len(daemon.told("ledger unavailable")) == 1
        wait_until(lambda: not daemon.status()["ledger"]["error"])
        wait_until(lambda: json.loads(ctl(daemon, "status", "--json").stdout)["ledger"]["lag_s"] == 0)


@pytest.mark.long
def test_plan_goes_on_when_a_stopped_process_holds_locks(tmp_path: Path, postgresql: Server) -> None:
    database = postgresql.database()
    config = f'{OFTEN}ledger = "{database}"\n'
    with following(tmp_path, generated(4, SPACIOUS), FOR_EVER, config) as (daemon, ganeti):
        powering_down(daemon)
        with postgresql.locked(database, "SELECT * FROM resource_providers FOR UPDATE"):
            ganeti.finish()
            until(daemon, "done")
            assert daemon.told("ledger unavailable")
        wait_until(lambda: not daemon.status()["ledger"]["error"])


def cancel(daemon: Daemon, plan: str) -> None:
    call(daemon, "cancel", plan=plan)


def terminate(daemon: Daemon, _plan: str) -> None:
    daemon.signal(signal.SIGTERM)


@pytest.mark.parametrize("stop", [pytest.param(cancel, marks=pytest.mark.long), terminate])
def test_stopped_plan_undrains_its_nodes_while_the_ledger_is_frozen(
    tmp_path: Path, postgresql: Server, stop: Callable[[Daemon, str], None]
) -> None:
    config = configuration(postgresql)
    with following(tmp_path, generated(4, SPACIOUS), FOR_EVER, config) as (daemon, ganeti):
        plan = powering_down(daemon)
        with postgresql.frozen():
            stop(daemon, plan)
            ganeti.finish()
            if stop is terminate:
                assert daemon.wait() == 0
            else:
                until(daemon, "stopped")
            assert drained(ganeti) == []
