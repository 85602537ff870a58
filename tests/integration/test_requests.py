"""Every iallocator request that Ganeti makes, through the executable: daemon running, and killed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration import cluster
from tests.integration.cluster import jobs, nodes_of, run
from tests.integration.daemon import Daemon

pytestmark = [pytest.mark.integration, pytest.mark.random_order(disabled=True)]

ADD = ("gnt-instance", "add", "-I", "htoolsd", "-o", "none+default", "--no-name-check", "--no-ip-check")
SMALL = ("-B", "memory=256,vcpus=1")
DISKS = {
    "drbd": "0:size=1G",
    "plain": "0:size=1G",
    "file": "0:size=1G",
    "ext": "0:size=1G,provider=none",
    "sharedfile": "0:size=1G",
}


def add(name: str, template: str, group: str, *options: str) -> list[str]:
    """The command that makes an instance in a node group."""
    disk = ["--disk", DISKS[template]] if template in DISKS else []
    return [*ADD, *SMALL, "-t", template, *disk, "--node-group", group, *options, name]


def batch(path: Path, *names: str) -> list[str]:
    """The command that makes several DRBD instances in one request."""
    common: dict[str, object] = {
        "mode": "create",
        "hypervisor": "fake",
        "os_type": "none+default",
        "disk_template": "drbd",
    }
    common |= {"name_check": False, "ip_check": False}
    common |= {"disks": [{"size": 1024}], "nics": [{}], "beparams": {"memory": 256, "vcpus": 1}}
    path.write_text(json.dumps([common | {"instance_name": name} for name in names]))
    return ["gnt-instance", "batch-create", "-I", "htoolsd", str(path)]


def every_request(name: str, tmp_path: Path) -> int:
    """Have Ganeti make each kind of request, some side by side; how many that were.

    Instances that have a disk on their node alone stay in a group where no node is emptied.
    """
    asked = 0

    def ask(*commands: list[str]) -> None:
        nonlocal asked
        before = jobs()
        run(*commands)
        done = jobs(after=before[-1].number)
        assert len(done) >= len(commands)
        assert {job.status for job in done} == {"success"}
        asked += len(commands)

    # Requests about shared storage show no disk space: whatever else is there would not fit.
    ask(*(add(f"{name}-{template}", template, "default") for template in ("ext", "sharedfile", "diskless")))
    ask(
        add(f"{name}-drbd", "drbd", "default"),
        add(f"{name}-plain", "plain", "other"),
        add(f"{name}-file", "file", "other"),
        add(f"{name}-stopped", "plain", "other", "--no-start"),
        batch(tmp_path / "batch", f"{name}-batch1", f"{name}-batch2"),
    )
    ask(
        ["gnt-instance", "migrate", "-f", "-I", "htoolsd", f"{name}-ext"],
        ["gnt-instance", "failover", "-f", "-I", "htoolsd", f"{name}-sharedfile"],
        ["gnt-instance", "replace-disks", "-I", "htoolsd", f"{name}-drbd"],
        ["gnt-instance", "modify", "-t", "drbd", "-I", "htoolsd", f"{name}-stopped"],
    )
    primary, secondary = nodes_of(f"{name}-drbd")
    ask(["gnt-node", "evacuate", "-f", "-I", "htoolsd", "-s", secondary])
    assert secondary not in nodes_of(f"{name}-drbd")
    ask(["gnt-node", "evacuate", "-f", "-I", "htoolsd", "-p", primary])
    assert primary not in nodes_of(f"{name}-drbd")[:1]
    ask(["gnt-instance", "change-group", "-I", "htoolsd", "--to", "other", f"{name}-drbd"])
    assert {cluster.GROUPS[node] for node in nodes_of(f"{name}-drbd")} == {"other"}
    return asked


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with Daemon() as daemon:
        yield daemon


def test_every_request_with_the_daemon(daemon: Daemon, tmp_path: Path) -> None:
    asked = every_request("asked", tmp_path)
    decisions = daemon.status()["decisions"]
    assert decisions["served"] == asked
    assert decisions["failed"] == decisions["refused"] == decisions["broken"] == 0
