"""The cluster that a command line names, read with its load."""

from ganeti_htools.cli.terminal.saying import say, warn
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.sources import dynamic_load_of, source_of
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError, during, inconsistency_warning
from ganeti_htools.sources.dynamic_load import with_dynamic_load
from ganeti_htools.sources.source import Reading, describe_silent, read


def load(line: CommandLine) -> Cluster:
    """The cluster that the options name, with its dynamic load. Raises HtoolsError."""
    return load_dated(line).cluster


def load_dated(line: CommandLine) -> Reading:
    """The cluster that the options name, with its dynamic load, and the generations that it is of.

    Raises HtoolsError, also if a plan is to be carried out while nodes do not report.
    """
    wanted = source_of(line)
    with during("failed to load data, aborting"):
        reading = read(wanted, warn, line.verbose > 1)
    say(inconsistency_warning(reading.inconsistencies))
    if reading.silent and line.exec and not line.wait_for_nodes:
        raise HtoolsError(
            f"{describe_silent(reading.silent)}: nothing is carried out (--wait-for-nodes waits for them)"
        )
    return reading._replace(cluster=with_load(reading.cluster, line))


def with_load(cluster: Cluster, line: CommandLine) -> Cluster:
    """The cluster with the dynamic load that the options name. Raises HtoolsError."""
    return with_dynamic_load(cluster, dynamic_load_of(line), warn)
