"""Others move instances, and the figures follow. What this leaves behind is named with a remedy."""

import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from ganeti_htools.backends import text
from ganeti_htools.sources.source import Source, read
from tests.integration.cluster import (
    ADD,
    MASTER,
    SMALL,
    TOP,
    Command,
    add_shared,
    locked,
    luxi,
    nodes_of,
    refusal,
    remove,
    run,
    start,
    succeed,
    switch_off,
    switch_on,
)
from tests.integration.daemon import Daemon
from tests.support.programs import PROGRAMS

pytestmark = pytest.mark.integration

WEB, OTHER = "placed-web", "placed-other"
RARELY = "config_seconds = 1\nlive_seconds = 10_000"
CHANGES: list[Command] = [
    ["gnt-instance", "migrate", "-f", WEB],
    ["gnt-instance", "failover", "-f", WEB],
    ["gnt-instance", "shutdown", WEB],
    ["gnt-instance", "startup", WEB],
    ["gnt-instance", "replace-disks", "-n", "node1", WEB],
]


@pytest.fixture(autouse=True)
def web() -> Iterator[None]:
    """A mirrored instance, and one on its secondary: Ganeti looks for instances on primary nodes only."""
    run([*ADD, *SMALL, "-t", "drbd", "-s", "1G", "-n", "node2:node3", WEB])
    add_shared({OTHER: "node3"})
    yield
    remove(WEB, OTHER)


def known(source: Source) -> str:
    return text.dump(read(source, lambda _text: None).cluster)


def test_figures_follow_what_others_do() -> None:
    """Even while a job runs, so that not all nodes are asked."""
    with Daemon(RARELY) as daemon, locked("node4"):
        for command in CHANGES:
            run(command)
            assert known(Source(daemon=daemon.socket)) == known(Source(luxi=str(luxi())))
        assert daemon.status()["cluster"]["polls"]["live"]["done"] == 1


def faults(daemon: Daemon) -> list[Any]:
    daemon.refresh()
    found = [each for each in daemon.status()["attention"] if each["kind"] in ("wrongnode", "up")]
    told = start([PROGRAMS / "hcheck", "-D", "--no-simulation"]).communicate()[1]
    assert all(f"Warning: {each['text']}; next: {each['command']}\n" in told for each in found)
    return found


@pytest.mark.slow
def test_instance_that_runs_where_or_when_it_should_not_is_named_with_the_remedy() -> None:
    primary, secondary = (TOP / node / "var/run/ganeti/fake-hypervisor" / WEB for node in nodes_of(WEB))
    with Daemon(RARELY) as daemon:
        assert faults(daemon) == []
        machine = primary.read_bytes()
        primary.rename(secondary)
        (fault,) = faults(daemon)
        assert (fault["kind"], fault["names"]) == ("wrongnode", [WEB])
        assert "migrate --cleanup" in fault["command"]
        succeed(shlex.split(fault["command"].replace("--cleanup", "--cleanup -f")))
        assert nodes_of(WEB) == ["node3", "node2"]
        assert faults(daemon) == []
        succeed(["gnt-instance", "shutdown", WEB])
        secondary.write_bytes(machine)
        (fault,) = faults(daemon)
        assert (fault["kind"], fault["names"]) == ("up", [WEB])
        succeed(shlex.split(fault["command"]))
        assert faults(daemon) == []


@pytest.mark.slow
def test_volumes_left_on_a_node_that_was_offline_are_named_with_the_remedy() -> None:
    """They are in the way of the move back, which succeeds without them."""
    primary, lost = nodes_of(WEB)
    switch_off(lost)
    run(["gnt-node", "modify", "--offline=yes", "--auto-promote", lost])
    succeed(["gnt-instance", "replace-disks", "-n", MASTER, WEB])
    switch_on(lost)
    run(["gnt-node", "modify", "--force", "--offline=no", lost])
    back = PROGRAMS / "hbal", "-D", "-G", "default", "-E", "-O", MASTER, f"--select-instances={WEB}", "-X"
    with Daemon() as daemon:
        daemon.refresh()
        assert "already exists" in refusal(back)
        assert nodes_of(WEB) == [primary, MASTER]
        (fault,) = (each for each in daemon.status()["attention"] if each["kind"] == "volume")
        (volume,) = fault["names"]
        assert f"{lost} still has volume {volume} of {WEB}" in fault["text"]
        (shown,) = run([PROGRAMS / "htoolsctl", "status"])
        assert f"{fault['text']}; next: {fault['command']}" in " ".join(shown.split())
        run(shlex.split(fault["command"]), node=lost)
        succeed(back)
        assert nodes_of(WEB) == [primary, lost]
        daemon.refresh()
        assert not any(each["kind"] == "volume" for each in daemon.status()["attention"])
