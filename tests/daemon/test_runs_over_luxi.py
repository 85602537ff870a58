"""``-X`` as administrators see it: programs of their own, against the simulator."""

import json
import signal
import subprocess
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.backends import text
from ganeti_htools.model.cluster import Cluster
from tests.daemon.planning import executed, result, started
from tests.daemon.test_storage import rows as with_units
from tests.support.clusters import MOVABLE, Shape
from tests.support.lines import next_line
from tests.support.programs import PROGRAMS, run, wait_until
from tests.support.rows import with_master
from tests.support.simulators import Simulator, simulator
from tests.support.worlds import migrate, role

pytestmark = pytest.mark.usefixtures("heeding")

STEPS = 4


def uneven() -> Cluster:
    """A cluster that takes a few jobsets to balance."""
    return with_master(3, Shape(nodes=6, instances=30, templates=MOVABLE, drained=1))


def program(name: str, ganeti: Simulator, *options: object) -> AbstractContextManager[subprocess.Popen[str]]:
    return started(PROGRAMS / name, f"-L{ganeti.socket}", "-X", *options)


hbal = partial(program, "hbal")
hsqueeze = partial(program, "hsqueeze")


def ended(name: str, ganeti: Simulator, *options: object) -> tuple[int, str, str]:
    return executed(name, f"-L{ganeti.socket}", *options)


def until(process: subprocess.Popen[str], beginning: str) -> None:
    """Read its output up to a line."""
    while line := next_line(process.stdout):
        if line.startswith(beginning):
            return
    pytest.fail(f"never said {beginning}")


def plan(ganeti: Simulator) -> list[dict[str, Any]]:
    done = run(PROGRAMS / "hbal", f"-L{ganeti.socket}", f"-l{STEPS}", "--json")
    steps: list[dict[str, Any]] = json.loads(done.stdout)["steps"]
    return steps


def test_reports_and_saves_the_run(tmp_path: Path) -> None:
    with simulator(tmp_path, uneven(), "--job-seconds=0") as ganeti:
        status, out, err = ended("hbal", ganeti, f"-l{STEPS}", "-S", tmp_path / "saved")
        assert status == 0
        jobs = [line for line in out.splitlines() if line.startswith("Job ")]
        assert len(jobs) == STEPS
        assert jobs[0].startswith("Job 1 (inst")
        assert all(line.endswith("): success") for line in jobs)
        assert out.endswith(f"\nJobs: {STEPS} succeeded\n")
        assert (tmp_path / "saved.executed").read_text() == ganeti.cluster()
        assert text.parse((tmp_path / "saved.balanced").read_text(), "").instances
        assert "gnt-instance" not in (tmp_path / "saved.remaining").read_text()
        assert "saved.executed" in err


def test_refuses_no_wait_without_daemon(tmp_path: Path) -> None:
    with simulator(tmp_path, uneven()) as ganeti:
        status, out, err = ended("hbal", ganeti, f"-l{STEPS}", "--no-wait")
        assert (status, out) == (1, "")
        assert err == "Error: --no-wait: only htoolsd goes on by itself: expected -D\n"
        assert ganeti.tell("jobs") == []


def test_failed_job_is_an_error(tmp_path: Path) -> None:
    with simulator(tmp_path, uneven(), "--job-seconds=0", "--fail=REPLACE_DISKS") as ganeti:
        status, out, err = executed(
            "hbal", f"-L{ganeti.socket}", f"-l{STEPS}", "-S", tmp_path / "saved", "--json"
        )
        assert status == 1
        outcome = json.loads(out)["execution"]
        failed = [job for job in outcome["jobs"] if job["error"]]
        assert outcome["ending"] == "failed"
        assert failed
        assert failed[0]["status"] == "error"
        assert "INSTANCE_REPLACE_DISKS(" in failed[0]["error"]
        assert len(outcome["jobs"]) + sum(map(len, outcome["not_submitted"])) == STEPS
        last = err.splitlines()[-1]
        assert last.startswith("Error: Not all jobs completed successfully: job ")
        assert last.endswith(failed[0]["error"])
        rest = [command for jobs in outcome["not_submitted"] for job in jobs for command in job["commands"]]
        script = (tmp_path / "saved.remaining").read_text()
        assert [line.strip() for line in script.splitlines() if "gnt-instance" in line] == rest


def test_interrupt_stops_after_the_jobset(tmp_path: Path) -> None:
    with simulator(tmp_path, uneven(), "--job-seconds=1000") as ganeti, hbal(ganeti, f"-l{STEPS}") as process:
        until(process, "Got job IDs 1")
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert next_line(process.stderr).startswith("Interrupted: stopping")
        ganeti.finish()
        status, out, _ = result(process)
        assert status == 0
        assert [state for _, state in ganeti.tell("jobs")] == ["success"]
        assert f"Jobs: 1 succeeded, {STEPS - 1} not submitted\n  not submitted: inst" in out


@pytest.mark.parametrize("signals", [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM,), (signal.SIGHUP,)])
def test_second_interrupt_stops_at_once(tmp_path: Path, signals: tuple[signal.Signals, ...]) -> None:
    with simulator(tmp_path, uneven(), "--job-seconds=1000") as ganeti, hbal(ganeti, f"-l{STEPS}") as process:
        until(process, "Got job IDs 1")
        first, *more = signals
        process.send_signal(first)
        for another in more:
            assert process.stderr is not None
            assert next_line(process.stderr).startswith("Interrupted: ")
            process.send_signal(another)
        status, out, err = result(process)
        assert status == 2
        assert "Exiting at once; these go on in Ganeti: jobs 1\n" in err
        assert "1 not ended" in out
        assert [state for _, state in ganeti.tell("jobs")] == ["running"]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_ignored_signals_stay_ignored(tmp_path: Path, number: signal.Signals) -> None:
    """By ``nohup``, or by a script that starts it in the background."""
    with simulator(tmp_path, uneven(), "--job-seconds=1000") as ganeti:
        before = signal.signal(number, signal.SIG_IGN)
        try:
            with hbal(ganeti, f"-l{STEPS}") as process:
                until(process, "Got job IDs 1")
                process.send_signal(number)
                ganeti.finish()
                status, out, err = result(process)
        finally:
            signal.signal(number, before)
        assert (status, err) == (0, "")
        assert out.endswith(f"Jobs: {STEPS} succeeded\n")


@pytest.mark.parametrize("wish", ["stop", "replan"])
def test_plan_stops_or_is_replaced_when_a_node_is_drained(tmp_path: Path, wish: str) -> None:
    with simulator(tmp_path, uneven(), "--job-seconds=1000") as ganeti:
        first, *later = plan(ganeti)
        master = next(row.name for row in ganeti.rows().nodes if row.master)
        drained = next(
            node
            for step in later
            for node in step["to"]
            if node not in (*step["from"], *first["to"], *first["from"]) and node != master
        )
        with hbal(ganeti, f"-l{STEPS}", f"--on-change={wish}") as process:
            until(process, "Got job IDs 1")
            ganeti.tell("job_seconds", 0)
            ganeti.ask("SubmitJob", [role(drained, drained=True)])
            wait_until(lambda: [2, "success"] in ganeti.tell("jobs"))
            ganeti.finish()
            status, out, err = result(process)
        reason = f"node {drained} is offline or drained"
        if wish == "stop":
            assert status == 1
            assert err.endswith(f"Error: The plan does not fit the cluster any more: {reason}\n")
            assert len(ganeti.tell("jobs")) == 2
        else:
            assert status == 0
            assert f"The plan does not fit the cluster any more: {reason}\nPlanning anew...\n" in out
            assert {state for _, state in ganeti.tell("jobs")} == {"success"}
            assert sum(line.startswith("Job ") for line in out.splitlines()) <= STEPS


@pytest.mark.parametrize("wish", ["stop", "replan"])
def test_node_with_a_new_instance_is_not_powered_down(tmp_path: Path, wish: str) -> None:
    """Somebody uses a node again that has been emptied."""
    idle = with_master(4, Shape(nodes=5, instances=6, templates={"ext": 1}, fill=0.05, down=0))
    with simulator(tmp_path, idle, "--job-seconds=1000") as ganeti:
        with hsqueeze(ganeti, f"--on-change={wish}", "--target-resources=0") as process:
            assert next_line(process.stdout) == "'Nodes to offline'\n"
            emptied = next_line(process.stdout).strip()
            until_tagging(process, ganeti)
            ganeti.tell("job_seconds", 0)
            back = ganeti.rows().instances[0].name
            use = role(emptied, drained=False)
            ganeti.ask("SubmitJob", [use, migrate(back, target_node=emptied)])
            wait_until(lambda: primary(ganeti, back) == emptied)
            ganeti.finish()
            status, out, err = result(process)
        told = f"instance {back} would be left on a node that is powered down"
        off = {row.name for row in ganeti.rows().nodes if row.offline}
        if wish == "stop":
            assert status == 1
            assert told in err
            assert not off
        else:
            assert status == 0
            assert told in out
            assert off
            assert off.isdisjoint(row.pnode for row in ganeti.rows().instances)


def until_tagging(process: subprocess.Popen[str], ganeti: Simulator) -> None:
    """Let the jobs end that come before one that tags an empty node; that one runs."""
    until(process, "Got job IDs ")
    while not tagging(ganeti):
        end_jobs(ganeti, len(ganeti.tell("jobs")))
        until(process, "Got job IDs ")


def end_jobs(ganeti: Simulator, number: int) -> None:
    """Let the first jobs end; a later one goes on, though it may be submitted meanwhile."""

    def ended() -> bool:
        return {state for _, state in ganeti.tell("jobs")[:number]} == {"success"}

    wait_until(lambda: ended() or ganeti.tell("finish"))


def tagging(ganeti: Simulator) -> bool:
    """Whether the newest job tags a node that is empty."""
    ((newest,),) = ganeti.ask("QueryJobs", [], ["ops"])[-1:]
    return bool(newest[0].get("tags") == ["htools:standby:auto"])


def test_node_drained_by_others_is_left_alone(tmp_path: Path) -> None:
    made_of = with_master(4, Shape(nodes=4, instances=12, templates={"ext": 1}, drained=1))
    nodes = tuple(replace(row, tags=("htools:standby:auto",) * row.offline) for row in made_of.nodes)
    with simulator(tmp_path, replace(made_of, nodes=nodes), "--job-seconds=0") as ganeti:
        status, out, err = ended("hsqueeze", ganeti, "--minimal-resources=1000")
        assert (status, err.count("\n")) == (0, 1)
        assert err.startswith("Warning: not enough standby nodes: ")
        assert "Nodes to online" in out
        submitted = ganeti.ask("QueryJobs", [], ["ops"])
        assert {each["OP_ID"] for (opcodes,) in submitted for each in opcodes} == {"OP_INSTANCE_MIGRATE"}


def test_finishes_interrupted_run_without_other_work(tmp_path: Path) -> None:
    made_of = with_master(4, Shape(nodes=5, instances=6, templates={"ext": 1}, fill=0.05, offline=1, down=0))
    tags = ("htools:squeezing", "htools:standby:auto")
    nodes = tuple(replace(row, tags=tags * row.offline) for row in made_of.nodes)
    (off,) = (row.name for row in nodes if row.offline)
    rows = tuple(row for row in made_of.instances if row.pnode != off)
    with simulator(tmp_path, replace(made_of, nodes=nodes, instances=rows), "--job-seconds=0") as ganeti:
        status, out, err = executed(
            "hsqueeze", f"-L{ganeti.socket}", "--minimal-resources=0", "--target-resources=1e6"
        )
        left = f"Warning: not finished by an earlier run: {off} is offline"
        assert (status, err.splitlines()[0]) == (0, left)
        assert "'No action'" in out
        submitted = [opcodes[-1]["OP_ID"] for (opcodes,) in ganeti.ask("QueryJobs", [], ["ops"])]
        assert submitted == ["OP_OOB_COMMAND", "OP_TAGS_DEL"]
        status, out, err = executed(
            "hsqueeze", f"-L{ganeti.socket}", "--minimal-resources=0", "--target-resources=1e6"
        )
        assert (status, out) == (0, "'No action'\n")
        assert "not finished" not in err
        assert len(ganeti.tell("jobs")) == 2


def test_waits_for_jobs_of_a_killed_run(tmp_path: Path) -> None:
    """And what it has left is finished."""
    idle = with_master(4, Shape(nodes=5, instances=6, templates={"ext": 1}, fill=0.05, down=0))
    with simulator(tmp_path, idle, "--job-seconds=1000") as ganeti:
        with hsqueeze(ganeti) as process:
            until(process, "Got job IDs ")
            process.kill()
        with hsqueeze(ganeti) as process:
            line = next_line(process.stderr)
            assert line.startswith("Waiting for jobs of an earlier run: 1")
            ganeti.finish()
            status, _out, err = result(process)
        assert status == 0
        assert err.startswith("Warning: not finished by an earlier run: ")
        assert " is drained" in err
        assert {state for _, state in ganeti.tell("jobs")} == {"success"}
        tags = {row.tags for row in ganeti.rows().nodes if row.offline}
        assert tags == {("htools:standby:auto",)}


def primary(ganeti: Simulator, name: str) -> str:
    return next(row.pnode for row in ganeti.rows().instances if row.name == name)


@pytest.mark.parametrize("source", ["-tFILE", "-mnowhere.example", "--simulate=p,3,8T,2T,64"])
def test_refuses_execution_without_luxi_before_planning(tmp_path: Path, source: str) -> None:
    path = tmp_path / "cluster.data"
    path.write_text(text.dump(uneven()))
    done = run(PROGRAMS / "hbal", source.replace("FILE", str(path)), "-X")
    assert (done.returncode, done.stdout) == (1, "")
    error = "Error: hbal: Execution of commands possible only on LUXI"
    hint = "-X: expected -L, or -D to leave the plan to htoolsd\n"
    assert done.stderr == f"{error}\n{'' if source.startswith('-t') else hint}"
    if source.startswith("-t"):  # as upstream's own tests demand, unless a person reads it
        assert run(PROGRAMS / "hbal", f"-t{path}", "-X", "-v").stderr == f"{error}\n{hint}"


def test_asks_for_units_before_each_jobset(tmp_path: Path) -> None:
    """Nothing goes where one volume group is full, and what is saved has units."""
    with simulator(tmp_path, with_units(), "--job-seconds=0") as ganeti:
        status, out, err = ended("hbal", ganeti, "--ask-storage", "-S", tmp_path / "saved")
        after = ganeti.cluster()
    assert (status, "storage units" in err) == (0, False)
    assert "success" in out
    placed = text.parse(after, "after")
    assert "three" not in {name for row in placed.instances for name in (row.pnode, row.snode)}
    saved = text.parse((tmp_path / "saved.executed").read_text(), "saved")
    assert [row.disks for row in saved.instances] == [row.disks for row in placed.instances]
    assert [set(row.storage or ()) for row in saved.nodes] == [set(row.storage or ()) for row in placed.nodes]
