"""Marks of runs of ``hmaintain(1)`` on nodes, and whether these runs are still at work.

The last field of a mark is PROCESS-START-HOST: the number of a process, when it started (in ticks since the
boot), and a digest of its host and of the namespace that counts its processes.
"""

import getpass
import hashlib
import os
import re
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ganeti_htools.cli.terminal.messages import warn
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.model.cluster import Node
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.planning.maintenance.review import mark_of, marks

_PROCESS = re.compile(r":(\d+)-(\d+)-(\w+)$")
_LONGEST_WHO = 48  # characters of user and machine: a tag has room for them and for the rest of the mark


def new_mark() -> str:
    """Return the mark of this run: time, user and machine, process."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    who = f"{user}@{socket.gethostname().partition('.')[0]}"[:_LONGEST_WHO]
    return f"{now}:{who}:{os.getpid()}-{start_time(os.getpid())}-{_host()}"


def refuse_living(line: CommandLine, nodes: Iterable[Node], own: str) -> None:
    """Refuse nodes on which another run is at work; warn where that cannot be seen. Raises HtoolsError."""
    found = {mark: node.name for node in nodes for mark in sorted(marks([node]) - {mark_of(own)})}
    plans = _plans(line) if found else {}
    for mark, node in found.items():
        process = _PROCESS.search(mark)
        here = process is not None and process[3] == _host()
        if mark in plans or (process and here and start_time(int(process[1])) == process[2]):
            doing = f"plan {plans[mark]} of htoolsd" if mark in plans else f"process {process and process[1]}"
            raise HtoolsError(
                f"node {node}: the run {mark} is still at work there ({doing});"
                " --take-over goes on in place of runs that were cut off"
            )
        if not here:
            warn(f"Warning: node {node}: whether the run {mark} is still at work cannot be seen here")


def _plans(line: CommandLine) -> dict[str, str]:
    """Return the plans that htoolsd carries out (``-D``), by the marks of their runs."""
    if line.daemon is None:
        return {}
    from ganeti_htools.client import calls  # seldom needed

    found: Any = calls.ask(line.daemon or calls.default_socket(), "plans", {})
    going = [plan for plan in found if plan["state"] in ("running", "stopping") and plan["options"]]
    return {mark_of(plan["options"]["run"]): plan["id"] for plan in going if "run" in plan["options"]}


def start_time(process: int) -> str | None:
    """Return when a process started, in ticks since the boot; None if it is not running."""
    with suppress(OSError):
        state, *fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return None if state in "ZX" else fields[18]
    return None


def _host() -> str:
    """Return a digest of this machine and of the namespace of process numbers."""
    machine = ""
    with suppress(OSError):
        machine = Path("/etc/machine-id").read_text()
    facts = f"{machine}\n{socket.gethostname()}\n{os.stat('/proc/self/ns/pid').st_ino}"
    return hashlib.sha256(facts.encode()).hexdigest()[:8]
