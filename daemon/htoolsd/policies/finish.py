"""What an interrupted run of ``hsqueeze`` has left is finished where nodes are powered neither down nor up.

Pure functions.
"""

from dataclasses import replace

from ganeti_htools.engine.squeezing.power_plan import Action
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.planning.leftovers import leftovers
from ganeti_htools.planning.proposal import Progress
from htoolsd.policies.bounds import Bounds
from htoolsd.policies.conditions import Need
from htoolsd.policies.group_plans import made, options_for, part
from htoolsd.policies.policy import Facts, Planned, Remedy
from htoolsd.policies.settings import Squeeze

_NOTHING = {
    "action": Action.NOTHING.value,
    "nodes": (),
    "phases": (),
    "steps": (),
    "enough": False,
    "kept": {},
}


def need(facts: Facts, _settings: Squeeze) -> Need | None:
    """What was left; None if nothing was. Raises HtoolsError."""
    left = str(leftovers(part(facts.cluster, facts.group)))
    return Need(True, False, f"an earlier hsqueeze has left: {left}") if left else None


def planned(cluster: Cluster, settings: Squeeze, bounds: Bounds, _progress: Progress) -> Planned:
    """Drained nodes are back in use, offline ones powered off, and tags taken. Raises HtoolsError."""
    group = part(cluster, bounds.group)
    found = made(group, options_for(cluster, group, settings, bounds), _NOTHING)
    left = leftovers(group)
    names = tuple(node.name for node in (*left.drained, *left.offline, *left.online))
    return replace(found, nodes=names).refused(None if names else "nothing was left")


FINISH = Remedy("finish", "squeeze", "hsqueeze", need, planned, moves=False, resumes=True)
