"""Instances that change their node groups on a real Ganeti: a story in order, on a cluster without instances.

Three groups see the same shared file storage: "default" has node1 and node2, "other" node4 and node5, "third"
node3. Only the first two have room for mirrored instances.
"""

import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration import cluster
from tests.integration.cluster import (
    ADD,
    EXECUTABLE,
    SMALL,
    add_shared,
    jobs,
    locked,
    nodes_of,
    remove,
    run,
    start,
    succeed,
    table,
    unfinished,
    wait_until,
)
from tests.integration.daemon import Daemon
from tests.support.programs import PROGRAMS

pytestmark = pytest.mark.integration

EMPTYING = (PROGRAMS / "hregroup", "compress", "--group=other")


def add(name: str, template: str, where: str) -> list[object]:
    """The command that makes an instance on these nodes."""
    return [*ADD, *SMALL, "-t", template, "--disk", "0:size=1G", "--node", where, name]


def told(program: str, *arguments: object) -> Any:
    """What a tool says as JSON."""
    (out,) = run([PROGRAMS / program, *arguments, "--json"])
    return json.loads(out)


def health() -> dict[str, str]:
    """That of each group."""
    return {group["name"]: group["health"] for group in told("hregroup", "groups", "-L")["groups"]}


def stranded() -> int:
    """How many instances have their primary on an offline node, as ``hcheck`` says."""
    found = told("hcheck", "-L", "--no-simulation")
    return int(found["cluster"]["initial"]["offline_pri"])


def groups_of(instance: str) -> set[str]:
    """The groups of its nodes."""
    return {group for node, group in table("gnt-node", "name,group") if node in nodes_of(instance)}


def on(*nodes: str) -> list[str]:
    """The instances of some nodes."""
    rows = table("gnt-instance", "name,pnode,snodes")
    return [name for name, primary, secondary in rows if {primary, secondary} & set(nodes)]


@contextlib.contextmanager
def under_way(command: cluster.Command) -> Iterator[subprocess.Popen[str]]:
    """A program whose first jobs are submitted, and do not begin before the end of the context."""
    with locked("node4", "node5"):
        last = jobs()[-1].number
        process = start(command)
        wait_until(lambda: jobs(after=last) or process.poll() is not None)
        yield process


def test_all_groups_are_balanced() -> None:
    remove(*(name for (name,) in table("gnt-instance", "name")))
    run(["gnt-group", "add", "third"])
    run(["gnt-group", "assign-nodes", "third", "node3"])
    add_shared({f"{node}-{number}": node for node in ("node2", "node5") for number in (1, 2)})
    command = [PROGRAMS / "hbal", "--all-groups", "--min-gain=0", "-L", "-X"]
    succeed(command)
    assert table("gnt-node", "pinst_cnt") == [["1"], ["1"], ["0"], ["1"], ["1"]]
    before = jobs()
    run(command)
    assert jobs() == before


def test_evacuation_falls_over_into_another_group() -> None:
    """Without the daemon, and with it."""
    run(["gnt-cluster", "modify", "--default-iallocator-params=inter-group="])
    succeed(add("single", "sharedfile", "node3"), add("twin", "drbd", "node1:node2"))
    succeed(["gnt-node", "evacuate", "-f", *EXECUTABLE, "--primary-only", "node3"])
    assert not on("node3")
    with Daemon() as daemon:
        daemon.refresh()
        succeed(["gnt-node", "evacuate", "-f", *EXECUTABLE, "--secondary-only", "node2"])
        decisions = daemon.status()["decisions"]
    assert (decisions["served"], decisions["failed"]) == (1, 0)
    assert groups_of("twin") == {"other"}


def test_a_group_whose_node_is_gone_is_repaired() -> None:
    succeed(add("mirror", "drbd", "node2:node1"), add("mate", "drbd", "node1:node2"))
    concerned = on("node2")
    assert {"mirror", "mate"} < set(concerned)
    assert stranded() == 0
    cluster.switch_off("node2")
    run(["gnt-node", "modify", "--offline=yes", "--auto-promote", "node2"])
    assert (health()["default"], stranded()) == ("unhealthy", len(concerned) - 1)
    with Daemon() as daemon:
        daemon.refresh()
        report = told("hregroup", "redistribute", "-D", "-X")
    assert (report["repaired"], report["execution"]["ending"]) == (["default"], "done")
    assert {move["instance"] for move in report["moves"]} == set(concerned)
    assert not on("node2")
    assert groups_of("mirror") == groups_of("mate") == {"other"}
    assert not {"unhealthy", "weakly unhealthy"} & set(health().values())
    assert stranded() == 0
    assert told("hregroup", "redistribute", "-L", "-X")["moves"] == []
    cluster.switch_on("node2")
    run(["gnt-node", "modify", "--force", "--offline=no", "node2"])
    # Instances cannot return to a node that still has their old volumes.
    run(*(["lvremove", "-f", f"@originstname+{name}"] for name in concerned), node="node2")


@pytest.mark.usefixtures("heeding")
def test_an_interrupted_plan_is_taken_up_by_the_next_run() -> None:
    """One that is interrupted during its first job, then one whose tool is killed then.

    Before that another one has failed between two opcodes, and left an instance between two groups.
    """
    command = [*EMPTYING, "-L", "-X"]
    succeed(["gnt-instance", "replace-disks", "--new-secondary", "node1", "twin"])
    assert groups_of("twin") == {"default", "other"}
    there = len(on("node4", "node5"))
    with under_way(command) as process:
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert any("Interrupted" in line for line in process.stderr)
    out, err = process.communicate(timeout=cluster.PATIENCE)
    assert "not submitted" in out, (out, err)
    assert 0 < (left := len(on("node4", "node5"))) < there
    with under_way(command) as process:
        process.kill()
        process.communicate()
    wait_until(lambda: not unfinished())
    assert 0 < len(on("node4", "node5")) < left
    succeed(command)
    assert not on("node4", "node5")


@pytest.mark.skipif(bool(cluster.TREE), reason="Ganeti 3.1.0~rc2 copies no disks: docs/troubleshooting.md")
def test_a_plain_instance_moves_with_its_disks() -> None:
    succeed(add("plain", "plain", "node4"))
    before = jobs()[-1].number
    succeed([*EMPTYING, "--allow-plain", "-L", "-X"])
    assert [job.summary for job in jobs(after=before)] == ["INSTANCE_MOVE(plain)"]
    assert not on("node4", "node5")


def test_an_emptied_group_is_removed() -> None:
    run(["gnt-group", "assign-nodes", "default", "node4", "node5"])
    run(["gnt-group", "remove", "other"])
    assert health() == {"default": "healthy", "third": "healthy"}
    assert told("hcheck", "-L")["healthy"]
