"""The commands that carry out a plan, on standard output or as a shell script (``--print-commands``)."""

from collections.abc import Sequence

from ganeti_htools.cli import files
from ganeti_htools.engine.balance import Step
from ganeti_htools.engine.evacuate import Kind
from ganeti_htools.model.cluster import Instance

STOP = "/tmp/stop-htools"

_SCRIPT = f"""#!/bin/sh

# Moves instances according to a plan of htoolsd.
# It stops before the next job once there is a file {STOP}.

set -e

check() {{
  if [ -f {STOP} ]; then
    echo 'Stop requested, exiting'
    exit 0
  fi
}}

"""


def of_step(step: Step, instance: Instance, name: str, nodes: Sequence[str]) -> list[str]:
    """What to tell ``gnt-instance``. ``name`` is what to call the instance, ``nodes`` those of all rows."""
    move = "migrate" if instance.status.running else "failover"
    start = f"{move} -f {name}"

    def replace(node: int) -> str:
        return f"replace-disks -n {nodes[node]} {name}"

    match step.kind:
        case Kind.FAILOVER:
            return [start]
        case Kind.FAILOVER_TO:
            return [f"{move} -f -n {nodes[step.pnode]} {name}"]
        case Kind.REPLACE_SECONDARY:
            return [replace(step.snode)]
        case Kind.REPLACE_AND_FAILOVER:
            return [replace(step.pnode), start]
        case Kind.FAILOVER_AND_REPLACE:
            return [start, replace(step.snode)]
        case Kind.REPLACE_PRIMARY:
            return [start, replace(step.pnode), start]


def of_jobsets(jobsets: Sequence[Sequence[Sequence[str]]]) -> str:
    """The lines of a script: for each set, for each job in it, what to tell ``gnt-instance``."""
    lines = []
    for number, jobs in enumerate(jobsets, 1):
        lines += ["", f"echo jobset {number}, {len(jobs)} jobs"]
        for position, commands in enumerate(jobs, 1):
            lines += [f"  echo job {number}/{position}", "  check"]
            lines += [f"  gnt-instance {command}" for command in commands]
    return "".join(f"{line}\n" for line in lines)


def deliver(path: str | None, title: str, script: str) -> str:
    """What to print: the script's lines if ``path`` is ``-``, else that it has been written there.

    Nothing if ``path`` is None. Raises HtoolsError.
    """
    if path is None:
        return ""
    if path == "-":
        shown = (f"  {line}\n" for line in script.splitlines() if line != "  check")
        return f"\n{title}\n{''.join(shown)}"
    files.write_text(path, _SCRIPT + script)
    return f"The commands have been written to file '{path}'\n"
