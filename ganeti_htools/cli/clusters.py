"""The cluster that a command line names: read, with its load, and saved."""

from ganeti_htools.cli.terminal.saying import say, warn
from ganeti_htools.commandline.reading import CommandLine
from ganeti_htools.files import write_text
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError, during, inconsistencies
from ganeti_htools.sources.dynamic_load import DynamicLoad, with_dynamic_load
from ganeti_htools.sources.source import Reading, Source, read, unheard


def load(line: CommandLine) -> Cluster:
    """The cluster that the options name, with its dynamic load. Raises HtoolsError."""
    return load_dated(line).cluster


def load_dated(line: CommandLine) -> Reading:
    """The cluster that the options name, with its dynamic load, and the generations that it is of.

    Raises HtoolsError, also if a plan is to be carried out while nodes do not report.
    """
    wanted = source(line)
    with during("failed to load data, aborting"):
        reading = read(wanted, warn, line.verbose > 1)
    say(inconsistencies(reading.inconsistencies))
    if reading.silent and line.exec and not line.wait_for_nodes:
        raise HtoolsError(
            f"{unheard(reading.silent)}: nothing is carried out (--wait-for-nodes waits for them)"
        )
    return reading._replace(cluster=with_load(reading.cluster, line))


def source(line: CommandLine) -> Source:
    """The source that the options name. Raises HtoolsError if they name several."""
    given = bool(line.master), line.luxi is not None, line.text_data is not None, line.daemon is not None
    if given.count(True) > 1:
        others = "luxi, daemon," if line.daemon is not None else "luxi,"
        raise HtoolsError(f"Only one of the rapi, {others} and data files options should be given.")
    return Source(
        daemon=line.daemon,
        rapi=line.master,
        luxi=line.luxi,
        simulate=line.simulate,
        text=line.text_data,
        request=line.ialloc_src,
        rapi_ca=line.rapi_ca,
        state_of_record=line.state_of_record,
    )


def with_load(cluster: Cluster, line: CommandLine) -> Cluster:
    """The cluster with the dynamic load that the options name. Raises HtoolsError."""
    return with_dynamic_load(cluster, dynamic_load(line), warn)


def dynamic_load(line: CommandLine) -> DynamicLoad:
    """The dynamic load that the options name."""
    return DynamicLoad(
        utilisation=line.dynu_file,
        ignore=line.ignore_dynu,
        mond=line.mond,
        mond_data=line.mond_data,
        xen=line.mond_xen,
        all_required=line.exit_on_missing_mond_data,
    )


def save(prefix: str, extension: str, when: str, cluster: Cluster) -> str:
    """Write a cluster to ``prefix.extension`` in the text format; the result is the line that says so.

    ``when`` is like "before balancing". Raises HtoolsError.
    """
    from ganeti_htools.backends import text  # seldom needed

    path = f"{prefix}.{extension}"
    write_text(path, text.dump(cluster))
    return f"The cluster state {when} has been written to file '{path}'"
