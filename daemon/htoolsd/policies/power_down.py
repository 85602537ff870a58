"""Nodes that are not needed are powered down, with the code of ``hsqueeze``. Pure functions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ganeti_htools.engine.squeezing.power_plan import Action
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.planning import hsqueeze
from ganeti_htools.planning.hsqueeze import Options
from ganeti_htools.planning.leftovers import leftovers
from ganeti_htools.planning.proposal import Progress
from htoolsd.policies.bounds import Bounds
from htoolsd.policies.budget import affordable
from htoolsd.policies.conditions import Need
from htoolsd.policies.group_plans import made, options_for, part, proposed, safe_steps
from htoolsd.policies.policy import Facts, Planned, Remedy
from htoolsd.policies.power_up import LACKING
from htoolsd.policies.settings import Squeeze


def need(facts: Facts, settings: Squeeze) -> Need:
    """Whether perhaps a node can be powered down; only the plan finds out. Raises HtoolsError."""
    group = part(facts.cluster, facts.group)
    options = options_for(facts.cluster, group, settings)
    state = hsqueeze.seen(group, options)
    if hsqueeze.lacking(state, options):
        return Need(False, True, LACKING)
    spare = hsqueeze.may_spare(state, options)
    return Need(spare, not spare, "nodes can perhaps be spared" if spare else "no node can be spared")


def planned(cluster: Cluster, settings: Squeeze, bounds: Bounds, progress: Progress) -> Planned:
    """As many nodes as can be emptied with so many moves, and no moves but those that empty them.

    Raises HtoolsError.
    """
    group = part(cluster, bounds.group)
    options = options_for(cluster, group, settings, bounds)
    refused, most, begun = None, settings.max_nodes, len(leftovers(group).offline)
    while refused is None or most - begun >= settings.min_nodes:
        proposal = hsqueeze.propose(group, replace(options, max_nodes=most), progress)
        found = proposal.found
        if found["action"] != Action.OFFLINE.value or len(found["nodes"]) < settings.min_nodes:
            few = f"fewer than {settings.min_nodes} nodes can be powered down"
            return refused or Planned(options, proposal, 0, 0, refusal=few)
        steps = _needed(group, options, found)
        copies = list(affordable(group, steps, bounds.room))
        if len(copies) == len(steps) <= safe_steps(group, options, proposal):
            return made(group, options, {**found, "steps": steps}, sum(copies))
        why = f"to empty {', '.join(found['nodes'])} takes more than the budget, or N+1"
        refused, most = Planned(options, proposal, 0, 0, refusal=why), begun + len(found["nodes"]) - 1
    return refused


def _needed(group: Cluster, options: Options, found: Mapping[str, Any]) -> Sequence[Any]:
    """The first steps of a plan that empty its nodes and leave enough free on the others."""
    steps, away = found["steps"], set(found["nodes"])
    places = {row.name: {row.pnode, row.snode} for row in group.instances}
    there = {name for name, nodes in places.items() if nodes & away}
    count = 0
    while there and count < len(steps):
        step = steps[count]
        (there.add if set(step["to"]) & away else there.discard)(step["instance"])
        count += 1
    more = 1
    while count < len(steps) and not _holds(group, options, {**found, "steps": steps[:count]}):
        count, more = min(count + more, len(steps)), 2 * more
    needed: Sequence[Any] = steps[:count]
    return needed


def _holds(group: Cluster, options: Options, found: Mapping[str, Any]) -> bool:
    """Whether a plan can be made, and leaves what it has to, by the review before its first jobs."""
    _, proposal = proposed(group, options, found)
    return proposal.review("stop", lambda *_lines: None)(group, proposal.jobs, 0).obstacle is None


POWER_DOWN = Remedy("power down", "squeeze", "hsqueeze", need, planned, yields=True, resumes=True)
