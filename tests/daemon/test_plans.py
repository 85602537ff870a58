"""Plans that the daemon makes and carries out, with a Ganeti master, all as processes."""

import json
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.backends import text
from ganeti_htools.client.calls import CallRefusedError
from ganeti_htools.model.cluster import Cluster
from tests.daemon.planning import (
    DRAINED,
    FOR_EVER,
    SPACIOUS,
    TWO_GROUPS,
    begun,
    call,
    ctl,
    executed,
    following,
    hbal,
    last,
    made,
    numbers,
    recorded,
    restarted,
    result,
    started,
    submitted,
    tool,
    until,
    whole,
)
from tests.support.clusters import Shape
from tests.support.lines import next_line
from tests.support.programs import PROGRAMS, Daemon, Finished, connect, wait_until
from tests.support.rows import generated, with_master
from tests.support.simulators import Simulator
from tests.support.worlds import migrate, role

pytestmark = pytest.mark.usefixtures("heeding")

# Made


def equal(daemon: Daemon, ganeti: Simulator, name: str, *options: str) -> Finished:
    """What a tool prints by the daemon, which is what it prints by LUXI."""
    ours, usual = (tool(name, source, *options) for source in (f"-D{daemon.socket}", f"-L{ganeti.socket}"))
    assert (ours.returncode, ours.stdout) == (usual.returncode, usual.stdout)
    assert ours.stderr.endswith(usual.stderr)
    return ours


@pytest.mark.parametrize(
    ("rows", "lines", "printed"),
    [
        (
            generated(3, DRAINED),
            (
                "hbal -v -C -p --print-instances",
                "hbal --json",
                "hbal -l3 -O node2 --no-disk-moves --first-job-group -C -q",
                "hbal -vvvv --evac-mode --exclusion-tags=a,b",
            ),
            "Solution length",
        ),
        (
            generated(4, SPACIOUS),
            ("hsqueeze -C -p -v", "hsqueeze --json", "hsqueeze --target-resources=100", "hsqueeze"),
            "Nodes to offline",
        ),
        (
            generated(3, Shape(nodes=3, instances=4, templates={"drbd": 1})),
            ("hbal --front=3 --pick=1 -C",),
            "gnt-instance",
        ),
    ],
)
def test_plan_equals_that_of_the_tool(
    tmp_path: Path, rows: Cluster, lines: tuple[str, ...], printed: str
) -> None:
    with following(tmp_path, rows) as (daemon, ganeti):
        for line in lines:
            name, *options = line.split()
            shown = equal(daemon, ganeti, name, *options)
            assert shown.returncode == 0
        assert printed in shown.stdout
        plan = whole(daemon)
        assert (plan["tool"], plan["state"], plan["groups"]) == (name, "planned", ["group1"])
        assert recorded(daemon, plan) == plan


def test_plan_for_one_of_several_groups_equals_that_of_the_tool(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, TWO_GROUPS)) as (daemon, ganeti):
        for options in (("-G", "group2"), (), ("-G", "nowhere")):
            equal(daemon, ganeti, "hbal", *options)
        assert last(daemon)["groups"] == ["group2"]
        for line in (
            "--worst-group -C -v",
            "--all-groups --json -l3",
            "--all-groups --optimise=0 --first-job-group -C",
        ):
            assert equal(daemon, ganeti, "hbal", *line.split()).returncode == 0
        assert sorted(last(daemon)["groups"]) == ["group1", "group2"]
        with pytest.raises(CallRefusedError, match="Found multiple node groups: group1, group2"):
            made(daemon)


def test_plan_uses_the_requested_generations(tmp_path: Path) -> None:
    rows = generated(3, DRAINED)
    with following(tmp_path, rows) as (daemon, ganeti):
        told = call(daemon, "cluster")["generations"]
        then = made(daemon)
        moved = then["execution"]["not_submitted"][0][0]["instance"]
        ganeti.ask("SubmitJob", [migrate(moved)])
        wait_until(lambda: call(daemon, "cluster")["generations"] != told)
        assert made(daemon)["generations"] != told
        again = call(daemon, "plan", tool="hbal", generations=told)
        assert again["generations"] == told
        assert again["found"] == then["found"]


def test_planning_does_not_block_and_ends_with_its_client(tmp_path: Path) -> None:
    large = generated(5, type(DRAINED)(nodes=40, instances=500, templates={"drbd": 1}, drained=3))
    with following(tmp_path, large) as (daemon, _):
        with connect(daemon.socket) as client:
            call_text = {"method": "plan", "version": 1, "args": {"tool": "hbal"}}
            client.sendall(json.dumps(call_text).encode() + b"\x03")
            for _ in range(3):
                assert daemon.status()["plans"] == {}
        gone = "client left before its answer"
        wait_until(lambda: any(event["event"] == gone for event in daemon.events()))
        assert made(daemon, max_length=1)["state"] == "planned"
        assert len(call(daemon, "plans")) == 1


# Carried out


def test_empties_a_drained_node(tmp_path: Path) -> None:
    rows = generated(3, DRAINED)
    drained = next(row.pnode for row in rows.instances if row.snode is not None)
    with following(tmp_path, rows) as (daemon, ganeti):
        ganeti.ask("SubmitJob", [role(drained, drained=True)])
        wait_until(lambda: [state for _, state in ganeti.tell("jobs")] == ["success"])
        call(daemon, "refresh")
        status, out, _ = executed("hbal", f"-D{daemon.socket}", "-S", tmp_path / "saved")
        assert status == 0
        places = [(row.pnode, row.snode) for row in ganeti.rows().instances]
        assert all(drained not in place for place in places)
        plan = until(daemon, "done")
        jobs = plan["execution"]["jobs"]
        assert [line for line in out.splitlines() if line.startswith("Job ")] == [
            f"Job {job['id']} ({job['title']}): success" for job in jobs
        ]
        assert out.endswith(f"\nJobs: {len(jobs)} succeeded\n")
        assert (tmp_path / "saved.executed").read_text() == ganeti.cluster()
        assert "gnt-instance" not in (tmp_path / "saved.remaining").read_text()
        assert recorded(daemon, plan) == plan
        table = call(daemon, "cluster")["instances"]
        place = table["fields"].index("pnode")
        assert drained not in {row[place][1] for row in table["data"]}


def test_polls_live_data_around_each_jobset(tmp_path: Path) -> None:
    def asked() -> Any:
        return daemon.status()["cluster"]["polls"]["live"]["done"]

    with following(tmp_path, generated(3, DRAINED)) as (daemon, _):
        before = asked()
        call(daemon, "execute", plan=made(daemon, max_length=3)["id"])
        until(daemon, "done")
        wait_until(lambda: asked() >= before + 4)


def test_outcome_equals_that_of_the_tool(tmp_path: Path) -> None:
    outcomes = []
    for name in ("daemon", "tool"):
        (tmp_path / name).mkdir()
        with following(tmp_path / name, generated(3, DRAINED)) as (daemon, ganeti):
            source = f"-D{daemon.socket}" if name == "daemon" else f"-L{ganeti.socket}"
            outcome = json.loads(tool("hbal", source, "-X", "--json").stdout)["execution"]
            for job in outcome["jobs"]:
                del job["seconds"]
            outcomes.append({key: value for key, value in outcome.items() if key != "run"})
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_plan_continues_without_its_terminal(tmp_path: Path, number: int) -> None:
    with following(tmp_path, generated(3, DRAINED), FOR_EVER) as (daemon, ganeti):
        with hbal(daemon, "-l3") as process:
            submitted(daemon)
            process.send_signal(number)
            assert process.wait() == -number
        ganeti.finish()
        plan = until(daemon, "done")
        assert [job["status"] for job in plan["execution"]["jobs"]] == ["success"] * 3


def test_plan_continues_with_no_wait(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED), FOR_EVER) as (daemon, ganeti):
        status, out, _ = executed("hbal", f"-D{daemon.socket}", "-l3", "--no-wait")
        assert status == 0
        number = last(daemon)["id"]
        assert out.endswith(f"\nPlan {number} has been begun; 'htoolsctl plan {number}' follows it\n")
        ganeti.finish()
        plan = until(daemon, "done")
        assert [job["status"] for job in plan["execution"]["jobs"]] == ["success"] * 3


def test_interrupt_stops_after_the_jobset(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED), FOR_EVER) as (daemon, ganeti):
        with hbal(daemon, "-l4", "-S", tmp_path / "saved") as process:
            submitted(daemon)
            process.send_signal(signal.SIGINT)
            until(daemon, "stopping")
            ganeti.finish()
            status, out, err = result(process)
        assert status == 0
        assert "Interrupted: stopping" in err
        assert [state for _, state in ganeti.tell("jobs")] == ["success"]
        assert "Jobs: 1 succeeded, 3 not submitted\n" in out
        assert last(daemon)["state"] == "stopped"
        assert (tmp_path / "saved.remaining").read_text().count("gnt-instance") >= 3


def test_second_interrupt_leaves_the_jobs(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED), FOR_EVER) as (daemon, ganeti):
        with hbal(daemon, "-l4") as process:
            submitted(daemon)
            assert process.stderr is not None
            for said in ("Interrupted: ", "Interrupted again: "):
                process.send_signal(signal.SIGINT)
                assert next_line(process.stderr).startswith(said)
            status, out, err = result(process)
        assert (status, err) == (2, "The plan was left; these go on in Ganeti: jobs 1\n")
        assert "Jobs: 1 not ended, 3 not submitted\n" in out
        assert last(daemon)["state"] == "interrupted"
        assert [state for _, state in ganeti.tell("jobs")] == ["running"]


def test_follows_jobs_of_a_cancelled_plan(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED), FOR_EVER) as (daemon, ganeti):
        plan = begun(daemon, max_length=2)["id"]
        assert ctl(daemon, "cancel", "--now", plan[:6]).returncode == 0
        ganeti.finish()
        wait_until(lambda: whole(daemon)["execution"]["going_on"] is None)
        wait_until(lambda: recorded(daemon, whole(daemon))["execution"]["jobs"][0]["status"] == "success")
        assert until(daemon, "interrupted")["execution"]["jobs"][0]["status"] == "success"
        assert len(ganeti.tell("jobs")) == 1


@pytest.mark.parametrize("letter", ["D", pytest.param("L", marks=pytest.mark.long)])
def test_balances_groups_one_after_the_other(tmp_path: Path, letter: str) -> None:
    with following(tmp_path, generated(3, TWO_GROUPS)) as (daemon, ganeti):
        source = f"-{letter}{daemon.socket if letter == 'D' else ganeti.socket}"
        groups = {node.name: node.group for node in ganeti.rows().nodes}
        done = tool("hbal", source, "-X", "--all-groups", "--json")
        report = json.loads(done.stdout)
        assert (done.returncode, report["execution"]["ending"]) == (0, "done")
        steps = [step for told in report["groups"] for step in told["steps"]]
        jobs = report["execution"]["jobs"]
        assert sorted((job["instance"], job["jobset"]) for job in jobs) == sorted(
            (step["instance"], step["jobset"]) for step in steps
        )
        order = [groups[job["to"][0]] for job in jobs]
        assert len(set(order)) == 2
        assert order == sorted(order, key=order.index)
        places = {row.name: [row.pnode, row.snode] for row in ganeti.rows().instances}
        ends = {step["instance"]: step["to"] for step in steps}
        assert {name: places[name] for name in ends} == ends
        again = json.loads(tool("hbal", f"-L{ganeti.socket}", "--all-groups", "--json").stdout)
        assert not any(told["steps"] for told in again["groups"])


def test_plan_fails_with_its_job(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED)) as (daemon, ganeti):
        ganeti.tell("fail", ".*")
        status, _, err = executed("hbal", f"-D{daemon.socket}", "-l4")
        assert status == 1
        failure = r"^Error: Not all jobs completed successfully: job 1 \(.*\): INSTANCE_.*$"
        assert re.search(failure, err, re.MULTILINE)
        plan = until(daemon, "failed")
        assert plan["error"] in err
        assert ctl(daemon, "plan", plan["id"]).returncode == 1
        assert len(ganeti.tell("jobs")) == len(plan["execution"]["jobs"])


@pytest.mark.parametrize("wish", ["stop", "replan"])
def test_stops_or_replans_when_the_plan_does_not_fit(tmp_path: Path, wish: str) -> None:
    with following(tmp_path, generated(3, DRAINED)) as (daemon, ganeti):
        plan = made(daemon, max_length=4)
        moved = plan["execution"]["not_submitted"][0][0]["instance"]
        ganeti.ask("SubmitJob", [migrate(moved)])
        wait_until(lambda: [state for _, state in ganeti.tell("jobs")] == ["success"])
        call(daemon, "execute", plan=plan["id"], on_change=wish)
        if wish == "stop":
            error = until(daemon, "failed")["error"]
            assert error.startswith(f"The plan does not fit the cluster any more: instance {moved} ")
            assert len(ganeti.tell("jobs")) == 1
        else:
            done = until(daemon, "done")
            assert len(done["execution"]["replanned"]) == 1
            assert ["said", "Planning anew..."] in done["log"]
            assert {state for _, state in ganeti.tell("jobs")} == {"success"}


def used(rows: Cluster, busy: Sequence[str] = ()) -> str:
    """A node that is in use, and not ``busy``."""
    return next(row.name for row in rows.nodes if not (row.offline or row.master or row.name in busy))


def until_jobs_are(ganeti: Simulator, states: list[str]) -> None:
    wait_until(lambda: [state for _, state in ganeti.tell("jobs")] == states)


@pytest.mark.parametrize("by", ["hbal -D", "hbal -L", "htoolsctl execute"])
def test_submits_the_next_job_when_one_has_ended(tmp_path: Path, by: str) -> None:
    rows = with_master(6, Shape(nodes=10, instances=30, templates={"ext": 1}))
    with following(tmp_path, rows, FOR_EVER) as (daemon, ganeti):
        program, word = by.split()
        if program == "hbal":
            command = [program, f"{word}{daemon.socket if word == '-D' else ganeti.socket}", "-X"]
        else:
            command = [program, "--socket", str(daemon.socket), word, made(daemon)["id"]]
        with started(PROGRAMS / command[0], *command[1:], "--parallel=1") as process:
            for done in range(3):
                until_jobs_are(ganeti, ["success"] * done + ["running"])
                ganeti.tell("finish")
            status, out, _ = result(process)
        assert (status, "Jobs: 3 succeeded" in out) == (0, True)
        assert [plan["options"]["parallel"] for plan in call(daemon, "plans")] == [1] * (by != "hbal -L")


def test_waits_for_a_silent_node_only_on_request(tmp_path: Path) -> None:
    rows = generated(3, DRAINED)
    lost = used(rows)
    with following(tmp_path, rows) as (daemon, ganeti):
        plan = made(daemon, max_length=2)["id"]
        ganeti.tell("lose", lost)
        call(daemon, "refresh")
        silent = f"nodes that are in use do not report: {lost}"
        with pytest.raises(CallRefusedError, match=f"^{silent}$"):
            call(daemon, "execute", plan=plan)
        assert ctl(daemon, "execute", plan).stderr == f"htoolsctl: refused (no-cluster): {silent}\n"
        command = PROGRAMS / "htoolsctl", "--socket", daemon.socket, "execute", plan, "--wait-for-nodes"
        with started(*command) as waiting:
            wait_until(lambda: ["warned", f"Waiting: {silent}"] in whole(daemon)["log"])
            assert not ganeti.tell("jobs")
            ganeti.tell("find", lost)
            assert result(waiting)[0] == 0
        assert numbers(whole(daemon)) == [1, 2]


@pytest.mark.parametrize("source", ["-D", "-L"])
def test_silent_node_holds_up_only_its_own_group(tmp_path: Path, source: str) -> None:
    rows = generated(3, TWO_GROUPS)
    lost = used(rows)
    own, other = sorted(
        rows.groups,
        key=lambda group: not any(node.name == lost and node.group == group.uuid for node in rows.nodes),
    )
    with following(tmp_path, rows) as (daemon, ganeti):
        ganeti.tell("lose", lost)
        call(daemon, "refresh")
        socket = daemon.socket if source == "-D" else ganeti.socket
        silent = f"Warning: node {lost} does not report, and is taken for offline"
        done = tool("hbal", f"{source}{socket}", "-X", "-l1", "-G", other.name)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Jobs: 1 succeeded")
        assert done.stderr.splitlines()[0] == silent
        done = tool("hbal", f"{source}{socket}", "-X", "-l1", "-G", own.name)
        assert done.returncode == 1
        assert f"nodes that are in use do not report: {lost}: nothing is carried out" in done.stderr
        assert len(ganeti.tell("jobs")) == 1


def test_stops_at_a_node_that_just_fell_silent(tmp_path: Path) -> None:
    rows = generated(3, DRAINED)
    with following(tmp_path, rows) as (daemon, ganeti):
        ganeti.tell("lose", used(rows))
        done = tool("hbal", f"-D{daemon.socket}", "-X", "-l2")
        assert done.returncode == 1
        assert done.stderr.endswith(f": nodes that are in use do not report: {used(rows)}\n")
        assert not ganeti.tell("jobs")
        ganeti.tell("find", used(rows))
        call(daemon, "refresh")
        assert tool("hbal", f"-D{daemon.socket}", "-X", "-l2").returncode == 0


def test_waits_for_a_node_that_falls_silent_during_a_plan(tmp_path: Path) -> None:
    rows = generated(3, DRAINED)
    with following(tmp_path, rows, FOR_EVER) as (daemon, ganeti), hbal(daemon, "-l2") as process:
        submitted(daemon)
        job = whole(daemon)["execution"]["jobs"][0]
        lost = used(rows, busy=(*job["from"], *job["to"]))
        ganeti.tell("lose", lost)
        ganeti.finish()
        assert process.stderr is not None
        assert next_line(process.stderr) == f"Waiting: nodes that are in use do not report: {lost}\n"
        ganeti.tell("find", lost)
        status, out, _ = result(process)
        assert (status, out.splitlines()[-1]) == (0, "Jobs: 2 succeeded")


# Told


def test_plans_for_people(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED)) as (daemon, _):
        header = f"{'Plan':12} Tool State Made By Jobs Score Groups\n"
        assert ctl(daemon, "plans").stdout == header
        plan = made(daemon, max_length=2)["id"]
        shown = ctl(daemon, "plan", plan)
        assert (shown.returncode, shown.stdout.splitlines()[-1]) == (0, "planned")
        assert "Jobset 1:\n  inst" in shown.stdout
        executed = ctl(daemon, "execute", plan[:8])
        assert executed.returncode == 0
        assert executed.stdout.endswith("): success\nJobs: 2 succeeded\ndone\n")
        assert ctl(daemon, "plan", plan).stdout == executed.stdout
        row = ctl(daemon, "plans").stdout.splitlines()[-1]
        assert re.match(rf"{plan} hbal done +\S+ \S+ \S+ +2/2 [\d.]+ => [\d.]+ group1$", row)
        again = ctl(daemon, "execute", plan)
        assert (again.returncode, again.stderr) == (
            1,
            f"htoolsctl: refused (bad-plan): plan {plan} is already done\n",
        )


def test_plans_for_programs(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED), FOR_EVER) as (daemon, ganeti):
        plan = made(daemon, max_length=2)["id"]
        (tmp_path / "plan.json").write_text(json.dumps(whole(daemon)))
        judged = tool("hcheck", f"-D{daemon.socket}", f"--plan={tmp_path / 'plan.json'}")
        assert (judged.returncode, judged.stderr) == (0, "")
        call(daemon, "execute", plan=plan)
        command = PROGRAMS / "htoolsctl", "--socket", daemon.socket, "plan", plan, "--json"
        with started(*command) as following_plan:
            submitted(daemon)
            stopped = json.loads(ctl(daemon, "cancel", plan, "--json").stdout)
            ganeti.finish()
            status, out, _ = result(following_plan)
        assert stopped["state"] == "stopping"
        told = json.loads(out)
        assert (status, told["state"], numbers(told)) == (0, "stopped", [1])
        assert told == whole(daemon)
        assert told["certificate"] == {"verdict": "holds", "reasons": []}
        assert json.loads(ctl(daemon, "plans", "--json").stdout) == call(daemon, "plans")


def test_figures_of_standby_nodes_survive_a_kill(tmp_path: Path) -> None:
    """Nodes that were powered down are known as they were, by a daemon that did not see them running."""
    rows = generated(4, SPACIOUS)
    with following(tmp_path, rows) as (daemon, _):
        down = json.loads(tool("hsqueeze", f"-D{daemon.socket}", "-X", "--json").stdout)["nodes"]
        wait_until(lambda: call(daemon, "cluster")["standby"])
        with restarted(daemon) as again:
            saved = f"-S{tmp_path / 'saved'}"
            done = tool("hsqueeze", f"-D{again.socket}", "--minimal-resources=200", "--json", saved)
            assert json.loads(done.stdout)["action"] == "online"
    had = {node.name: node.t_mem for node in rows.nodes if node.name in down}
    later = text.parse((tmp_path / "saved.squeezed").read_text(), "saved").nodes
    assert {node.name: node.t_mem for node in later if node.name in down} == had
    assert len({*had.values()}) > 1


def test_times_of_copying_use_what_the_jobs_of_plans_took(tmp_path: Path) -> None:
    rows = generated(4, Shape(nodes=5, instances=12, templates={"drbd": 1}, fill=0.2, down=0))
    with following(tmp_path, rows, "--job-seconds=1") as (daemon, _):
        source = f"-D{daemon.socket}"
        assert "at 100 Mbit/s (default; " in tool("hbal", source, "--front").stdout
        assert tool("hbal", source, "-X", "-l2").returncode == 0
        line = tool("hbal", source, "--front").stdout.splitlines()[-1]
        assert re.fullmatch(r"Times of copying: at drbd \d{3,} Mbit/s \(median of htoolsd's jobs\)", line)
        given = tool("hbal", source, "--front", "--bandwidth=7").stdout.splitlines()[-1]
        assert given == "Times of copying: at 7 Mbit/s (--bandwidth)"
