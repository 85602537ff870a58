"""Several volume groups on a real Ganeti: each test takes the cluster as the one before has left it.

``imitations/lvm.py`` says which node has what: in the node group "default" node1 and node2 have ssdvg and
hddvg, in the other one node4 has both.
"""

import json
import time
from collections.abc import Iterator

import pytest

from tests.integration.cluster import (
    ADD,
    EXECUTABLE,
    GROUPS,
    SMALL,
    jobs,
    nodes_of,
    refusal,
    run,
    succeed,
)
from tests.integration.daemon import Daemon
from tests.support.programs import PROGRAMS

pytestmark = pytest.mark.integration

PATIENCE = 60.0  # seconds until the daemon must have come to know what has changed
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


def known(*program: object) -> Rooms:
    """What a program prints of storage."""
    (out,) = run(program)
    told = json.loads(out)
    units = told.get("storage", told)["units"]
    return {
        (unit["key"], room["node"]): (room["total"], room["free"])
        for unit in units
        if unit["type"] == "lvm-vg"
        for room in unit["nodes"]
    }


def agree() -> None:
    """The daemon comes to know what LVM says, on all nodes."""
    end = time.monotonic() + PATIENCE
    while (ours := known(*CTL)) != (theirs := there()):
        assert time.monotonic() < end, (ours, theirs)


def test_nothing_is_submitted_unasked() -> None:
    before = jobs()[-1].number
    with Daemon() as daemon:
        daemon.refresh()
        run(add("unasked", "plain", "size=1G", where=chosen("default")))
        run([PROGRAMS / "hbal", "-D", "-G", "default"], CTL)
        daemon.wait_for_polls(daemon.polls() + 10)
        assert daemon.status()["cluster"]["storage"]["mode"] == "never"
    assert [job.summary for job in jobs(after=before)] == ["INSTANCE_CREATE(unasked)"]


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


def test_moves_respect_them(asking: Daemon) -> None:
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
    succeed(["gnt-instance", "remove", "-f", "pair0"])
    agree()


def test_tools_that_ask_find_the_same() -> None:
    assert known(PROGRAMS / "hinfo", "-L", "--ask-storage", "--storage", "--json") == there()
