"""A plan of the daemon makes room for a new instance of a real Ganeti, and keeps it for this instance."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration import cluster
from tests.integration.cluster import (
    ADD,
    EXECUTABLE,
    IALLOCATORS,
    MASTER,
    add_shared,
    jobs,
    nodes_of,
    refusal,
    remove,
    run,
    start,
    wait_for_lock_requests,
)
from tests.integration.daemon import Daemon
from tests.integration.test_failover import stopped_migration
from tests.support.programs import PROGRAMS

pytestmark = [pytest.mark.integration, pytest.mark.slow]

CTL = PROGRAMS / "htoolsctl"
THERE = {"half1": "node4", "half2": "node5"}
HALF, MORE, SOME = 14000, 20000, 13000  # MiB of nodes with twice the first


def add(name: str, memory: int, *options: str) -> list[object]:
    """The command that makes an instance on shared storage in the node group "other"."""
    size = "-t", "sharedfile", "--disk", "0:size=1G", "-B", f"memory={memory},vcpus=1"
    return [*ADD, *size, "--node-group", "other", *options, name]


@pytest.fixture
def request_file(tmp_path: Path) -> Iterator[Path]:
    """Ganeti's request for an instance that needs more than is free on any node."""
    run(["gnt-cluster", "modify", "--default-iallocator-params=no-capacity-checks="])
    add_shared(THERE, HALF)
    recorder, request = IALLOCATORS / "recorder", tmp_path / "request"
    recorder.write_text(f'#!/bin/sh\ncp "$1" {request}\nexit 1\n')
    recorder.chmod(0o755)
    refusal(add("new", MORE, "-I", "recorder"))
    yield request
    recorder.unlink()
    remove(*THERE, "new")
    run(["gnt-cluster", "modify", "--default-iallocator-params="])


def test_new_instance_gets_the_room_that_was_made_for_it(request_file: Path) -> None:
    """Another one, which waits for the locks of the move that makes the room, does not."""
    with Daemon() as daemon:
        daemon.refresh()
        assert "most missing: memory" in refusal(add("new", MORE, *EXECUTABLE))
        (shown,) = run([CTL, "decide", request_file, "--make-room", "--no-capacity-checks="])
        assert "after 1 move" in shown
        (plan,) = [each["id"] for each in daemon.ask("plans") if each["tool"] == "hail"]
        last = jobs()[-1].number
        with stopped_migration(MASTER):
            executing = start([CTL, "execute", plan])
            cluster.wait_until(lambda: [job for job in jobs(after=last) if job.status == "running"])
            rival = start(add("rival", SOME, *EXECUTABLE))
            wait_for_lock_requests(cluster.wait_until(lambda: jobs(after=last + 1))[0].number)
        out, err = executing.communicate(timeout=cluster.PATIENCE)
        assert executing.returncode == 0, (out, err)
        _out, err = rival.communicate(timeout=cluster.PATIENCE)
        assert rival.returncode != 0
        assert "resources are claimed for new, without these claims more would find a place" in err
        run(add("new", MORE, *EXECUTABLE))
        (moved,) = [name for name, node in THERE.items() if nodes_of(name) != [node]]
        assert nodes_of("new") == [THERE[moved]]
