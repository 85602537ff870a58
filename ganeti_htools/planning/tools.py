"""The tools whose plans the daemon can make: one entry for each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.planning import hbal, hregroup, hsqueeze
from ganeti_htools.planning.proposal import Progress, Proposal


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that plans.

    ``options`` is a dataclass with defaults, which has an ``execution`` (see :mod:`.options`); ``propose``
    makes the plan for a cluster from such options, and may raise HtoolsError.
    """

    options: type[Any]
    propose: Callable[[Cluster, Any, Progress], Proposal]


TOOLS: Mapping[str, Tool] = {
    "hbal": Tool(hbal.Options, hbal.propose),
    "hregroup": Tool(hregroup.Options, hregroup.propose),
    "hsqueeze": Tool(hsqueeze.Options, hsqueeze.propose),
}
