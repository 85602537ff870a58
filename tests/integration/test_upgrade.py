"""A cluster that is upgraded from Ganeti 3.0 to 3.1 while a daemon runs, which serves 3.1 then.

Of 3.1 there is a candidate, which has the rules of 3.0.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration import cluster
from tests.integration.cluster import (
    ADD,
    EXECUTABLE,
    MASTER,
    SMALL,
    nodes_of,
    remove,
    run,
    start,
    succeed,
    table,
)
from tests.integration.daemon import Daemon, agree
from tests.support.programs import PROGRAMS

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.environ.get("GANETI") != "3.0", reason="this Ganeti is not upgraded"),
]

UTIL = "/usr/lib/ganeti/daemon-util"
LUXID = Path("/usr/lib/ganeti/3.1/usr/sbin/ganeti-luxid")
CANDIDATE, RELEASE = b"3.1.0~rc2", b"3.1.0"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon() as daemon:
        yield daemon


def add(name: str, template: str, *options: str) -> list[str]:
    """The command that makes an instance where we choose."""
    return [*ADD, *EXECUTABLE, *SMALL, "-t", template, "--disk", "0:size=1G", *options, name]


def rules(daemon: Daemon) -> Any:
    """The version whose rules are in force."""
    return daemon.status()["cluster"]["ganeti_rules"]


def test_daemon_follows_an_upgrade(daemon: Daemon, tmp_path: Path) -> None:
    """It goes on deciding without a restart."""
    remove(*(name for (name,) in table("gnt-instance", "name")))
    succeed(add("before", "drbd", "--node-group", "default"))
    agree(tmp_path)
    process, served = daemon.status()["pid"], daemon.served()
    with start(["gnt-cluster", "upgrade", "--to", "3.1"]) as upgrade:
        out, err = upgrade.communicate(timeout=cluster.PATIENCE)
    # Ganeti's own look at the cluster at the end finds fault with the kernel of this machine.
    assert "Verifying cluster." in out, out + err
    assert CANDIDATE.decode() in run(["gnt-cluster", "version"])[0]
    agree(tmp_path)
    succeed(add("after", "drbd", "--node-group", "default"))
    assert (daemon.status()["pid"], daemon.served()) == (process, served + 1)
    assert rules(daemon) == "3.0"


def test_rules_follow_the_version(daemon: Daemon) -> None:
    """Until there is a release, Ganeti is made to say that it is one."""
    program = LUXID.read_bytes()
    assert program.count(CANDIDATE + b"\0") == 1
    released = Path("/srv/luxid")
    released.write_bytes(program.replace(CANDIDATE + b"\0", RELEASE.ljust(len(CANDIDATE) + 1, b"\0")))
    released.chmod(0o755)
    run([UTIL, "stop", "ganeti-luxid"], ["mount", "--bind", released, LUXID])
    run([UTIL, "start", "ganeti-luxid"])
    daemon.wait_until(lambda status: status["cluster"]["ganeti_rules"] == "3.1")
    run([UTIL, "stop", "ganeti-luxid"], ["umount", "--lazy", LUXID])
    run([UTIL, "start", "ganeti-luxid"])
    daemon.wait_until(lambda status: status["cluster"]["ganeti_rules"] == "3.0")


def test_requests_and_plans(daemon: Daemon, tmp_path: Path) -> None:
    served = daemon.served()
    primary, secondary = nodes_of("after")
    succeed(["gnt-instance", "replace-disks", *EXECUTABLE, "after"], add("shared", "sharedfile"))
    assert nodes_of("after")[1] != secondary
    succeed(["gnt-node", "evacuate", "-f", *EXECUTABLE, "--primary-only", primary])
    assert table("gnt-node", "pinst_cnt", primary) == [["0"]]
    assert daemon.served() == served + 3
    node = next(node for node in nodes_of("after") if node != MASTER)
    run(["gnt-node", "modify", "--drained=yes", node])
    agree(tmp_path)
    for source in "-L", "-D":
        run([PROGRAMS / "hbal", source, "-G", "default", "-X"])
    assert table("gnt-node", "pinst_cnt,sinst_cnt", node) == [["0", "0"]]
    run(["gnt-node", "modify", "--drained=no", node])
    agree(tmp_path)


@pytest.mark.slow
def test_master_fails_over_and_back(daemon: Daemon, tmp_path: Path) -> None:
    with Daemon(node="node2") as second:
        for old, new in ((daemon, second), (second, daemon)):
            new.wait_until_it_is_idle()
            run(["gnt-cluster", "master-failover"], node=new.node)
            new.wait_until_it_leads()
            old.wait_until_it_is_idle()
            agree(tmp_path, new.node)
