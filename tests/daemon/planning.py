"""Plans in a running daemon, and what tests ask of them."""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from signal import SIGHUP
from typing import Any

import numpy as np

from ganeti_htools.client.calls import ask
from ganeti_htools.execution.record import upgraded
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.load import HOURS, LOAD_KINDS, LoadProfile
from htoolsd.load.measured_load import write_profiles
from htoolsd.load.profiles import MeasuredInstance
from tests.support.clusters import MOVABLE, Shape
from tests.support.programs import PATIENCE, PROGRAMS, Daemon, Finished, run, running, script, wait_until
from tests.support.simulators import Simulator, simulator

OFTEN = "config_seconds = 0.1\n"
DRAINED = Shape(nodes=6, instances=30, templates=MOVABLE, drained=1, down=0.3)
TWO_GROUPS = Shape(nodes=8, instances=32, groups=2, templates={"drbd": 1})
SPACIOUS = Shape(nodes=5, instances=6, templates={"ext": 1}, fill=0.05, down=0)
# Jobs that go on until they are told to finish, or that take no time.
FOR_EVER, AT_ONCE = "--job-seconds=1000", "--job-seconds=0"


@contextmanager
def following(
    tmp_path: Path, rows: Cluster, pace: str = AT_ONCE, config: str = OFTEN
) -> Iterator[tuple[Daemon, Simulator]]:
    """A daemon that knows the cluster of a Ganeti."""
    (tmp_path / "daemon").mkdir()
    with (
        simulator(tmp_path / "daemon", rows, pace) as ganeti,
        running(tmp_path / "daemon", config=config) as daemon,
    ):
        known(daemon)
        yield daemon, ganeti


def known(daemon: Daemon) -> None:
    wait_until(lambda: daemon.status()["cluster"]["nodes"])


@contextmanager
def restarted(daemon: Daemon, config: str = OFTEN) -> Iterator[Daemon]:
    """Kill a daemon: the next one, once it knows the cluster."""
    daemon.kill()
    with running(daemon.socket.parent, config=config) as again:
        known(again)
        yield again


def measured(daemon: Daemon, directory: Path, cores: Mapping[str, float], config: str) -> None:
    """Have the load of instances known: the cores that they use now, and a little in each hour."""
    lines = "".join(f"echo {name} {used} 1e9 0 0\n" for name, used in cores.items())
    script(directory / "load", f"#!/bin/sh\n{lines}")
    hours = np.full((len(LOAD_KINDS), HOURS), 0.1)
    each = MeasuredInstance(LoadProfile(hours, hours, hours[:, 0]), np.ones(HOURS, np.uint8), "")
    write_profiles(str(daemon.state / "load.json"), time.time(), dict.fromkeys(cores, each))
    daemon.configure(f'load.source = "program"\nload.program = "{directory / "load"}"\n{config}')
    daemon.signal(SIGHUP)
    wait_until(lambda: daemon.status().get("load", {}).get("age_s") is not None)


def settled(daemon: Daemon) -> bool:
    """Whether no jobs of plans go on, and nothing is claimed that new plans would have to leave."""
    if any(each["jobs"]["going"] for each in call(daemon, "plans")):
        return False
    ledger = daemon.status()["ledger"]
    return (ledger["claims"], ledger["lag_s"]) == (0, 0)


def tool(name: str, *options: object) -> Finished:
    return run(PROGRAMS / name, *options)


def executed(name: str, source: str, *options: object) -> tuple[int, str, str]:
    """Have a plan of a tool carried out to its end; return status and output."""
    done = tool(name, source, "-X", *options)
    return done.returncode, done.stdout, done.stderr


def ctl(daemon: Daemon, *arguments: object) -> Finished:
    return run(PROGRAMS / "htoolsctl", "--socket", daemon.socket, *arguments)


def lines(daemon: Daemon, *words: object) -> list[str]:
    """What htoolsctl prints when nothing is wrong."""
    done = ctl(daemon, *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@contextmanager
def started(*command: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def hbal(daemon: Daemon, *options: object) -> Any:
    """hbal, which lets the daemon carry out its plan."""
    return started(PROGRAMS / "hbal", f"-D{daemon.socket}", "-X", *options)


def result(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def call(daemon: Daemon, method: str, **args: object) -> Any:
    return ask(str(daemon.socket), method, args, patience=PATIENCE)


def made(daemon: Daemon, name: str = "hbal", **options: object) -> Any:
    """A plan."""
    return call(daemon, "plan", tool=name, options=options)


def begun(daemon: Daemon, name: str = "hbal", **options: object) -> Any:
    """A plan whose first jobs are submitted."""
    plan = made(daemon, name, **options)
    call(daemon, "execute", plan=plan["id"])
    submitted(daemon, len(plan["execution"]["not_submitted"][0]))
    return plan


def last(daemon: Daemon) -> Any:
    """The newest plan, in short; None if there is none."""
    return (call(daemon, "plans") or [None])[-1]


def whole(daemon: Daemon) -> Any:
    return call(daemon, "follow", plan=last(daemon)["id"])


def until(daemon: Daemon, state: str) -> Any:
    """Wait until the newest plan is in that state: the plan."""
    wait_until(lambda: last(daemon) and last(daemon)["state"] == state)
    return whole(daemon)


def submitted(daemon: Daemon, count: int = 1) -> None:
    """Wait until so many jobs of the newest plan have numbers."""
    wait_until(lambda: last(daemon) and numbers(whole(daemon)) == list(range(1, count + 1)))


def numbers(plan: Any) -> list[int | None]:
    return [job["id"] for job in plan["execution"]["jobs"]]


def recorded(daemon: Daemon, plan: Any) -> Any:
    """What is on disk, without the number of its form."""
    return upgraded(json.loads((daemon.state / "plans" / f"{plan['id']}.json").read_text()))
