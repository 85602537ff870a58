"""The cluster as the options of a command line have it seen."""

from ganeti_htools.cli.terminal.saying import say
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.plans import view_of
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import inconsistency_warning
from ganeti_htools.model.inconsistencies import inconsistencies
from ganeti_htools.model.state import State
from ganeti_htools.planning.view import state_of


def seen(cluster: Cluster, line: CommandLine) -> State:
    """The cluster as the options have it seen, with everything derived.

    Figures that do not add up are told on standard error. Raises HtoolsError for unknown names.
    """
    state = state_of(cluster, view_of(line))
    if line.verbose:
        say(inconsistency_warning(inconsistencies(state)))
    return state
