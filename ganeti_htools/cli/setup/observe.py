"""The facts of ``htoolsctl setup``: read from this node, Ganeti and systemd; nothing is changed."""

import grp
import json
import os
import pwd
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ganeti_htools.cli.ctl.commands import CONFIGURATION
from ganeti_htools.cli.setup import steps
from ganeti_htools.cli.setup.steps import ClusterSettings, Command, Facts, OtherCandidate
from ganeti_htools.client import Daemon
from ganeti_htools.files import read_bytes, read_text
from ganeti_htools.model.errors import DataError, HtoolsError, on_one_line
from ganeti_htools.sources.ssconf import Ssconf, this_node

RECORD = "/var/lib/htoolsd.setup"  # names of the steps that setup has done on this node
_LONGEST = 300.0  # seconds for a command, which may wait for other jobs of Ganeti
_ANSWER = re.compile(r"^node: (\S+)\n(.*?)^return code = (\d+)$", re.MULTILINE | re.DOTALL)
_NOT_FOUND = 127  # exit status of a shell without the program


def observer(socket: str, asks_nodes: bool, submits: bool, compared: bool = False) -> Callable[[], Facts]:
    """Return a function that returns the facts.

    With ``asks_nodes`` the other master candidates are asked, once. With ``submits`` there may be a job that
    asks for operating systems. ``compared``: the witness is asked for, here and there.
    """
    ssconf = this_node("")

    def look() -> Facts:
        master, settings = _master(ssconf), _settings(ssconf.configuration)
        leads = master == ssconf.name
        if leads and settings is None:
            raise HtoolsError(f"{ssconf.configuration}: expected the configuration of Ganeti on the master")
        status, problem = _status(socket)
        default = {"default"} if settings and steps.previous(settings.tags) else set()
        facts = Facts(
            node=ssconf.name,
            master=master,
            prefix=_prefix(),
            executable=next(filter(os.path.isfile, _executables()), ""),
            configured=os.path.exists(CONFIGURATION),
            user=_exists(lambda: pwd.getpwnam(steps.IALLOCATOR)),
            group=_exists(lambda: grp.getgrnam(steps.GROUP)),
            unit=_unit(),
            status=status,
            problem=problem,
            settings=settings,
            others=_ask_candidates(_candidates(ssconf) - {master}, compared) if asks_nodes and leads else {},
            compared=compared,
            made=frozenset(made_here()) | default,
        )
        if not (submits and leads and settings) or settings.system or steps.decisions(facts):
            return facts
        return facts._replace(settings=settings._replace(system=_operating_system()))

    return look


def run(command: Command) -> str:
    """Run a command and return what it prints. Raises HtoolsError, also for an exit status above 0."""
    shown = " ".join(command[:2])
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LONGEST,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise HtoolsError(f"{command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise HtoolsError(f"{shown}: no end within {_LONGEST:g} s") from None
    if done.returncode:
        said = " ".join((done.stderr.strip() or done.stdout.strip()).split())
        raise HtoolsError(f"{shown}: {on_one_line(said) or f'exit status {done.returncode}'}")
    return done.stdout


def made_here() -> list[str]:
    """Return the names of the steps that setup has done on this node. Raises HtoolsError."""
    return read_text(RECORD).split() if os.path.exists(RECORD) else []


def read_candidates(nodes: frozenset[str], output: str) -> dict[str, OtherCandidate]:
    """Read what ``gnt-cluster command`` prints of ``htoolsctl setup --dry-run --json`` on other nodes."""
    answers = {node: (said, int(status)) for node, said, status in _ANSWER.findall(output)}
    return {
        node: _read_answer(*answers.get(node, ("Ganeti does not ask it; is it offline?", 1)))
        for node in nodes
    }


def _read_answer(said: str, status: int) -> OtherCandidate:
    try:
        found = json.loads(said)["steps"]
        return OtherCandidate(
            tuple(str(step["name"]) for step in found if step["state"] in ("to do", "by hand"))
        )
    except (ValueError, LookupError, TypeError):
        if status == _NOT_FOUND:
            return OtherCandidate(("executable",))
        return OtherCandidate(unknown=on_one_line(" ".join(said.split())) or "no answer by ssh")


@cache
def _ask_candidates(nodes: frozenset[str], compared: bool) -> Mapping[str, OtherCandidate]:
    options = [word for node in sorted(nodes) for word in ("-n", node)]
    program = os.path.abspath(sys.argv[0])
    command = ("gnt-cluster", "command", *options, program, "setup", "--dry-run", "--json")
    command += ("--witness",) * compared
    try:
        return read_candidates(nodes, run(command) if nodes else "")
    except HtoolsError as error:
        return dict.fromkeys(nodes, OtherCandidate(unknown=str(error)))


def _master(ssconf: Ssconf) -> str:
    """Return the master's name. Raises HtoolsError if there is no cluster."""
    try:
        name = ssconf.master()
    except OSError as error:
        raise HtoolsError(f"{error.filename}: {error.strerror}") from error
    if name is None:
        raise HtoolsError(
            f"{ssconf.directory}: no cluster; expected a node of one (gnt-cluster init, gnt-node add)"
        )
    return name


def _candidates(ssconf: Ssconf) -> frozenset[str]:
    try:
        return ssconf.candidates()
    except OSError as error:
        raise HtoolsError(f"{error.filename}: {error.strerror}") from error


def _settings(path: str) -> ClusterSettings | None:
    """Read Ganeti's configuration; None where there is none. Raises HtoolsError."""
    if not os.path.exists(path):
        return None
    try:
        configuration = json.loads(read_bytes(path))
        cluster, instances = configuration["cluster"], configuration.get("instances", {})
        return ClusterSettings(
            cluster.get("default_iallocator") or "",
            tuple(cluster.get("tags", ())),
            tuple(cluster.get("enabled_disk_templates", ())),
            cluster.get("ipolicy", {}).get("std", {}),
            next((instance["os"] for instance in instances.values() if instance.get("os")), ""),
            cluster.get("default_iallocator_params") or {},
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: expected the configuration of Ganeti") from error


def _status(socket: str) -> tuple[Mapping[str, Any] | None, str]:
    """Return the daemon's status, or why there is none."""
    try:
        return Daemon(socket).status(), ""
    except HtoolsError as error:
        return None, str(error)


def _unit() -> Mapping[str, str] | None:
    """Return systemd's properties of the unit; None where systemd does not run. Raises HtoolsError."""
    if not os.path.isdir("/run/systemd/system"):  # sd_booted(3)
        return None
    names = "--property=LoadState,UnitFileState,User,NeedDaemonReload"
    lines = run(("systemctl", "show", names, steps.IALLOCATOR)).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


@cache
def _operating_system() -> str:
    try:
        return next(iter(run(("gnt-os", "list", "--no-headers")).split()), "")
    except HtoolsError:
        return ""


def _executables() -> Sequence[str]:
    return [f"{directory}/{steps.IALLOCATOR}" for directory in steps.DIRECTORIES]


def _prefix() -> str:
    """Return the prefix of the installation (``packaging/install.py``); empty in a checkout."""
    prefix = os.path.normpath(Path(__file__).parents[3] / "../../..")
    return prefix if os.path.exists(f"{prefix}/lib/ganeti/iallocators/{steps.IALLOCATOR}") else ""


def _exists(look: Callable[[], object]) -> bool:
    try:
        look()
    except KeyError:
        return False
    return True
