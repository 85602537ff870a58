"""Debian's hail beside the daemon, on a real Ganeti: whatever happens to either, claims fit the answer.

Instances wait in their installation while a test looks at the claims.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.integration import cluster
from tests.integration.cluster import ADD, EXECUTABLE, SMALL, nodes_of, remove, run
from tests.integration.daemon import Daemon
from tests.integration.test_claims import GO, SYSTEMS
from tests.support.programs import script

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PROGRAM = Path("/srv/witness")
HAIL = 'HTOOLS=${HTOOLS:-hail} exec /usr/bin/hbal "$@"'  # all of Ganeti's htools are one program
CONFIG = f'config_seconds = 1\n[witness]\nprogram = "{PROGRAM}"\ntimeout_seconds = 2\n'
STATE = cluster.TOP / cluster.MASTER / "htoolsd"


@pytest.fixture(autouse=True)
def system() -> Iterator[None]:
    """A system whose installation waits; no instances stay."""
    shutil.copytree(SYSTEMS / "none", SYSTEMS / "slow")
    script(SYSTEMS / "slow" / "create", f"#!/bin/sh\nuntil [ -e {GO} ]; do sleep 0.1; done\n")
    yield
    GO.touch()
    remove(*(name for (name,) in cluster.table("gnt-instance", "name") if name.startswith("seen")))
    shutil.rmtree(SYSTEMS / "slow")


def create(name: str, body: str, meanwhile: Callable[[], object]) -> list[str]:
    """Create an instance with this witness; its nodes. ``meanwhile`` is before the installation."""
    script(PROGRAM, f"#!/bin/sh\necho $$ >>{PROGRAM}.pids\n{body}\n")
    GO.unlink(missing_ok=True)
    command = [
        *ADD,
        *EXECUTABLE,
        *SMALL,
        "-t",
        "drbd",
        "--disk",
        "0:size=1G",
        "--node-group",
        "default",
        name,
    ]
    with cluster.start([word.replace("none+", "slow+") for word in command]) as adding:
        meanwhile()
        GO.touch()
        out, err = adding.communicate(timeout=cluster.PATIENCE)
    assert adding.returncode == 0, out + err
    return nodes_of(name)


def claimed(daemon: Daemon, name: str, nodes: list[str]) -> None:
    """Wait until an instance is claimed; note its nodes."""

    def allocations() -> list[str]:
        found = [each for each in daemon.ask("allocations") if each["name"].endswith(f"/{name}")]
        return [part["name"].partition("/")[2] for each in found for part in each["allocations"]]

    nodes += cluster.wait_until(allocations)


@pytest.mark.parametrize("answers", ["theirs", "ours"])
def test_ganeti_gets_an_answer_that_fits_the_claims(answers: str) -> None:
    """Also if the witness hangs, prints for ever, or is killed."""
    with Daemon(f'{CONFIG}answers = "{answers}"') as daemon:
        for number, body in enumerate((HAIL, "exec sleep 1000", "exec yes", "kill -9 $$")):
            name, nodes = f"seen-{answers}{number}", list[str]()
            assert sorted(create(name, body, partial(claimed, daemon, name, nodes))) == sorted(nodes)
            (decided,) = daemon.ask("history", instance=name)
            assert (decided["program"] is not None) == (answers == "theirs" and body is HAIL)
        daemon.wait_until(lambda status: len(status["witness"]["counts"].get("allocate", ())) == 3)
        assert daemon.status()["witness"]["counts"]["allocate"] == {"same": 1, "timed out": 1, "failed": 2}
        shutil.rmtree(STATE / "witness")


def test_daemon_is_killed_while_the_witness_decides() -> None:
    (pids := PROGRAM.with_suffix(".pids")).unlink(missing_ok=True)
    with Daemon(CONFIG) as daemon:

        def kill() -> None:
            cluster.wait_until(pids.exists)
            daemon.kill()
            os.utime(f"{daemon.socket}.lock", times=(0, 0))  # long ago: nobody waits for the next daemon

        assert len(create("seen-killed", "exec sleep 1000", kill)) == 2
        run(["kill", *pids.read_text().split()])


def test_disk_is_full() -> None:
    STATE.mkdir(exist_ok=True)
    run(["mount", "-t", "tmpfs", "-o", "size=2M", "tmpfs", STATE])
    try:
        with Daemon(CONFIG) as daemon:
            daemon.wait_until(lambda status: status["ledger"]["lag_s"] is not None)
            with pytest.raises(OSError, match="No space left"):
                (STATE / "full").write_bytes(bytes(2 << 20))
            one_claim = partial(daemon.wait_until, lambda status: status["claims"]["living"] == 1)
            create("seen-full", HAIL, one_claim)
            daemon.wait_until(lambda status: "No space left" in (status["witness"]["error"] or ""))
            daemon.wait_until(lambda status: status["claims"]["living"] == 0)
    finally:
        run(["umount", "--lazy", STATE])
