"""A real systemd in namespaces of its own, with the project's unit."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from ganeti_htools.client.calls import ask
from tests.support.programs import PATIENCE, PROGRAMS, ROOT, Finished, wait_until

_SCRIPT = ROOT / "tests" / "support" / "boot_systemd"
_TARGET = "[Unit]\nDefaultDependencies=no\n"
# There is no journal. The checkout and the interpreter may be in directories that the unit does not see.
_DROP_IN = """\
[Unit]
DefaultDependencies=no
After=
Wants=
[Service]
StandardError=append:/mnt/log
WatchdogSec=6
BindReadOnlyPaths={root}
ProtectHome=tmpfs
BindReadOnlyPaths={prefix}
"""


class Booted:
    """The booted systemd; ``directory`` is its /mnt, ``root`` leads to its files."""

    def __init__(self, directory: Path, pid: int) -> None:
        self.directory = directory
        self.root = Path(f"/proc/{pid}/root")
        self.socket = self.root / "run/htoolsd/htoolsd.sock"
        self._enter = [
            "nsenter",
            f"--target={pid}",
            "--mount",
            "--pid",
            "--uts",
            "--ipc",
            "--net",
            "--cgroup",
        ]

    def command(self, *command: object) -> list[str]:
        """Return the command that runs ``command`` inside."""
        return [*self._enter, *map(str, command)]

    def run(self, *command: object) -> Finished:
        """Run a command inside."""
        return subprocess.run(self.command(*command), capture_output=True, text=True, timeout=PATIENCE)

    def systemctl(self, *words: str) -> str:
        """Run systemctl, which must succeed; return what it prints."""
        finished = self.run("systemctl", *words)
        assert finished.returncode == 0, f"{finished.stderr}\n{self.log()}"
        return finished.stdout.strip()

    def main_pid(self) -> str:
        """The daemon's process id inside."""
        return self.systemctl("show", "--property=MainPID", "--value", "htoolsd")

    def log(self) -> str:
        """The daemon's log."""
        log = self.directory / "log"
        return log.read_text() if log.exists() else ""

    def status(self) -> Any:
        """The daemon's status."""
        return ask(str(self.socket), "status", {}, patience=PATIENCE)


@contextmanager
def booted(directory: Path, config: str) -> Iterator[Booted]:
    """Boot systemd with the unit installed; skip the test where that is not possible."""
    if os.getuid() or not os.path.exists("/lib/systemd/systemd"):
        pytest.skip("needs root and systemd")
    if not all(path.stat().st_mode & 1 for path in [ROOT, *ROOT.parents]):
        pytest.skip(f"other users cannot read {ROOT}")
    if Path("/tmp") in ROOT.parents:
        pytest.skip(f"systemd has a /tmp of its own, without {ROOT}")
    directory.chmod(0o755)
    units = directory / "units"
    (units / "htoolsd.service.d").mkdir(parents=True)
    (units / "test.target").write_text(_TARGET)
    unit = (ROOT / "systemd/htoolsd.service").read_text()
    (units / "htoolsd.service").write_text(unit.replace("/usr/local/bin/htoolsd", str(PROGRAMS / "htoolsd")))
    (units / "htoolsd.service.d/test.conf").write_text(_DROP_IN.format(root=ROOT, prefix=sys.base_prefix))
    cgroup = _new_cgroup()
    command = ["setpriv", "--pdeathsig=KILL", str(_SCRIPT), str(directory), str(cgroup)]
    with (directory / "systemd.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: process.poll() is not None or _first_process(process.pid))
        if process.poll() is not None:
            pytest.skip(f"namespaces are not permitted here: {(directory / 'systemd.log').read_text()}")
        found = Booted(directory, _first_process(process.pid))
        wait_until(lambda: process.poll() is not None or (found.root / "run/systemd/private").exists())
        assert process.poll() is None, (directory / "systemd.log").read_text()
        (found.root / "etc/htoolsd.toml").write_text(config)
        yield found
    finally:
        process.kill()
        process.wait()
        wait_until(lambda: "populated 0" in (cgroup / "cgroup.events").read_text())
        for each in sorted(cgroup.rglob("*/"), reverse=True):
            each.rmdir()
        cgroup.rmdir()


def _first_process(unshare: int) -> int:
    """Return the process that unshare has begun in the namespaces; 0 before."""
    if Path(f"/proc/{unshare}/comm").read_text() != "unshare\n":
        return 0
    return int(Path(f"/proc/{unshare}/task/{unshare}/children").read_text() or 0)


def _new_cgroup() -> Path:
    """Make a group below this process's own, for all processes inside."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    hierarchies = [words[1] for words in mounts if words[2] == "cgroup2"]
    (own,) = [
        line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line[:3] == "0::"
    ] or [""]
    try:
        return Path(mkdtemp(prefix="htoolsd-", dir=f"{hierarchies[0]}{own}"))
    except (IndexError, OSError) as error:
        pytest.skip(f"no control group can be made: {error}")
