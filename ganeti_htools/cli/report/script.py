"""Jobs as a shell script, for people to read or to run."""

from collections.abc import Callable, Sequence

from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.execution.jobs import Job, Jobsets
from ganeti_htools.execution.review import Say
from ganeti_htools.files import write_text
from ganeti_htools.model.errors import HtoolsError

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


def job_script(sets: Jobsets) -> str:
    """Return the shell commands of jobs, one jobset after the other.

    Raises HtoolsError for a name that commands would take for an option.
    """
    for jobs in sets:
        for job in jobs:
            _check_names(job)
    return listed([[job.commands for job in jobs] for jobs in sets])


def _check_names(job: Job) -> None:
    step = job.step
    instances, nodes = ((), ()) if step is None else ((step.instance,), (*step.was, *step.now))
    for kind, names in (("instance", instances), ("node", (*nodes, *job.nodes))):
        for name in names:
            if name.startswith("-"):
                raise HtoolsError(
                    f"{kind} {name!r}: begins with a dash; expected a name that commands do not take for an"
                    " option"
                )


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


def give_commands(line: CommandLine, title: str, commands: Callable[[], str], tell: Say) -> None:
    """With ``-C``, print the shell commands under a title, or write them to its file. Raises HtoolsError."""
    if line.print_commands is None:
        return
    lines = commands()
    if line.print_commands == "-":
        tell("", title)
        if lines:
            tell(shown(lines).removesuffix("\n"))
    else:
        write_text(line.print_commands, script(lines))
        tell(f"The commands have been written to file '{line.print_commands}'")
