"""Others move instances, and the figures follow. What a cut-off migration leaves is named with a remedy."""

import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from ganeti_htools.backends import text
from ganeti_htools.sources.source import Source, read
from tests.integration.cluster import (
    ADD,
    SMALL,
    TOP,
    Command,
    add_shared,
    locked,
    luxi,
    nodes_of,
    remove,
    run,
    start,
    succeed,
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
