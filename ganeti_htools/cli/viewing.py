"""The cluster as the options of a command line have it seen."""

from ganeti_htools.cli.terminal.saying import say
from ganeti_htools.commandline.reading import CommandLine
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.derive import missing_resources
from ganeti_htools.model.errors import inconsistencies
from ganeti_htools.model.state import State
from ganeti_htools.planning.view import View, state_of


def view_of(line: CommandLine) -> View:
    """How a command line has a cluster seen."""
    return View(
        offline=line.offline,
        exclusion_tags=line.exclusion_tags,
        min_disk=line.min_disk,
        max_cpu=line.max_cpu,
        static_kvm_node_memory=line.static_kvm_node_memory,
        select_instances=line.select_instances,
        exclude_instances=line.exclude_instances,
        ignore_dynu=line.ignore_dynu,
    )


def seen(cluster: Cluster, line: CommandLine) -> State:
    """The cluster with everything derived; figures that do not add up are told on standard error.

    Raises HtoolsError for unknown names.
    """
    state = state_of(cluster, view_of(line))
    if line.verbose:
        say(inconsistencies(missing_resources(state)))
    return state
