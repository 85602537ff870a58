"""The daemon of the next master: another state directory on the same Ganeti."""

from pathlib import Path

import psycopg

from tests.daemon.planning import FOR_EVER, call, ctl, following, known, submitted, whole
from tests.daemon.test_policies import config, considered, policy
from tests.support.postgresql import Server
from tests.support.programs import Daemon, running, wait_until
from tests.support.simulators import Simulator
from tests.support.worlds import uneven

LIMITS = "max_moves = 3\nmoves_per_day = 4\nfailures = 1\n"


def end(daemon: Daemon) -> None:
    daemon.kill()


def next_master(tmp_path: Path) -> Path:
    """Return a directory with the same Ganeti and no state."""
    directory = tmp_path / "next"
    directory.mkdir()
    (directory / "luxi").symlink_to(tmp_path / "daemon" / "luxi")
    return directory


def interrupted(daemon: Daemon) -> str:
    """Return the text of the attention to an interrupted plan."""
    return "".join(each["text"] for each in daemon.status()["attention"] if each["kind"] == "plan")


def record(url: str, run: str) -> str | None:
    """Return the record of a plan in the ledger; None if it was removed there."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT content FROM documents WHERE name = %s", [run]).fetchone()
    return "" if row is None else row[0]


def begun(daemon: Daemon, ganeti: Simulator) -> str:
    """Have the policy begin a plan of three jobs; return its id once the first is under way."""
    wait_until(lambda: daemon.status()["ledger"]["lag_s"] is not None)  # creating the ledger takes long
    decision = considered(daemon)
    assert (decision["outcome"], len(decision["moves"])) == ("begun", 3)
    submitted(daemon, 1)
    return str(decision["plan"])


def test_without_shared_ledger_jobs_tell_the_budget_and_the_plan(tmp_path: Path) -> None:
    wish = config("act", LIMITS)
    with following(tmp_path, uneven(), FOR_EVER, wish) as (daemon, ganeti):
        run = begun(daemon, ganeti)
        end(daemon)
        with running(next_master(tmp_path), config=wish) as other:
            known(other)
            wait_until(lambda: policy(other)["left"]["moves"] == 1)
            assert interrupted(other) == (
                f"plan {run} of hbal was interrupted: begun by another daemon; "
                "2 jobs that it had left are not known here"
            )
            ganeti.finish()
            wait_until(lambda: whole(other)["execution"]["jobs"][0]["status"] == "success")


def test_with_shared_ledger_the_whole_state_is_there(tmp_path: Path, postgresql: Server) -> None:
    url = postgresql.database()
    wish = f'ledger = "{url}"\n' + config("act", LIMITS)
    with following(tmp_path, uneven(), FOR_EVER, wish) as (daemon, ganeti):
        run = begun(daemon, ganeti)
        wait_until(lambda: '"id": 1' in (record(url, run) or ""))  # the first job has its number
        end(daemon)
        with running(next_master(tmp_path), config=wish) as other:
            known(other)
            wait_until(lambda: policy(other)["left"]["moves"] == 1)
            wait_until(lambda: interrupted(other) == f"plan {run} of hbal was interrupted")
            assert len(whole(other)["execution"]["not_submitted"]) == 2
            ganeti.finish()
            wait_until(lambda: whole(other)["execution"]["jobs"][0]["status"] == "success")
            assert ctl(other, "forget", run).returncode == 0
            wait_until(lambda: record(url, run) is None)
            end(other)
        # The first node is the master again: what the other one removed is gone there as well.
        with running(tmp_path / "daemon", config=wish) as again:
            known(again)
            wait_until(lambda: call(again, "plans") == [])
            assert policy(again)["left"]["moves"] == 1
