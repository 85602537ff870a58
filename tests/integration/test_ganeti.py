"""What we do on a real Ganeti, told in order: each test takes the cluster as the one before has left it."""

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from pwd import getpwnam

import pytest

from tests.daemon.test_roles import User, as_user, refusal
from tests.integration import cluster
from tests.integration.cluster import (
    ADD,
    EXECUTABLE,
    GROUPS,
    MASTER,
    SMALL,
    nodes_of,
    remove,
    run,
    succeed,
    table,
)
from tests.integration.daemon import Daemon, agree
from tests.support.programs import PROGRAMS

pytestmark = pytest.mark.integration

DISKS = {
    "drbd": "0:size=1G",
    "plain": "0:size=1G",
    "file": "0:size=1G",
    "ext": "0:size=1G,provider=none",
    "sharedfile": "0:size=1G",
}


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with Daemon() as daemon:
        yield daemon


def add(name: str, template: str, group: str, *options: str) -> list[str]:
    """The command that makes an instance in a node group."""
    disk = ["--disk", DISKS[template]] if template in DISKS else []
    return [*ADD, *EXECUTABLE, *SMALL, "-t", template, *disk, "--node-group", group, *options, name]


def batch(path: Path, *names: str) -> list[str]:
    """The command that makes several DRBD instances in one request."""
    common: dict[str, object] = {"mode": "create", "hypervisor": "fake", "os_type": "none+default"}
    common |= {"name_check": False, "ip_check": False, "beparams": {"memory": 256, "vcpus": 1}}
    common |= {"disk_template": "drbd", "disks": [{"size": 1024}], "nics": [{}], "group_name": "other"}
    path.write_text(json.dumps([common | {"instance_name": name} for name in names]))
    return ["gnt-instance", "batch-create", *EXECUTABLE, str(path)]


def requests(name: str, tmp_path: Path) -> Iterator[list[list[str]]]:
    """Commands that have Ganeti make every kind of request, each one request; go on when they are done.

    In the group where nodes are emptied are only instances that can be moved.
    """
    yield [
        add(f"{name}-ext", "ext", "default"),
        add(f"{name}-sharedfile", "sharedfile", "default"),
        add(f"{name}-diskless", "diskless", "other"),
    ]
    yield [
        add(f"{name}-drbd", "drbd", "default"),
        add(f"{name}-plain", "plain", "other"),
        add(f"{name}-file", "file", "other"),
        add(f"{name}-stopped", "plain", "other", "--no-start"),
        batch(tmp_path / "batch", f"{name}-batch1", f"{name}-batch2"),
    ]
    old = nodes_of(f"{name}-ext"), nodes_of(f"{name}-sharedfile"), nodes_of(f"{name}-drbd")
    yield [
        ["gnt-instance", "migrate", "-f", *EXECUTABLE, f"{name}-ext"],
        ["gnt-instance", "failover", "-f", *EXECUTABLE, f"{name}-sharedfile"],
        ["gnt-instance", "replace-disks", *EXECUTABLE, f"{name}-drbd"],
        ["gnt-instance", "modify", "-t", "drbd", *EXECUTABLE, f"{name}-stopped"],
        # A request about shared storage shows no disk space, though instances have local disks by now.
        add(f"{name}-shared-too", "sharedfile", "other"),
    ]
    new = nodes_of(f"{name}-ext"), nodes_of(f"{name}-sharedfile"), nodes_of(f"{name}-drbd")
    assert all(before != after for before, after in zip(old, new, strict=True))
    assert len(nodes_of(f"{name}-stopped")) == 2
    primary, secondary = nodes_of(f"{name}-drbd")
    yield [["gnt-node", "evacuate", "-f", *EXECUTABLE, "--secondary-only", secondary]]
    assert secondary not in nodes_of(f"{name}-drbd")
    yield [["gnt-node", "evacuate", "-f", *EXECUTABLE, "--primary-only", primary]]
    assert table("gnt-node", "pinst_cnt", primary) == [["0"]]
    yield [["gnt-instance", "change-group", *EXECUTABLE, "--to", "other", f"{name}-drbd"]]
    assert {GROUPS[node] for node in nodes_of(f"{name}-drbd")} == {"other"}


def test_every_request_through_the_daemon(daemon: Daemon, tmp_path: Path) -> None:
    asked = 0
    for commands in requests("one", tmp_path):
        succeed(*commands)
        asked += len(commands)
        decisions = daemon.status()["decisions"]
        assert decisions["served"] == asked
        assert decisions["failed"] == decisions["refused"] == decisions["broken"] == 0
        agree(tmp_path)


@pytest.mark.slow
def test_every_request_with_the_daemon_killed(daemon: Daemon, tmp_path: Path) -> None:
    daemon.kill()
    os.utime(f"{daemon.socket}.lock", times=(0, 0))  # long ago: nobody waits for another one to start
    for commands in requests("two", tmp_path):
        succeed(*commands)
    assert not daemon.answers()
    names = [name for (name,) in table("gnt-instance", "name") if name.startswith("two-")]
    remove(*names)


@pytest.mark.parametrize(
    ("tool", "options"),
    [
        ("hinfo", ["-v", "-p", "--print-instances"]),
        ("hcheck", ["-v"]),
        ("hroller", ["-f"]),
        ("hspace", ["--machine-readable", "-l", "2", "--disk-template=ext"]),
        ("hspace", ["--disk-template=drbd", "--no-capacity-checks"]),
        ("hsqueeze", ["-v", "--minimal-resources=0", "--target-resources=0"]),  # no rule of ours binds then
        ("hbal", ["-G", "default", "-C", "-p", "-q"]),
        ("hbal", ["-G", "other", "--evac-mode", "-O", "node5", "-C", "-q"]),
    ],
)
def test_tools_agree_with_debians(tool: str, options: list[str]) -> None:
    (ours,) = run([PROGRAMS / tool, "-L", *options])
    (theirs,) = run([f"/usr/bin/{tool}", "-L", *options])
    lines = ours.splitlines(keepends=True)
    more = "Node failures survived", "    Health: ", "Rules of Ganeti"  # which only ours print
    assert "".join(line for line in lines if not any(each in line for each in more)) == theirs


def test_balancing_empties_a_drained_node(daemon: Daemon, tmp_path: Path) -> None:
    succeed([*ADD, *SMALL, "-t", "drbd", "--disk", DISKS["drbd"], "--node", "node2:node3", "moved"])
    for source in ("-L", "-D"):
        node = next(node for node in nodes_of("moved") if node != MASTER)  # which cannot be drained
        run(["gnt-node", "modify", "--drained=yes", node])
        agree(tmp_path)
        succeed([PROGRAMS / "hbal", source, "-G", "default", "-X"])
        assert table("gnt-node", "pinst_cnt,sinst_cnt", node) == [["0", "0"]]
        agree(tmp_path)
        run(["gnt-node", "modify", "--drained=no", node])
        agree(tmp_path)


@pytest.mark.slow
def test_squeezing_empties_a_node_and_takes_it_back(daemon: Daemon, tmp_path: Path) -> None:
    run(["gnt-node", "add-tags", "node3", "htools:standby:now"])
    succeed([PROGRAMS / "hsqueeze", "-L", "-X"])
    assert table("gnt-node", "offline,pinst_cnt,sinst_cnt", "node3") == [["Y", "0", "0"]]
    agree(tmp_path)
    succeed([PROGRAMS / "hsqueeze", "-L", "-X", "--minimal-resources=100", "--target-resources=101"])
    assert table("gnt-node", "offline", "node3") == [["N"]]
    agree(tmp_path)
    run(["gnt-node", "remove-tags", "node3", "htools:standby:now"])


def test_daemon_follows_a_restarted_luxid(daemon: Daemon, tmp_path: Path) -> None:
    agree(tmp_path)
    run(["/usr/lib/ganeti/daemon-util", "stop", "ganeti-luxid"])
    daemon.wait_until(lambda status: status["luxi"]["state"] == "unreachable")
    run(["/usr/lib/ganeti/daemon-util", "start", "ganeti-luxid"])
    succeed(["gnt-instance", "shutdown", "one-plain"])
    agree(tmp_path)
    assert daemon.status()["luxi"]["state"] == "reachable"


def test_master_fails_over_and_back(tmp_path: Path) -> None:
    """On each node is a daemon: that of the master decides, the other one waits.

    Each has a ledger of its own; an inventory is in a tag.
    """
    ctl = PROGRAMS / "htoolsctl"
    change = (ctl, "inventory", "set", "node3", "CUSTOM_GPU")

    def shows(daemon: Daemon, shown: bool) -> bool:
        return ("CUSTOM_GPU" in run([ctl, "inventory", "node3"], node=daemon.node)[0]) == shown

    with Daemon() as first, Daemon(node="node2") as second:
        first.wait_until_it_leads()
        first.wait_until(lambda status: status["ledger"]["lag_s"] is not None)
        run([*change, "--total=2", "--reserved=1"])
        assert "htools:inventory:CUSTOM_GPU:2:1" in run(["gnt-node", "list-tags", "node3"])[0].split()
        if not cluster.TREE:  # Ganeti's users are known here
            assert_roles_hold(first)
        for old, new, shown in ((first, second, True), (second, first, False)):
            new.wait_until_it_is_idle()
            run(["gnt-cluster", "master-failover"], node=new.node)
            new.wait_until_it_leads()
            old.wait_until_it_is_idle()
            served, decided = old.served(), new.served()
            run(add(f"by-{new.node}", "sharedfile", "default"), node=new.node)
            assert (old.served(), new.served()) == (served, decided + 1)
            new.wait_until(lambda status: status["ledger"]["lag_s"] is not None)
            cluster.wait_until(partial(shows, new, shown))
            if shown:
                run([*change, "--remove"], node=new.node)
            agree(tmp_path, new.node)
    assert not run(["gnt-node", "list-tags", "node3"])[0].split()


def assert_roles_hold(daemon: Daemon) -> None:
    """Jobs of Ganeti's master daemon may read only, other users nothing; root acts, as the history says."""
    master = getpwnam("gnt-masterd")
    masterd, stranger = User(master.pw_uid, master.pw_gid), User(60000)
    read = f"-D{daemon.socket}", "-v"
    assert "Health: " in as_user(masterd, "hcheck", *read).stdout
    change = "--socket", daemon.socket, "inventory", "set", "node3", "CUSTOM_GPU", "--total=9"
    refused = as_user(masterd, "htoolsctl", *change).stderr
    assert f"user gnt-masterd ({masterd.uid}) does not have the role act, only read; [roles] act" in refused
    assert as_user(stranger, "hcheck", *read).stderr.endswith(refusal(stranger, "cluster", "read"))
    last = [entry for entry in daemon.ask("history") if entry["kind"] == "call"][-1]
    assert (last["method"], last["arguments"]["total"], last["by"]["uid"]) == ("set_inventory", 2, 0)


@pytest.mark.slow
def test_reading_is_cheap(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints it. For configuration no node is asked, for all data as often as Debian's tools ask."""
    rows = []

    def measure(name: str, times: int, work: Callable[[], object]) -> int:
        """Note what a time of this work costs; how often it has nodes asked for live data."""
        master, nodes, asked = cluster.master_cpu(), cluster.nodes_cpu(), cluster.live_requests()
        work()
        spent = {
            **{daemon: after - master[daemon] for daemon, after in cluster.master_cpu().items()},
            "nodes": cluster.nodes_cpu() - nodes,
        }
        rows.append((name, {part: seconds / times * 1000 for part, seconds in spent.items()}))
        return cluster.live_requests() - asked

    def read(program: object, times: int) -> None:
        for _ in range(times):
            run([program, "-L", "-G", "default"])

    def refresh(daemon: Daemon, times: int) -> None:
        for _ in range(times):
            daemon.refresh()

    with Daemon("config_seconds = 0.01\nlive_seconds = 3600") as daemon:
        done = daemon.polls()
        assert measure("htoolsd, configuration", 50, partial(daemon.wait_for_polls, done + 50)) == 0
    with Daemon("config_seconds = 3600\nlive_seconds = 3600") as daemon:
        assert measure("htoolsd, everything (refresh)", 3, partial(refresh, daemon, 3)) == 3 * len(GROUPS)
    assert measure("Debian's hbal -L", 3, partial(read, "/usr/bin/hbal", 3)) == 3 * len(GROUPS)
    assert measure("our hbal -L", 3, partial(read, PROGRAMS / "hbal", 3)) == 3 * len(GROUPS)
    with capsys.disabled():
        print("\n\nCPU time of Ganeti for one reading, ms:")
        print(f"  {'':30}" + "".join(f"{part:>10}" for part in rows[0][1]))
        for name, spent in rows:
            print(f"  {name:30}" + "".join(f"{part:10.1f}" for part in spent.values()))
