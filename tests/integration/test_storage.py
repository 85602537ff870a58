"""Several volume groups on a real Ganeti: each test takes the cluster as the one before has left it.

``imitations/lvm.py`` says which node has what: in the node group "default" node1 and node2 have ssdvg and
hddvg, in the other one node4 has both.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.client.calls import ask
from tests.integration import cluster
from tests.integration.cluster import (
    ADD,
    EXECUTABLE,
    GROUPS,
    MASTER,
    SMALL,
    TOP,
    jobs,
    nodes_of,
    refusal,
    remove,
    run,
    start,
    succeed,
    table,
)
from tests.integration.daemon import Daemon
from tests.support.programs import PROGRAMS

pytestmark = pytest.mark.integration

SSD, HDD = "size=5G,vg=ssdvg", "size=4G,vg=hddvg"
CTL = (PROGRAMS / "htoolsctl", "storage", "--json")

# Total and free MiB of the volume groups of nodes.
Rooms = dict[tuple[str, str], tuple[float, float]]


@pytest.fixture
def asking() -> Iterator[Daemon]:
    """A daemon that has asked all nodes, and not soon again: it has to follow what comes and goes."""
    with Daemon('config_seconds = 1\nlive_seconds = 20\nstorage = "always"') as daemon:
        daemon.wait_until(lambda status: status["cluster"]["storage"]["complete"])
        yield daemon


def add(name: str, template: str, *disks: str, where: tuple[str, ...]) -> list[object]:
    """The command that makes an instance with these disks."""
    numbered = [word for number, disk in enumerate(disks) for word in ("--disk", f"{number}:{disk}")]
    return [*ADD, *SMALL, "-t", template, *numbered, *where, name]


def chosen(group: str) -> tuple[str, ...]:
    """Options that have us choose nodes of a group."""
    return (*EXECUTABLE, "--node-group", group)


def there() -> Rooms:
    """What LVM says."""
    rooms = {}
    for node in GROUPS:
        (out,) = run(["vgs", "--noheadings", "--separator=|", "-o", "vg_name,vg_size,vg_free"], node=node)
        for line in out.splitlines():
            group, total, free = line.strip().split("|")
            rooms[group, node] = float(total), float(free)
    return rooms


def known(storage: Any) -> Rooms:
    """What a program or the daemon says about storage."""
    return {
        (unit["key"], room["node"]): (room["total"], room["free"])
        for unit in storage["units"]
        if unit["type"] == "lvm-vg"
        for room in unit["nodes"]
    }


def agree() -> None:
    """The daemon comes to know what LVM says, on all nodes."""
    theirs, end = there(), time.monotonic() + cluster.PATIENCE
    socket = str(cluster.socket_of(MASTER))
    while (ours := known(ask(socket, "storage", {}, patience=cluster.PATIENCE))) != theirs:
        assert time.monotonic() < end, (ours, theirs)
        time.sleep(0.2)


def opcodes(after: int) -> set[str]:
    """Of what later jobs consist."""
    return {word.partition("(")[0] for job in jobs(after) for word in job.summary.split(",")}


def test_no_job_is_submitted_without_need() -> None:
    before = jobs()[-1].number
    with Daemon() as daemon:
        daemon.refresh()
        run(add("unasked", "plain", "size=1G", where=chosen("default")))
        run([PROGRAMS / "hbal", "-D", "-G", "default"], CTL)
        daemon.wait_for_polls(daemon.polls() + 10)
        assert daemon.status()["cluster"]["storage"]["mode"] == "never"
    assert [job.summary for job in jobs(after=before)] == ["INSTANCE_CREATE(unasked)"]


@pytest.mark.slow
def test_asking_begins_with_a_disk_on_another_unit() -> None:
    """Files are on another unit, so those of other tests go first."""
    rows = table("gnt-instance", "name,disk_template")
    files = [name for name, template in rows if template in ("file", "sharedfile")]
    remove(*files)
    before = jobs()[-1].number
    with Daemon('config_seconds = 1\nlive_seconds = 20\nstorage = "when-needed"') as daemon:
        run(add("usual", "plain", "size=1G", where=chosen("default")))
        daemon.wait_for_polls(daemon.polls() + 10)
        assert daemon.status()["cluster"]["storage"]["needed"] is False
        assert [job.summary for job in jobs(after=before)] == ["INSTANCE_CREATE(usual)"]
        succeed(add("unusual", "plain", "size=1G,vg=ssdvg", "size=1G,vg=hddvg", where=("--node", "node1")))
        daemon.wait_until(lambda status: status["cluster"]["storage"]["complete"])
        assert opcodes(before) == {"INSTANCE_CREATE", "NODE_QUERY_STORAGE"}
        agree()
        remove("unusual", "usual")
        daemon.wait_until(lambda status: status["cluster"]["storage"]["needed"] is False)


def test_new_instances_land_where_all_their_disks_fit(asking: Daemon) -> None:
    # Where instances would go whose node is lost is not the question here.
    run(["gnt-cluster", "modify", "--default-iallocator-params=no-capacity-checks="])
    placed = []
    for number in range(4):
        succeed(add(f"pair{number}", "plain", SSD, HDD, where=chosen("default")))
        placed += nodes_of(f"pair{number}")
        agree()
    assert sorted(placed) == ["node1", "node1", "node1", "node2"]
    assert "lvm-vg/ssdvg" in refusal(add("pair4", "plain", SSD, HDD, where=chosen("default")))
    succeed(add("pair4", "plain", SSD, HDD, where=EXECUTABLE))
    assert nodes_of("pair4") == ["node4"]
    assert "lvm-vg/hddvg" in refusal(add("mirrored", "drbd", HDD, where=chosen("other")))
    agree()
    assert asking.status()["cluster"]["storage"]["failed"] == 0


def test_moves_respect_units(asking: Daemon) -> None:
    """Of two instances on a node that is emptied one has nowhere else to have its mirror."""
    where = ("--node", "node2:node1")
    succeed(
        add("pinned", "drbd", "size=512,vg=ssdvg", "size=1G,vg=hddvg", where=where),
        add("mobile", "drbd", "size=1G,vg=hddvg", where=where),
    )
    agree()
    run(["gnt-node", "modify", "--drained=yes", "node2"])
    agree()
    succeed([PROGRAMS / "hbal", "-D", "-G", "default", "-X"])
    assert nodes_of("pinned") == ["node1", "node2"]
    assert sorted(nodes_of("mobile")) == ["node1", "node3"]
    agree()
    run(["gnt-node", "modify", "--drained=no", "node2"])
    remove("pair0")
    agree()


def test_places_of_disks_are_queried_by_jobs_without_the_configuration(
    asking: Daemon, tmp_path: Path
) -> None:
    """The daemon finds who is master in a directory that has nothing else."""

    def disks() -> dict[str, str]:
        told: Any = ask(asking.socket, "cluster", {}, patience=cluster.PATIENCE)
        return dict(told["storage"]["instances"])

    read = disks()
    assert asking.status()["cluster"]["storage"]["configuration_file"] is True
    assert read["pinned"] == "512,lvm-vg,ssdvg,-,xenvg;1024,lvm-vg,hddvg,-,xenvg"
    asking.kill()
    before = jobs()[-1].number
    (tmp_path / "ssconf_master_node").symlink_to(TOP / MASTER / "var/lib/ganeti/ssconf_master_node")
    more = f'config_seconds = 1\nstorage = "always"\nssconf_dir = "{tmp_path}"'
    with Daemon(more) as other:
        other.wait_until(lambda status: status["cluster"]["storage"]["complete"])
        assert other.status()["cluster"]["storage"]["configuration_file"] is False
        assert disks() == read
        agree()
    assert opcodes(before) == {"INSTANCE_QUERY_DATA", "NODE_QUERY_STORAGE"}


def test_tools_that_query_units_agree() -> None:
    (out,) = run([PROGRAMS / "hinfo", "-L", "--ask-storage", "--storage", "--json"])
    assert known(json.loads(out)["storage"]) == there()


@pytest.mark.slow
def test_refuses_instance_that_could_not_come_back(asking: Daemon) -> None:
    """Two nodes of the group have the volume group; what is on one is lost while it is full on the other.

    An instance elsewhere still names both groups.
    """
    run(["gnt-cluster", "modify", "--default-iallocator-params="])
    remove("pair1", "pair2", "pair3", "pinned", "mobile")
    new = add("lonely", "plain", "size=4G,vg=ssdvg", where=chosen("default"))

    def losses() -> dict[str, int]:
        # Its exit status tells that data is lost, which that of plain instances is.
        with start([PROGRAMS / "hcheck", "-D", "--what-if-lost", "any", "--json"]) as process:
            out, _err = process.communicate(timeout=cluster.PATIENCE)
        return {each["node"]: each["not_back"] for each in json.loads(out)["lost"]}

    agree()
    unharmed = losses()
    succeed(new)
    agree()
    assert losses() == unharmed
    remove("lonely")
    succeed(add("filler", "plain", "size=7G,vg=ssdvg", where=("--node", "node2")))
    agree()
    assert losses() == unharmed
    assert "FailDisk: 2, FailN1: 1; most missing: disk space on lvm-vg/ssdvg" in refusal(new)
    succeed(add("lonely", "plain", "size=4G,vg=ssdvg", where=("--node", "node1")))
    agree()
    assert losses() == unharmed | {"node1": unharmed["node1"] + 1}


@pytest.mark.slow
def test_queries_are_cheap(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints what the jobs cost Ganeti that ask all nodes once."""
    first, times, began = jobs()[-1].number, 2, time.monotonic()
    master, nodes = cluster.master_cpu(), cluster.nodes_cpu()
    for _ in range(times):
        run([PROGRAMS / "hinfo", "-L", "--ask-storage", "--storage"])
    took = (time.monotonic() - began) / times
    asked = jobs(after=first)
    assert len(asked) % times == 0
    spent = {name: cpu - master[name] for name, cpu in cluster.master_cpu().items()}
    spent["nodes"] = cluster.nodes_cpu() - nodes
    with capsys.disabled():
        print(
            f"\n\nAsking {len(cluster.GROUPS)} nodes for storage: {len(asked) // times} jobs, {took:.1f} s;"
        )
        print("  CPU " + ", ".join(f"{name} {cpu / times * 1000:.0f} ms" for name, cpu in spent.items()))
