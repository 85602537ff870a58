"""Six creations at once on a real Ganeti with memory for six: one on one node, five on another.

Their operating system takes as long to install as the test wants. Meanwhile Ganeti has let go of the nodes.
Those that are asked for in one request are created by jobs that come after other decisions.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration import cluster
from tests.integration.cluster import (
    ADD,
    EXECUTABLE,
    jobs,
    locked,
    remove,
    run,
    succeed,
    table,
    unfinished,
    wait_for_lock_requests,
)
from tests.integration.daemon import Daemon

pytestmark = pytest.mark.integration

MEMORY = 5600  # of nodes with 5 times that
ROOM = {"node4": 1, "node5": 5}
NAMES = [f"claimed{number}" for number in range(sum(ROOM.values()))]
SYSTEMS = Path("/srv/ganeti/os")
GO = SYSTEMS / "go"
OPTIONS = (
    "--no-name-check",
    "--no-ip-check",
    *EXECUTABLE,
    "--node-group",
    "other",
    "--opportunistic-locking",
)


@pytest.fixture
def room() -> Iterator[None]:
    """Something on one of the nodes, and a system whose installation waits."""
    shutil.copytree(SYSTEMS / "none", SYSTEMS / "slow")
    (SYSTEMS / "slow" / "create").write_text(f"#!/bin/sh\nuntil [ -e {GO} ]; do sleep 0.1; done\n")
    size = ("-t", "plain", "--disk", "0:size=1G", "-B", f"memory={4 * MEMORY},vcpus=1")
    succeed([*ADD, *size, "--node", "node4", "blocker"])
    run(["gnt-cluster", "modify", "--default-iallocator-params=no-capacity-checks="])
    yield
    GO.touch()
    run(["gnt-cluster", "modify", "--default-iallocator-params="])
    remove("blocker")
    shutil.rmtree(SYSTEMS / "slow")


def created(
    daemon: Daemon, directory: Path, single: list[str], *together: list[str]
) -> tuple[Counter[str], list[str]]:
    """Creations at once, some in requests for several: how many run on each node then, and what has failed.

    All instances are gone afterwards.
    """
    GO.unlink(missing_ok=True)
    before, decided = jobs()[-1].number, daemon.served() + len(single) + len(together)
    common = ["gnt-instance", "add", "--submit", "-o", "slow+default", "-t", "plain", "--disk", "0:size=1G"]
    one = [*common, "-B", f"memory={MEMORY},vcpus=1", *OPTIONS]
    batches = [batch(directory / f"batch-{names[0]}", names) for names in together]
    # All that is asked for together is decided before any of it is created, which needs a node for itself.
    with locked(*ROOM):
        first = jobs()[-1].number
        run(*batches)
        wait_for_lock_requests(*(job.number for job in jobs(after=first)))
    # Who finds no place with the locks that are free is asked for again, with all of them.
    run(*([*one, each] for each in single))
    cluster.wait_until(lambda: daemon.served() >= decided)
    GO.touch()
    cluster.wait_until(lambda: not unfinished(after=before))
    failed = [job.summary for job in jobs(after=before) if job.status != "success"]
    there = {row[0]: row[1:] for row in table("gnt-instance", "name,pnode,status")}
    running = Counter(node for name, (node, status) in there.items() if name in NAMES and status == "running")
    remove(*(each for each in NAMES if each in there))
    return running, failed


def batch(path: Path, names: list[str]) -> list[str]:
    """The command that makes instances in one request."""
    common: dict[str, object] = {"mode": "create", "hypervisor": "fake", "os_type": "slow+default"}
    common |= {"name_check": False, "ip_check": False, "beparams": {"memory": MEMORY, "vcpus": 1}}
    common |= {"disk_template": "plain", "disks": [{"size": 1024}], "nics": [{}], "group_name": "other"}
    path.write_text(json.dumps([common | {"instance_name": each} for each in names]))
    return ["gnt-instance", "batch-create", "--submit", *EXECUTABLE, str(path)]


@pytest.mark.usefixtures("room")
def test_nothing_is_promised_twice(tmp_path: Path) -> None:
    with Daemon("config_seconds = 1") as daemon:
        daemon.refresh()
        assert created(daemon, tmp_path, NAMES[:2], NAMES[2:4], NAMES[4:]) == (Counter(ROOM), [])
        cluster.wait_until(lambda: daemon.status()["claims"]["living"] == 0)


@pytest.mark.slow
@pytest.mark.usefixtures("room")
def test_room_is_promised_twice_without_claims(tmp_path: Path) -> None:
    with Daemon('config_seconds = 1\nclaims = "never"') as daemon:
        daemon.refresh()
        running, failed = created(daemon, tmp_path, [], NAMES[:2], NAMES[2:4], NAMES[4:])
        # What was promised twice fails, or shares a node that is too small for it.
        assert (running, failed) != (Counter(ROOM), [])
        assert running.total() + len(failed) == len(NAMES)
