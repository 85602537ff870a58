"""The commands under ATTENTION run as they are shown, with the programs of the package htoolsd in PATH.

There ``hbal`` and its like are Debian's, which know no ``-D``.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.backends import text
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.tags import SQUEEZING
from tests.support.documents import OURS as DOCUMENTED
from tests.support.documents import complaint
from tests.support.programs import PATIENCE, ROOT, Daemon, wait_until
from tests.support.simulators import simulator

OURS = ("hbal", "hcheck", "hmaintain", "hsqueeze", "htoolsctl")

# Commands for what the cluster below lacks, and those that would change the machine: their options are read.
RARE = (
    "gnt-cluster verify",
    "gnt-instance failover -I hail web1",
    "gnt-instance failover web1",
    "gnt-instance migrate --cleanup web1",
    "gnt-instance shutdown web1",
    "gnt-instance startup web1",
    "gnt-node modify --drained=no node1",
    "gnt-node modify --offline=no node1",
    "gnt-node modify --offline=yes --auto-promote node1",
    "hbal -D -E -G rack1",
    "hsqueeze -D -v -v",
    "htoolsctl load",
    "htoolsctl notify --test",
    "htoolsctl plan 1a2b",
    "htoolsctl policies --explain squeeze",
    "htoolsctl refresh",
    "htoolsctl resume 1a2b",
    "htoolsctl run --forget-failures squeeze",
    "htoolsctl usage",
    "htoolsd --config /etc/htoolsd.toml --check-config",
    "journalctl -u htoolsd -p warning",
    "systemctl restart htoolsd",
    "systemctl status ganeti-luxid",
    "systemctl status htoolsd",
)


def cluster() -> Cluster:
    """A cluster that needs attention for many reasons."""
    found = text.parse((ROOT / "examples/drifted.data").read_text(), "drifted.data")
    changes: dict[str, Any] = {
        "node2": {"t_mem": 20000.0, "f_mem": 544},
        "node5": {"drained": True, "offline": True},
        "node6": {"tags": (SQUEEZING,)},
        "node7": {"tags": ("htools:maintenance", "htools:maintenance:run:20261123T184500Z-ab")},
    }
    nodes = (replace(node, **changes.get(node.name, {})) for node in found.nodes)
    rows = [
        replace(row, tags=("service:web", "htools:togeter:x")) if row.name == "web1" else row
        for row in found.instances
    ]
    return replace(found, nodes=tuple(nodes), instances=tuple(rows))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the package htoolsd is installed beside Debian's tools; its usr/bin."""
    root = tmp_path_factory.mktemp("root")
    command: list[str | Path] = [
        sys.executable,
        ROOT / "packaging/install.py",
        "--root",
        root,
        "--prefix",
        "/usr",
    ]
    subprocess.run([*command, "--python", sys.executable, "--dependencies", "none"], check=True)
    for name in (ROOT / "debian/htoolsd-htools.install").read_text().split():
        if name.startswith("usr/bin/"):
            (root / name).unlink()
            (root / name).write_text("#!/bin/sh\necho 'This is of Debian.' >&2\nexit 2\n")
            (root / name).chmod(0o755)
    return root / "usr/bin"


@pytest.fixture(scope="module")
def daemon(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    place = tmp_path_factory.mktemp("daemon")
    instead = ["sh", "-c", 'shift; exec "$0" "$@"', str(installed / "htoolsd")]
    path = {"PATH": f"{installed}:{os.environ['PATH']}"}
    with simulator(place, cluster()):
        daemon = Daemon(place, prefix=instead, environment=path)
        try:
            wait_until(lambda: daemon.status()["cluster"]["nodes"])
            yield daemon
        finally:
            daemon.kill()


@pytest.mark.parametrize("command", RARE)
def test_options_of_rare_commands_exist(command: str) -> None:
    program, *words = command.split()
    if program in DOCUMENTED:
        assert complaint([program, *words]) == ""
        return
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    if program in ("gnt-instance", "gnt-node"):  # they take no option after the name
        del words[-1]
    command_line = [program, *words, "--help"]
    done = subprocess.run(command_line, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")


def test_commands_of_ours_run_as_shown(daemon: Daemon, installed: Path) -> None:
    wait_until(lambda: len(daemon.status()["attention"]) > 5)
    commands = {each["command"] for each in daemon.status()["attention"]}
    environment = os.environ | {
        "PATH": f"{installed}:{os.environ['PATH']}",
        "HTOOLSD_SOCKET": str(daemon.socket),
    }
    ran = set()
    for command in sorted(commands):
        if (name := Path(shlex.split(command)[0]).name) in OURS:
            shown = subprocess.run(
                ["sh", "-c", command], capture_output=True, text=True, env=environment, timeout=PATIENCE
            )
            # hcheck has status 1, because the cluster is not healthy.
            assert shown.returncode == (name == "hcheck"), (command, shown.stderr)
            assert shown.stdout
            ran.add(name)
    assert ran >= {"hbal", "hcheck", "hmaintain", "hsqueeze"}
