"""Policies of a running daemon, with a Ganeti master, all as processes."""

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.tags import AUTOREPAIR, SQUEEZING
from tests.daemon.planning import (
    AT_ONCE,
    FOR_EVER,
    OFTEN,
    call,
    ctl,
    following,
    known,
    measured,
    numbers,
    restarted,
    submitted,
    until,
    whole,
)
from tests.support.policies import asleep, racks
from tests.support.programs import PROGRAMS, ROOT, Daemon, run, running, script, wait_until
from tests.support.simulators import Simulator
from tests.support.worlds import uneven, world

EAGER = "start = 0.02\nstop = 0.001\nhold = 1\nmin_gain = 0.000001\n"
HOOK = ROOT / "contrib" / "hooks" / "watcher" / "htoolsd-policies"


def config(mode: str, more: str = "") -> str:
    return f'{OFTEN}[rebalance]\nmode = "{mode}"\n{EAGER}{more}'


def decided(daemon: Daemon) -> list[Any]:
    """What the policy has decided so far, as the history tells it."""
    return [entry for entry in call(daemon, "history") if entry["kind"] == "policy"]


def considered(daemon: Daemon, name: str = "rebalance", remedies: int = 1) -> Any:
    """The last decision that comes of having a policy considered."""
    count = len(decided(daemon)) + remedies
    assert ctl(daemon, "run", name).stdout == f"{name} is being considered\n"
    wait_until(lambda: len(decided(daemon)) >= count)
    return decided(daemon)[count - 1]


def policy(daemon: Daemon) -> Any:
    """What the daemon tells of the policy."""
    (told,) = (each for each in call(daemon, "policies") if each["name"] == "rebalance")
    return told


def jobs(ganeti: Simulator) -> int:
    return len(ganeti.ask("QueryJobs", [], ["id"]))


def test_policy_is_off_until_configured(tmp_path: Path) -> None:
    with following(tmp_path, uneven()) as (daemon, ganeti):
        assert ctl(daemon, "run", "rebalance").stdout == "rebalance is off\n"
        assert "\nrebalance: off; 40 moves and 1.0 TiB left" in ctl(daemon, "policies").stdout
        assert not (daemon.state / "policies.json").exists()
        daemon.configure(config("shadow"))
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: policy(daemon)["mode"] == "shadow")
        told = considered(daemon)
        assert (told["outcome"], told["trigger"], told["plan"]) == ("would act", "asked", None)
        assert {move["status"] for move in told["moves"]} == {"not submitted"}
        assert jobs(ganeti) == 0
        text = ctl(daemon, "history", f"--instance={told['instances'][0]}").stdout
        assert "rebalance in default (asked) would act: 4 moves, 2000 MiB (score " in text
        assert "would act: 4 moves" in ctl(daemon, "policies").stdout


def test_proposed_plan_can_be_executed(tmp_path: Path) -> None:
    with following(tmp_path, uneven(), config=config("propose")) as (daemon, ganeti):
        told = considered(daemon)
        assert (told["outcome"], jobs(ganeti)) == ("proposed", 0)
        assert "waits for htoolsctl execute" in considered(daemon)["reason"]
        assert ctl(daemon, "execute", told["plan"]).returncode == 0
        assert jobs(ganeti) == len(told["moves"])


def test_forgotten_proposal_is_not_made_again_until_its_time(tmp_path: Path) -> None:
    def held(of: Daemon) -> list[str]:
        (group,) = json.loads(ctl(of, "policies", "--explain", "rebalance", "--json").stdout)["groups"]
        return [each["condition"] for each in group["held"]]

    with following(tmp_path, uneven(), config=config("propose")) as (daemon, _):
        plan = considered(daemon)["plan"]
        told = ctl(daemon, "forget", "--for=7d", plan).stdout
        assert told.startswith(f"plan {plan} is removed\nrebalance does nothing in default until ")
        assert held(daemon) == ["dismissed"]
        wait_until(lambda: "dismissed" in (daemon.state / "policies.json").read_text())
        with restarted(daemon, config("propose")) as again:
            assert held(again) == ["dismissed"]
            assert considered(again)["outcome"] == "proposed"  # a person has asked for it


@pytest.mark.parametrize(
    ("name", "decisions", "cluster", "settings"),
    [
        ("rebalance", 1, uneven(), f"{EAGER}max_moves = 2\n"),
        pytest.param(
            *("squeeze", 2, racks(3, 1, 1, 1), 'hold = 1\nmax_nodes = 1\ngroups = ["default"]\n'),
            marks=pytest.mark.long,
        ),
        ("squeeze", 2, asleep(racks(7, 7, 7, 0), "d"), 'hold = 1\nmax_moves = 1\ngroups = ["default"]\n'),
    ],
)
def test_proposed_plan_survives_a_kill(
    tmp_path: Path, name: str, decisions: int, cluster: Cluster, settings: str
) -> None:
    """The next one makes the same of the cluster, of which it was a part: of one group, and as many moves."""
    wish = f'{OFTEN}[{name}]\nmode = "propose"\n{settings}'
    with following(tmp_path, cluster, config=wish) as (daemon, ganeti):
        considered(daemon, name, decisions)
        (told,) = (each for each in decided(daemon) if each["outcome"] == "proposed")
        with restarted(daemon, wish) as again:
            done = ctl(again, "execute", told["plan"])
            assert (done.returncode, done.stderr) == (0, "")
            assert jobs(ganeti)
            assert whole(again)["state"] == "done"


def test_refuses_a_proposed_plan_that_would_be_different(tmp_path: Path) -> None:
    wish = f'{OFTEN}[squeeze]\nmode = "propose"\nhold = 1\nmax_nodes = 1\ngroups = ["default"]\n'
    with following(tmp_path, racks(3, 1, 1, 1), config=wish) as (daemon, ganeti):
        told = considered(daemon, "squeeze", 2)
        daemon.kill()
        never = f'{wish}never = ["{told["powered"][0]}"]\n'
        with running(tmp_path / "daemon", config=never) as again:
            known(again)
            refused = ctl(again, "execute", told["plan"])
            assert refused.returncode == 1
            assert "would be different for the present cluster; make a new one" in refused.stderr
            assert jobs(ganeti) == 0


def test_acts_and_keeps_its_budget_after_a_kill(tmp_path: Path) -> None:
    wish = config("act", "max_moves = 3\nmoves_per_day = 3\n")
    with following(tmp_path, uneven(), FOR_EVER, wish) as (daemon, ganeti):
        told = considered(daemon)
        assert (told["outcome"], len(told["moves"])) == ("begun", 3)
        submitted(daemon, 1)
        explained = json.loads(ctl(daemon, "policies", "--explain", "rebalance", "--json").stdout)
        held = {each["condition"] for each in explained["groups"][0]["held"]}
        assert {"jobs", "plan", "budget"} <= held
        assert (
            "blocked by budget: the day's budget is spent"
            in ctl(daemon, "policies", "--explain", "rebalance").stdout
        )
        daemon.kill()
        ganeti.finish()
        with running(tmp_path / "daemon", config=wish) as again:
            known(again)
            assert policy(again)["left"]["moves"] == 0
            wait_until(lambda: considered(again)["reason"].startswith("the day's budget is spent"))


def test_next_daemon_finishes_a_killed_one_s_squeeze(tmp_path: Path) -> None:
    """By then no node can be spared, so that nothing else takes up what was left."""
    wish = f'{OFTEN}[squeeze]\nmode = "act"\nhold = 1\nmax_nodes = 1\ngroups = ["default"]\n'
    with following(tmp_path, racks(3, 1, 1, 1), FOR_EVER, wish) as (daemon, ganeti):

        def left() -> set[str]:
            rows = ganeti.rows().nodes
            return {row.name for row in rows if row.offline or SQUEEZING in row.tags}

        told = considered(daemon, "squeeze", 2)
        assert told["outcome"] == "begun"
        submitted(daemon)
        daemon.kill()
        ganeti.finish()
        wait_until(lambda: left() == set(told["powered"]))
        with running(tmp_path / "daemon", config=f'{wish}never = ["a", "b", "c", "d"]\n') as again:
            known(again)
            wait_until(lambda: considered(again, "squeeze", 3)["outcome"] == "begun")
            assert decided(again)[-1]["reason"] == f"1 node ({told['powered'][0]}), 0 moves, 0 MiB"
            wait_until(lambda: numbers(whole(again)) == [2])
            ganeti.finish()
            until(again, "done")
        assert left() == set()


def test_watcher_hook_runs_policies_on_the_master_only(tmp_path: Path) -> None:
    with following(tmp_path, uneven(), AT_ONCE, config("act")) as (daemon, ganeti):
        ssconf = tmp_path / "root" / "var" / "lib" / "ganeti"
        ssconf.mkdir(parents=True)
        (ssconf / "ssconf_master_node").write_text("boss\n")
        script(tmp_path / "htoolsctl", f'#!/bin/sh\nexec {PROGRAMS}/htoolsctl "$@"\n')
        surroundings = {
            "GANETI_ROOTDIR": str(tmp_path / "root"),
            "HTOOLSD_SOCKET": str(daemon.socket),
            "PATH": f"{tmp_path}:/usr/bin:/bin",
        }
        elsewhere = run(HOOK, environment={**surroundings, "GANETI_HOSTNAME": "two"})
        assert (elsewhere.returncode, elsewhere.stdout, decided(daemon)) == (0, "", [])
        here = run(HOOK, environment={**surroundings, "GANETI_HOSTNAME": "boss"})
        assert (here.returncode, here.stdout) == (
            0,
            "repair is off\nredistribute is off\nsqueeze is off\nrelieve is off\n"
            "rebalance is being considered\n",
        )
        wait_until(lambda: jobs(ganeti) == 4)


def test_refuses_wrong_calls(daemon: Daemon) -> None:
    for words in (("run", "sleep"), ("policies", "--explain=sleep")):
        refused = ctl(daemon, *words)
        assert refused.returncode == 1
        assert "policy: expected repair or redistribute or squeeze or relieve or rebalance" in refused.stderr
    assert ctl(daemon, "policies", "--explain=rebalance").stderr.startswith("htoolsctl: refused (")


def test_live_migration_relieves_a_hot_node(tmp_path: Path) -> None:
    """One of six instances, which use 3.9 of 4 cores, leaves the node; then no node is hot."""
    wish = f'{OFTEN}[relieve]\nmode = "act"\nhold = 1\n'
    with following(tmp_path, uneven(), config=wish) as (daemon, ganeti):
        assert considered(daemon, "relieve")["reason"] == "measured load is not used: it is not measured"
        cores = {row.name: 0.5 for row in uneven().instances} | {"web2": 1.4}
        measured(daemon, tmp_path, cores, f"load.decisions = true\n{wish}")
        assert Path(f"{daemon.socket}.loaded").exists()  # for decisions without the daemon
        told = considered(daemon, "relieve")
        assert (told["outcome"], told["reason"]) == ("begun", "1 move, 500 MiB: one 98 %")
        until(daemon, "done")
        [moved] = (row for row in ganeti.rows().instances if row.pnode != "one")
        assert moved.name == "web2"
        call(daemon, "refresh")
        assert considered(daemon, "relieve")["reason"] == "no node is above the start, 80 %"


def test_repairs_an_instance_of_an_offline_node(tmp_path: Path) -> None:
    rows = world().cluster
    one = replace(rows.nodes[0], offline=True, t_mem=0.0, f_mem=0, t_dsk=0.0, t_cpu=0.0)
    lost = replace(rows, nodes=(one, *rows.nodes[1:]), tags=(f"{AUTOREPAIR}failover",))
    with following(tmp_path, lost, config=f'{OFTEN}[repair]\nmode = "act"\n') as (daemon, ganeti):

        def begun(number: int) -> bool:
            call(daemon, "refresh")
            assert ctl(daemon, "run", "repair").returncode == 0
            return [entry["outcome"] for entry in decided(daemon)].count("begun") == number

        told = considered(daemon, "repair")
        assert (told["outcome"], told["reason"]) == ("begun", "failover of mirrored, 0 MiB")
        [job] = until(daemon, "done")["execution"]["jobs"]
        assert (job["instance"], job["from"], job["to"]) == ("mirrored", ["one", "two"], ["two", "one"])
        wait_until(lambda: begun(2))
        until(daemon, "done")
        call(daemon, "refresh")
        explained = ctl(daemon, "policies", "--explain", "repair").stdout
        assert "stuck: it needs reinstall, and tags allow repairs up to failover" in explained
        [repaired] = (row for row in ganeti.rows().instances if row.name == "mirrored")
        assert (repaired.pnode, repaired.snode) == ("two", "three")
        [record] = (tag for tag in repaired.tags if tag.startswith(AUTOREPAIR))
        assert ":success:" in record
