"""Maintenance on a real Ganeti with a kill at a random moment: of the tool, our daemon, or Ganeti's."""

import random
import subprocess
import time
from contextlib import nullcontext

import pytest

from tests.integration import cluster
from tests.integration.cluster import TOP, jobs, run, start, table
from tests.integration.daemon import Daemon
from tests.integration.test_maintenance import HMAINTAIN, PLACES, TAGS, instances, places, tags_of_instances

__all__ = ["instances"]  # a fixture

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ACTIONS = {
    "start": ("start", "node2", "--empty"),
    "end": ("end", "node2"),
    "roll": ("roll", "node2", "node3", "--command=true"),
}
KILLS = (
    ("start", "-L", "tool"),
    ("end", "-L", "luxid"),
    ("roll", "-L", "tool"),
    ("start", "-L", "luxid and wconfd"),
    ("roll", "-L", "luxid"),
    ("start", "-D", "daemon"),
    ("end", "-D", "daemon"),
    ("roll", "-D", "daemon"),
    ("start", "-D", "tool"),
    ("roll", "-D", "luxid and wconfd"),
)
ATTEMPTS = 30  # runs until one has come to its end


class Kill:
    """A kill after some jobs of a run. The victim is the tool, our daemon, or daemons of the master."""

    def __init__(self, victim: str, daemon: Daemon | None, chance: random.Random) -> None:
        self._victim = victim
        self._daemon = daemon
        self._jobs = chance.randint(1, 4)
        self._seconds = chance.uniform(0, 1)

    def of(self, process: subprocess.Popen[str], last: int) -> None:
        """Kill when so many jobs with a higher number are there, and start daemons again."""
        cluster.wait_until(lambda: len(jobs(after=last)) >= self._jobs)
        time.sleep(self._seconds)
        if self._victim == "tool":
            process.kill()
        elif self._daemon is not None and self._victim == "daemon":
            self._daemon.kill()
            self._daemon.__enter__()
        else:
            names = [f"ganeti-{name}" for name in self._victim.split(" and ")]
            files = [TOP / cluster.MASTER / "var/run/ganeti" / f"{name}.pid" for name in names]
            run(["kill", "-KILL", *(file.read_text().strip() for file in files)])
            for name, file in reversed([*zip(names, files, strict=True)]):
                file.unlink()
                run(["/usr/lib/ganeti/daemon-util", "start", name])


def carry_out(action: str, source: str, kill: Kill | None) -> None:
    """Run hmaintain until it comes to its end; the first run is disturbed."""
    told = list[tuple[str, str]]()
    for attempt in range(ATTEMPTS):
        last = jobs()[-1].number
        more = ["--take-over"] if attempt else []
        process = start([HMAINTAIN, *ACTIONS[action], source, "-X", *more])
        if kill and not attempt:
            kill.of(process, last)
        told.append(process.communicate(timeout=cluster.PATIENCE))
        if process.returncode == 0:
            return
        time.sleep(1)  # jobs go on, or the daemon reads the cluster
    raise AssertionError(told)


@pytest.mark.parametrize("seed", range(len(KILLS)))
def test_all_is_as_before_after_a_kill(seed: int) -> None:
    """No instance is lost, no node stays drained, and all are at home."""
    action, source, victim = KILLS[seed]
    with Daemon() if source == "-D" else nullcontext() as daemon:
        kill = Kill(victim, daemon, random.Random(seed))
        if action == "roll":
            carry_out("roll", source, kill)
        else:
            carry_out("start", source, kill if action == "start" else None)
            assert "node2" not in {node for there in places().values() for node in there}
            carry_out("end", source, kill if action == "end" else None)
    assert places() == PLACES
    nodes = table("gnt-node", "name,drained,offline,tags")
    assert [row[1:] for row in nodes] == [["N", "N", ""]] * len(nodes)
    assert tags_of_instances() == TAGS
