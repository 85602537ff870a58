"""``htoolsctl setup`` on a real Ganeti: the part of the cluster, there and back, without systemd."""

import json

import pytest

from tests.integration import cluster
from tests.integration.cluster import jobs, run
from tests.integration.daemon import Daemon
from tests.support.programs import PROGRAMS

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        bool(cluster.TREE), reason="our programs see Ganeti's commands and iallocators of this machine"
    ),
]

SETUP = (PROGRAMS / "htoolsctl", "setup")


def settings() -> tuple[str, list[str]]:
    """The default iallocator and the tags of the cluster."""
    found = json.loads((cluster.TOP / cluster.MASTER / "var/lib/ganeti/config.data").read_text())["cluster"]
    return found["default_iallocator"], found["tags"]


def states(*options: str) -> set[str]:
    """The states of the steps."""
    (out,) = run([*SETUP, *options, "--json"])
    return {step["state"] for step in json.loads(out)["steps"]}


def test_setup_names_the_iallocator_and_gives_back_the_one_before() -> None:
    """The one before is none."""
    run(["gnt-cluster", "modify", "--default-iallocator="])
    before, tags = jobs(), settings()[1]
    with Daemon() as daemon:
        daemon.wait_until_it_leads()
        assert states("--dry-run") == {"done", "to do", "not here"}
        assert jobs() == before
        assert states("--yes") == {"done", "not here"}
        assert settings() == ("htoolsd", [*tags, "htools:setup:iallocator:"])
        assert daemon.served() == 1
        before = jobs()
        assert states("--yes") == {"done", "not here"}
        assert jobs() == before
        run([*SETUP, "--remove", "--yes"])
    assert settings() == ("", tags)
    run(["gnt-cluster", "modify", "--default-iallocator=htoolsd"])
