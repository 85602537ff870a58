"""``[squeeze]``: powers nodes up and down, and finishes interrupted runs, with the code of ``hsqueeze``.

Pure functions. Each node group is treated as a cluster of its own (:mod:`htoolsd.policies.squeeze_plans`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ganeti_htools.engine.squeezing.power_plan import Action
from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.tags import STANDBY
from ganeti_htools.planning.plan import Progress
from ganeti_htools.planning.squeezing import hsqueeze
from ganeti_htools.planning.squeezing.hsqueeze import SqueezeOptions
from ganeti_htools.planning.squeezing.leftovers import interrupted_run
from htoolsd.config.policies import SqueezeSettings
from htoolsd.policies.remedy import GroupFacts, Need, PlanBounds, Remedy, RemedyPlan
from htoolsd.policies.safety import UNSAFE, affordable
from htoolsd.policies.squeeze_plans import group_alone, is_accepted, options_for, plan_of, safe_steps

_ENOUGH = "every node has the minimal resources free"
_LACKING = "some nodes have less than the minimal resources free"
NO_STANDBY = "no node is left that could be powered up"


# Power up


def need_of_power_up(facts: GroupFacts, settings: SqueezeSettings) -> Need:
    """Whether nodes have less than the minimal resources free. Raises HtoolsError."""
    group = group_alone(facts.cluster, facts.group)
    options = options_for(facts.cluster, group, settings)
    lacking = hsqueeze.lacks_resources(hsqueeze.state_of(group, options), options)
    return Need(lacking, not lacking, _LACKING if lacking else _ENOUGH)


def plan_power_up(
    cluster: Cluster, settings: SqueezeSettings, bounds: PlanBounds, progress: Progress
) -> RemedyPlan:
    """Plan to power up as many nodes as needed, with the first of their moves that the budget allows.

    Later plans make the other moves. Raises HtoolsError.
    """
    group = group_alone(cluster, bounds.group)
    # Nodes that the new ones replace are powered down by another plan, within the bounds for that.
    options = replace(options_for(cluster, group, settings, bounds), max_nodes=0)
    proposal = hsqueeze.HSQUEEZE.propose(group, options, progress)
    if not proposal.found["enough"] and bounds.resting:
        # Resting instances are no reason for more nodes than would be enough without rests.
        free = replace(options, view=options_for(cluster, group, settings).view)
        found = hsqueeze.HSQUEEZE.propose(group, free, progress).found
        if found["enough"]:
            group = _with_standby_only(group, found["nodes"])
            proposal = hsqueeze.HSQUEEZE.propose(group, options, progress)
    found = proposal.found
    if found["action"] != Action.ONLINE.value:
        return RemedyPlan(options, proposal, 0, 0, refusal=_ENOUGH)
    if not found["enough"] and not found["nodes"]:
        return RemedyPlan(options, proposal, 0, 0, refusal=NO_STANDBY)
    steps = found["steps"]
    safe = steps[: safe_steps(group, options, proposal)]
    copies = list(affordable(group, safe, bounds.room))
    if not copies and not found["nodes"]:
        why = "no move fits into the budget" if safe else UNSAFE
        return RemedyPlan(options, proposal, 0, 0, refusal=why)
    enough = found["enough"] and len(copies) == len(steps)
    return plan_of(group, options, {**found, "steps": steps[: len(copies)], "enough": enough}, sum(copies))


def _with_standby_only(group: Cluster, names: Sequence[str]) -> Cluster:
    """Return the group as if only these nodes could be powered up."""

    def stripped(node: Node) -> Node:
        tags = tuple(tag for tag in node.tags if not tag.startswith(STANDBY))
        return node if node.name in names else replace(node, tags=tags)

    return replace(group, nodes=tuple(map(stripped, group.nodes)))


# Power down


def need_of_power_down(facts: GroupFacts, settings: SqueezeSettings) -> Need:
    """Whether perhaps a node can be powered down; only the plan finds out. Raises HtoolsError."""
    group = group_alone(facts.cluster, facts.group)
    options = options_for(facts.cluster, group, settings)
    state = hsqueeze.state_of(group, options)
    if hsqueeze.lacks_resources(state, options):
        return Need(False, True, _LACKING)
    kept = hsqueeze.unsparable(state, options)
    if kept is not None:
        return Need(False, True, f"no node can be spared: {'; '.join(kept)}")
    return Need(True, False, "perhaps some nodes can be spared")


def plan_power_down(
    cluster: Cluster, settings: SqueezeSettings, bounds: PlanBounds, progress: Progress
) -> RemedyPlan:
    """Plan to power down as many nodes as the budget allows to empty, with no other moves.

    Raises HtoolsError.
    """
    group = group_alone(cluster, bounds.group)
    options = options_for(cluster, group, settings, bounds)
    refused, most, offline = None, settings.max_nodes, len(interrupted_run(group).offline)
    while refused is None or most - offline >= settings.min_nodes:
        proposal = hsqueeze.HSQUEEZE.propose(group, replace(options, max_nodes=most), progress)
        found = proposal.found
        if found["action"] != Action.OFFLINE.value or len(found["nodes"]) < settings.min_nodes:
            few = f"fewer than {settings.min_nodes} nodes" if settings.min_nodes > 1 else "no node"
            few = f"{few} can be powered down"
            return refused or RemedyPlan(options, proposal, 0, 0, refusal=few)
        steps = _emptying_steps(group, options, found)
        copies = list(affordable(group, steps, bounds.room))
        if len(copies) == len(steps) <= safe_steps(group, options, proposal):
            return plan_of(group, options, {**found, "steps": steps}, sum(copies))
        why = f"emptying {', '.join(found['nodes'])} would exceed the budget or cost N+1 redundancy"
        refused, most = RemedyPlan(options, proposal, 0, 0, refusal=why), offline + len(found["nodes"]) - 1
    return refused


def _emptying_steps(group: Cluster, options: SqueezeOptions, found: Mapping[str, Any]) -> Sequence[Any]:
    """Return the first steps of a plan that empty its nodes and leave enough free on the others."""
    steps, away = found["steps"], set(found["nodes"])
    places = {row.name: {row.pnode, row.snode} for row in group.instances}
    remaining = {name for name, nodes in places.items() if nodes & away}
    count = 0
    while remaining and count < len(steps):
        step = steps[count]
        (remaining.add if set(step["to"]) & away else remaining.discard)(step["instance"])
        count += 1
    more = 1
    while count < len(steps) and not is_accepted(group, options, {**found, "steps": steps[:count]}):
        count, more = min(count + more, len(steps)), 2 * more
    needed: Sequence[Any] = steps[:count]
    return needed


# Finish

_NO_ACTION = {
    "action": Action.NOTHING.value,
    "nodes": (),
    "phases": (),
    "steps": (),
    "enough": False,
    "kept": {},
}


def need_of_finish(facts: GroupFacts, _settings: SqueezeSettings) -> Need | None:
    """Whether an interrupted hsqueeze has left something; None if not. Raises HtoolsError."""
    found = str(interrupted_run(group_alone(facts.cluster, facts.group)))
    return Need(True, False, f"an earlier hsqueeze has left: {found}") if found else None


def plan_finish(
    cluster: Cluster, settings: SqueezeSettings, bounds: PlanBounds, _progress: Progress
) -> RemedyPlan:
    """Plan to use drained nodes again, to power off offline ones, and to remove tags. Raises HtoolsError."""
    group = group_alone(cluster, bounds.group)
    found = plan_of(group, options_for(cluster, group, settings, bounds), _NO_ACTION)
    rest = interrupted_run(group)
    names = tuple(node.name for node in (*rest.drained, *rest.offline, *rest.online))
    return replace(found, nodes=names).refused(None if names else "an earlier hsqueeze has left nothing")


POWER_UP = Remedy(
    "power up", "squeeze", "hsqueeze", need_of_power_up, plan_power_up, needs_moves=False, resumes=True
)
POWER_DOWN = Remedy(
    "power down", "squeeze", "hsqueeze", need_of_power_down, plan_power_down, yields=True, resumes=True
)
FINISH = Remedy("finish", "squeeze", "hsqueeze", need_of_finish, plan_finish, needs_moves=False, resumes=True)
