"""What is known of plans, and claimed by them, after the daemon, or its disk, has failed."""

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.client.calls import CallRefusedError
from htoolsd.plans.plans import MAX_PLANS
from tests.daemon.planning import (
    DRAINED,
    FOR_EVER,
    OFTEN,
    SPACIOUS,
    begun,
    call,
    ctl,
    following,
    hbal,
    last,
    made,
    recorded,
    restarted,
    result,
    settled,
    started,
    submitted,
    until,
    whole,
)
from tests.support.lines import next_line
from tests.support.programs import PROGRAMS, Daemon, executable, running, wait_until
from tests.support.rows import generated

pytestmark = pytest.mark.usefixtures("heeding")


def statuses(plan: Any) -> list[str | None]:
    return [job["status"] for job in plan["execution"]["jobs"]]


def test_a_daemon_that_was_killed(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED), FOR_EVER) as (daemon, ganeti):
        plan = begun(daemon, max_length=3)["id"]
        with restarted(daemon) as again:
            assert last(again)["state"] == "interrupted"
            ganeti.finish()
            wait_until(lambda: statuses(whole(again)) == ["success"])
            wait_until(lambda: recorded(again, whole(again)) == whole(again))
            told = whole(again)
            assert told["id"] == plan
            assert len(told["execution"]["not_submitted"]) == 2
            assert (told["execution"]["ending"], told["execution"]["going_on"]) == ("interrupted", None)
            assert ctl(again, "plan", plan).returncode == 2
            assert len(ganeti.tell("jobs")) == 1
            with pytest.raises(CallRefusedError, match=f"plan {plan} is already interrupted"):
                call(again, "execute", plan=plan)


def test_interrupted_plan_is_resumed(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED), FOR_EVER) as (daemon, ganeti):
        plan = begun(daemon)
        with restarted(daemon) as again:
            wait_until(lambda: last(again)["jobs"]["going"] == 1)
            with pytest.raises(CallRefusedError, match="has jobs that are still running"):
                call(again, "resume", plan=plan["id"])
            next_command = f"next: htoolsctl resume {plan['id']}"
            with started(PROGRAMS / "htoolsctl", "--socket", again.socket, "resume", plan["id"]) as process:

                def ended() -> bool:
                    ganeti.finish()
                    return process.poll() is not None

                assert process.stdout is not None
                assert process.stdout.readline().startswith("waiting for the end of job ")
                ganeti.finish()
                wait_until(lambda: settled(again) or process.poll() is not None)
                wait_until(ended)
                status, out, err = result(process)
            assert (status, err) == (0, "")
            assert f"\nIt continues plan {plan['id']}\n" in out
            new = whole(again)
            assert (new["state"], new["continues"]) == ("done", plan["id"])
            old = call(again, "follow", plan=plan["id"])
            done = [job["title"] for each in (old, new) for job in each["execution"]["jobs"]]
            assert len({*done}) == len(done) == len(ganeti.tell("jobs"))
            assert {state for _, state in ganeti.tell("jobs")} == {"success"}
            assert next_command not in ctl(again, "status", "--wide").stdout
            assert f"which continues plan {plan['id']}, in " in ctl(again, "history").stdout
            assert "was continued by plan" in ctl(again, "resume", plan["id"]).stderr


def test_daemon_decides_until_its_plans_have_stopped(tmp_path: Path, request_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED), FOR_EVER) as (daemon, ganeti):
        begun(daemon, max_length=3)
        daemon.signal()
        until(daemon, "stopping")
        assert executable(daemon.socket, request_path, fallback="/bin/false").stderr == ""
        ganeti.finish()
        assert daemon.wait() == 0


def test_infinite_score_is_null_in_json(tmp_path: Path) -> None:
    rows = generated(4, SPACIOUS)
    without_cpus = replace(rows, nodes=(replace(rows.nodes[0], t_cpu=0.0), *rows.nodes[1:]))
    with following(tmp_path, without_cpus) as (daemon, _):
        plan = made(daemon)["id"]
        assert last(daemon)["score"]["after"] is None
        assert ctl(daemon, "plans", "--json").returncode == 0
        with restarted(daemon) as again:
            assert (last(again)["id"], last(again)["state"]) == (plan, "planned")
            assert "=> unknown" in ctl(again, "plans").stdout.splitlines()[-1]
            assert "=> unknown" in ctl(again, "plan", plan).stdout


@pytest.mark.parametrize("name", ["hbal", "hsqueeze"])
def test_keeps_the_newest_unexecuted_plans(tmp_path: Path, name: str) -> None:
    shape = DRAINED if name == "hbal" else SPACIOUS
    with following(tmp_path, generated(4, shape)) as (daemon, ganeti):
        plan = made(daemon, name, on_change="stop")
        assert plan["execution"]["not_submitted"]
        with restarted(daemon) as again:
            told = {key: value for key, value in plan.items() if key not in ("found", "measured")}
            assert whole(again) == told
            assert ctl(again, "execute", plan["id"]).returncode == 0
            done = until(again, "done")
            assert [job["title"] for job in done["execution"]["jobs"]] == [
                job["title"] for jobs in plan["execution"]["not_submitted"] for job in jobs
            ]
            assert done["id"] == plan["id"]
            assert {state for _, state in ganeti.tell("jobs")} == {"success"}


def test_refuses_an_earlier_plan_that_would_be_different(tmp_path: Path) -> None:
    """Also if it is the file that has changed."""
    with following(tmp_path, generated(3, DRAINED)) as (daemon, ganeti):
        plans = [made(daemon, max_length=2) for _ in range(2)]
        daemon.stop()
        record = recorded(daemon, plans[0])
        record["execution"]["not_submitted"][0][0]["to"] = ["elsewhere"]
        (daemon.state / "plans" / f"{plans[0]['id']}.json").write_text(json.dumps(record))
        with restarted(daemon) as again:
            refused = "was made by an earlier htoolsd and would be different for the present cluster"
            with pytest.raises(CallRefusedError, match=f"^plan {plans[0]['id']} {refused}"):
                call(again, "execute", plan=plans[0]["id"])
            assert not ganeti.tell("jobs")
            call(again, "execute", plan=plans[1]["id"])
            until(again, "done")
            with pytest.raises(CallRefusedError, match="would be different"):
                call(again, "execute", plan=plans[0]["id"])


def test_refuses_a_plan_with_options_of_an_old_form(tmp_path: Path) -> None:
    """As the first htoolsd did: it is told of, but cannot be made again."""
    with following(tmp_path, generated(3, DRAINED)) as (daemon, ganeti):
        plan = made(daemon, max_length=2)["id"]
        daemon.stop()
        record = recorded(daemon, {"id": plan})
        del record["options"]
        (daemon.state / "plans" / f"{plan}.json").write_text(json.dumps({**record, "arguments": ["-l", "2"]}))
        with restarted(daemon) as again:
            assert last(again)["state"] == "planned"
            assert "\nArguments: -l 2\n" in ctl(again, "plan", plan).stdout
            with pytest.raises(
                CallRefusedError, match=f"plan {plan} was made by an earlier htoolsd in a form"
            ):
                call(again, "execute", plan=plan)
            assert not ganeti.tell("jobs")


def test_reports_jobs_of_a_daemon_killed_while_it_submitted(tmp_path: Path) -> None:
    """On disk is that these jobs may have been submitted."""
    with following(tmp_path, generated(3, DRAINED), FOR_EVER) as (daemon, ganeti):
        plan = begun(daemon, max_length=3)
        daemon.kill()
        record = recorded(daemon, plan)
        record["execution"]["jobs"][0] |= {"id": None, "status": None}
        (daemon.state / "plans" / f"{plan['id']}.json").write_text(json.dumps(record))
        with running(tmp_path / "daemon", config=OFTEN) as again:
            wait_until(lambda: last(again)["jobs"]["going"] == 1 and statuses(whole(again)) == ["running"])
            assert whole(again)["execution"]["going_on"] == "jobs 1"
            assert len(ganeti.tell("jobs")) == 1


def test_follower_reconnects_to_the_next_daemon(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED), FOR_EVER) as (daemon, _), hbal(daemon, "-l3") as process:
        submitted(daemon)
        daemon.kill()
        with running(tmp_path / "daemon", config=OFTEN):
            status, _, err = result(process)
        assert (status, err) == (2, "The plan was left; these go on in Ganeti: jobs 1\n")


def test_executables_do_not_queue_for_a_stuck_daemon(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED), FOR_EVER) as (daemon, _), hbal(daemon, "-l3") as process:
        submitted(daemon)
        daemon.signal(signal.SIGSTOP)
        assert process.stderr is not None
        for said in ("Interrupted: ", "Interrupted again: "):
            process.send_signal(signal.SIGINT)
            assert next_line(process.stderr).startswith(said)
        process.send_signal(signal.SIGINT)
        status, _, err = result(process)
        assert (status, err.splitlines()[-1].partition(";")[0]) == (1, "Error: not waiting any more")


def test_stop_waits_for_the_jobset(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED), FOR_EVER) as (daemon, ganeti):
        plan = begun(daemon, max_length=3)
        daemon.signal(signal.SIGTERM)
        wait_until(lambda: "stopping" in daemon.log.read_text())
        ganeti.finish()
        assert daemon.wait() == 0
        record = recorded(daemon, plan)
        assert (record["state"], statuses(record)) == ("stopped", ["success"])
        assert len(ganeti.tell("jobs")) == 1


def test_stop_does_not_wait_longer_than_its_limit(tmp_path: Path) -> None:
    config = OFTEN + "stop_seconds = 0.2\n"
    with following(tmp_path, generated(3, DRAINED), FOR_EVER, config) as (daemon, _):
        plan = begun(daemon, max_length=3)
        assert daemon.stop() == 0
        record = recorded(daemon, plan)
        assert (record["state"], record["execution"]["going_on"]) == ("interrupted", "jobs 1")


def test_skips_files_that_are_not_records(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED)) as (daemon, _):
        plan = made(daemon, max_length=1)
        call(daemon, "execute", plan=plan["id"])
        record = until(daemon, "done")
        daemon.stop()
        directory = daemon.state / "plans"
        for number, content in enumerate(
            (b"", b"{", b"[]", b"\xff", *(json.dumps(record | {key: None}).encode() for key in record))
        ):
            (directory / f"spoilt{number}.json").write_bytes(content)
        (directory / "a.json").mkdir()
        (directory / "b.json").symlink_to("nowhere")
        (directory / f"{plan['id']}.json.0123.tmp").write_text("{")
        with running(tmp_path / "daemon", config=OFTEN) as again:
            assert last(again)["id"] == plan["id"]
            assert ctl(again, "plans").returncode == 0
            assert not list(directory.glob("*.tmp"))
            unread = [event["path"] for event in again.events() if event["event"] == "plan cannot be read"]
            assert {f"{directory}/a.json", f"{directory}/b.json", f"{directory}/spoilt0.json"} <= {*unread}


def spoil(directory: Path) -> None:
    """Let nothing be written there any more, whatever is being written just now."""
    directory.rename(directory.with_name("spoilt"))
    directory.write_text("no directory")


def test_does_not_execute_a_plan_that_cannot_be_recorded(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED)) as (daemon, ganeti):
        spoil(daemon.state / "plans")
        plan = made(daemon, max_length=3)["id"]
        with pytest.raises(CallRefusedError, match=r"cannot be recorded: .*Not a directory"):
            call(daemon, "execute", plan=plan)
        assert last(daemon)["state"] == "planned"
        assert not ganeti.tell("jobs")
        (daemon.state / "plans").unlink()
        (daemon.state / "plans").mkdir()
        call(daemon, "execute", plan=plan)
        assert statuses(until(daemon, "done")) == ["success"] * 3


def test_plan_stops_when_the_disk_fills_up(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED), FOR_EVER) as (daemon, ganeti):
        begun(daemon, max_length=3)
        spoil(daemon.state / "plans")
        ganeti.finish()
        plan = until(daemon, "failed")
        assert "the plan could not be recorded" in plan["error"]
        assert statuses(plan) == ["success"]
        assert len(plan["execution"]["not_submitted"]) == 2
        assert len(ganeti.tell("jobs")) == 1
        directory = daemon.state / "plans"
        directory.unlink()
        directory.with_name("spoilt").rename(directory)
        wait_until(lambda: json.loads((directory / f"{plan['id']}.json").read_text())["state"] == "failed")
        daemon.kill()
        with running(tmp_path / "daemon", config=OFTEN) as again:
            assert last(again)["state"] == "failed"


def test_keeps_the_last_plans_after_a_restart(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED)) as (daemon, _):
        directory = daemon.state / "plans"
        done = made(daemon, max_length=1)
        call(daemon, "execute", plan=done["id"])
        record = json.dumps(until(daemon, "done"))
        daemon.stop()
        for number in range(MAX_PLANS + 5):
            name = f"{number:012}"
            (directory / f"{name}.json").write_text(record.replace(done["id"], name))
        with restarted(daemon) as again:
            wait_until(lambda: len(call(again, "plans")) == MAX_PLANS)
            newest = made(again, max_length=1)
            call(again, "execute", plan=newest["id"])
            until(again, "done")
            wait_until(lambda: len(call(again, "plans")) == MAX_PLANS)
            assert {path.stem for path in directory.iterdir()} == {
                plan["id"] for plan in call(again, "plans")
            }
            assert last(again)["id"] == newest["id"]


def test_leaves_other_files_alone(tmp_path: Path) -> None:
    directory = tmp_path / "daemon" / "state" / "plans"
    directory.mkdir(parents=True)
    for name, content in {"a": "", "b": "[]", "c": '{"tool": 1}', "d": "\\xff"}.items():
        (directory / f"{name}.json").write_text(content)
    with running(tmp_path / "daemon") as daemon:
        assert call(daemon, "plans") == []
        assert sum(event["event"] == "plan cannot be read" for event in daemon.events()) == 4
    assert len(list(directory.iterdir())) == 4


def claimed(daemon: Daemon) -> list[Any]:
    """Return the claims of plans."""
    consumers = json.loads(ctl(daemon, "allocations", "--json").stdout)
    return [each for each in consumers if each["kind"] == "plan"]


def test_claim_of_a_plan_survives_a_daemon_kill(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED), FOR_EVER) as (daemon, ganeti):
        plan = begun(daemon, max_length=3)["id"]
        before = claimed(daemon)
        assert [each["name"] for each in before] == [f"cluster/plan/{plan}"]
        assert before[0]["allocations"]
        with restarted(daemon) as again:
            wait_until(lambda: again.status()["ledger"]["lag_s"] is not None)
            assert claimed(again) == before
            ganeti.finish()
            wait_until(lambda: not claimed(again))


def test_plan_claims_nothing_when_claims_are_off(tmp_path: Path) -> None:
    config = f'{OFTEN}claims = "never"\n'
    with following(tmp_path, generated(3, DRAINED), FOR_EVER, config) as (daemon, _):
        begun(daemon, max_length=3)
        assert claimed(daemon) == []
