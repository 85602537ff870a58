"""Jobs as a shell script, for people to read or to run."""

from collections.abc import Sequence

from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.execution.review import Say
from ganeti_htools.files import write_text
from ganeti_htools.planning.jobsets import BalancingMove

_SCRIPT = """\
#!/bin/sh

# Auto-generated script for executing cluster rebalancing

# To stop, touch the file /tmp/stop-htools

set -e

check() {
  if [ -f /tmp/stop-htools ]; then
    echo 'Stop requested, exiting'
    exit 0
  fi
}

"""


def move_script(sets: Sequence[Sequence[BalancingMove]]) -> str:
    """Return the shell commands of moves, one jobset after the other."""
    return listed([[move.shell_commands for move in moves] for moves in sets])


def job_script(sets: Jobsets) -> str:
    """Return the shell commands of jobs, one jobset after the other."""
    return listed([[job.commands for job in jobs] for jobs in sets])


def listed(sets: Sequence[Sequence[Sequence[str]]]) -> str:
    """Make the script of jobsets; each job is a list of shell commands."""
    lines = []
    for number, jobs in enumerate(sets, 1):
        lines += ["", f"echo jobset {number}, {len(jobs)} jobs"]
        for place, commands in enumerate(jobs, 1):
            lines += [f"  echo job {number}/{place}", "  check"]
            lines += [f"  {command}" for command in commands]
    return "".join(f"{line}\n" for line in lines)


def shown(lines: str) -> str:
    """Shell commands for reading."""
    return "".join(f"  {line}\n" for line in lines.splitlines() if line != "  check")


def script(lines: str) -> str:
    """A script that runs shell commands, and stops between two jobs when asked to."""
    return _SCRIPT + lines


def give_commands(line: CommandLine, title: str, lines: str, tell: Say) -> None:
    """Print the shell commands under a title, or write them to the file of ``-C``. Raises HtoolsError."""
    if line.print_commands == "-":
        tell("", title)
        if lines:
            tell(shown(lines).removesuffix("\n"))
    elif line.print_commands is not None:
        write_text(line.print_commands, script(lines))
        tell(f"The commands have been written to file '{line.print_commands}'")
