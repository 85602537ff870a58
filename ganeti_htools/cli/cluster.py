"""The cluster of a command line: read, prepared for planning, saved."""

from collections.abc import Callable

from ganeti_htools.cli.terminal.messages import progress, say, warn
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.plans import view_of
from ganeti_htools.commandline.sources import dynamic_load_of, source_of
from ganeti_htools.files import write_text
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError, during, inconsistency_warning
from ganeti_htools.model.inconsistencies import inconsistencies
from ganeti_htools.model.state import State
from ganeti_htools.planning.view import state_of
from ganeti_htools.sources.dynamic_load import with_dynamic_load
from ganeti_htools.sources.source import Reading, read


def load(line: CommandLine) -> Cluster:
    """Read the cluster that the options name, with its dynamic load. Raises HtoolsError."""
    return read_cluster(line).cluster


def read_cluster(line: CommandLine) -> Reading:
    """Read the cluster that the options name, with its dynamic load and its generations.

    Raises HtoolsError; also for nodes whose figures are older than their instances, if the plan will be
    carried out.
    """
    wanted = source_of(line)
    with during("failed to load data, aborting"), progress("reading the cluster"):
        reading = read(wanted, warn, line.verbose > 1)
    say(inconsistency_warning(reading.inconsistencies))
    if reading.updating and line.exec:
        raise HtoolsError(f"{reading.updating}; nothing is carried out")
    return reading._replace(cluster=with_load(reading.cluster, line))


def with_load(cluster: Cluster, line: CommandLine) -> Cluster:
    """Add the dynamic load that the options name. Raises HtoolsError."""
    return with_dynamic_load(cluster, dynamic_load_of(line), warn)


def make_state(cluster: Cluster, line: CommandLine) -> State:
    """Derive the state of a cluster under the options that change how it is seen.

    Warns of inconsistent figures on standard error. Raises HtoolsError for unknown names.
    """
    state = state_of(cluster, view_of(line))
    if line.verbose:
        say(inconsistency_warning(inconsistencies(state)))
    return state


def save(line: CommandLine, extension: str, when: str, cluster: Callable[[], Cluster]) -> None:
    """Write a cluster to the file that ``-S`` and the extension name, if ``-S`` is given.

    ``cluster`` makes the cluster; ``when`` is like "before balancing". Raises HtoolsError.
    """
    if line.save is None:
        return
    from ganeti_htools.backends import text  # seldom needed

    path = f"{line.save}.{extension}"
    write_text(path, text.dump(cluster()))
    say(f"The cluster state {when} has been written to file '{path}'\n")
