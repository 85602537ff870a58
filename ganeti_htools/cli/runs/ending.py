"""End of a run: files with its outcome, and the exit status."""

import sys
from collections.abc import Mapping
from typing import Any

from ganeti_htools.cli.cluster import save
from ganeti_htools.cli.report.script import job_script, script
from ganeti_htools.cli.terminal.messages import say
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.execution.record import INTERRUPTED
from ganeti_htools.execution.wording import complaint
from ganeti_htools.files import write_text
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError


def save_outcome(line: CommandLine, cluster: Cluster | None, rest: Jobsets) -> None:
    """Save the outcome of a run (``-S``): the cluster, if it could be read, and the remaining commands.

    Raises HtoolsError, also for a name that commands would take for an option.
    """
    if line.save is None:
        return
    if cluster is not None:
        save(line, "executed", "after execution", lambda: cluster)
    path = f"{line.save}.remaining"
    write_text(path, script(job_script(rest)))
    say(f"The remaining commands have been written to file '{path}'\n")


def conclude(outcome: Mapping[str, Any]) -> None:
    """End the program like its run. Raises HtoolsError after a failure, SystemExit after an interrupt."""
    if outcome["ending"] == INTERRUPTED:
        sys.stdout.flush()
        raise SystemExit(2)
    wrong = complaint(outcome)
    if wrong is not None:
        raise HtoolsError(wrong)
