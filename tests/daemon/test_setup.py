"""``htoolsctl setup`` under a real systemd, on a master candidate without users of Ganeti."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganeti_htools.cli.setup.steps import WITNESS
from tests.support.booted import Booted, booted
from tests.support.programs import PROGRAMS, ROOT, Finished

PREFIX = "/var/opt/htoolsd"
CHANGED = "etc/systemd", "usr/local", "var/lib"
LINK = "usr/local/lib/ganeti/iallocators/htoolsd"
NODE = {"GANETI_HOSTNAME": "node2"}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Booted]:
    """A node with our programs below a prefix of their own."""
    with booted(tmp_path, "") as machine:
        (machine.root / "etc/htoolsd.toml").unlink()
        (machine.root / "etc/systemd/system/htoolsd.service").unlink()
        machine.run("groupdel", "gnt-daemons")
        ganeti = machine.root / "var/lib/ganeti"
        ganeti.mkdir(exist_ok=True)
        (ganeti / "ssconf_master_node").write_text("node1\n")
        (ganeti / "ssconf_master_candidates").write_text("node1\nnode2\n")
        (ganeti / "config.data").write_text('{"cluster": {"default_iallocator": "hail"}}')
        options = "--prefix", PREFIX, "--python", PROGRAMS / "python", "--dependencies", "none"
        assert machine.run(sys.executable, ROOT / "packaging/install.py", *options).returncode == 0
        (machine.root / "etc/htoolsd.toml").unlink()
        machine.systemctl("daemon-reload")
        yield machine


def setup(machine: Booted, *options: str) -> Finished:
    return machine.run(
        "env",
        *(f"{name}={value}" for name, value in NODE.items()),
        f"{PREFIX}/bin/htoolsctl",
        "setup",
        *options,
    )


def states(machine: Booted, *options: str) -> dict[str, str]:
    finished = setup(machine, *options, "--json")
    assert finished.returncode == 0, finished.stderr
    return {step["name"]: step["state"] for step in json.loads(finished.stdout)["steps"]}


def files(machine: Booted) -> set[str]:
    """Files of ours that setup may make or change; others may install something on this machine meanwhile."""
    changes = machine.root / "run/changes"
    found = {str(path.relative_to(changes)) for top in CHANGED for path in (changes / top).rglob("*htoolsd*")}
    return found - {"var/lib/htoolsd"}


def answered(machine: Booted, answers: str) -> Finished:
    """Run setup on a terminal with these answers typed."""
    ours, theirs = os.openpty()
    command = machine.command("env", "GANETI_HOSTNAME=node2", f"{PREFIX}/bin/htoolsctl", "setup")
    os.write(ours, answers.encode())
    try:
        return subprocess.run(command, stdin=theirs, capture_output=True, text=True)
    finally:
        os.close(ours)
        os.close(theirs)


def test_sets_up_a_node_and_undoes_it(machine: Booted) -> None:
    before = files(machine)
    assert set(states(machine, "--dry-run").values()) == {"to do", "not here"}
    assert "no terminal to ask on" in setup(machine).stderr
    assert files(machine) == before
    stopped = answered(machine, "y\nn\n")
    assert stopped.stderr == "htoolsctl: setup: stopped; what was done stays\n"
    assert (machine.root / LINK).is_symlink()
    finished = setup(machine, "--yes", "--witness")
    assert (finished.returncode, finished.stderr) == (0, ""), finished.stdout
    assert machine.systemctl("is-enabled", "htoolsd") == "enabled"
    assert machine.status()["cluster"]["master"] is False
    assert machine.status()["witness"]["program"] == WITNESS
    assert machine.systemctl("show", "--property=User", "--value", "htoolsd") == "root"
    after = files(machine)
    assert set(states(machine, "--yes").values()) == {"done", "not here"}
    assert files(machine) == after
    finished = setup(machine, "--remove", "--yes")
    assert (finished.returncode, finished.stderr) == (0, ""), finished.stdout
    assert files(machine) == before
    assert machine.run("systemctl", "is-active", "htoolsd").stdout == "inactive\n"
    assert set(states(machine, "--remove").values()) == {"done"}
