"""Plans of ``hsqueeze`` for one node group as a cluster of its own. Pure functions.

What another group lacks does not change the plan. Whatever forbids emptying a node stands in
:func:`nodes_staying_up`.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ganeti_htools.engine.balancing.recheck import retrace
from ganeti_htools.engine.squeezing.candidates import candidate_pool_for
from ganeti_htools.engine.squeezing.power_group import with_power
from ganeti_htools.engine.squeezing.power_plan import Action, AllowedMoves
from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.execution.review import Check, Review, Say
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.planning import view
from ganeti_htools.planning.plan import OnChange, Proposal
from ganeti_htools.planning.squeezing import hsqueeze, power_jobs
from ganeti_htools.planning.squeezing.hsqueeze import SqueezeOptions, SqueezePlan
from ganeti_htools.planning.squeezing.leftovers import find_leftovers
from htoolsd.config.policies import Reserve
from htoolsd.policies.remedy import PlanBounds, RemedyPlan
from htoolsd.policies.safety import guarded, safe_moves, steps_of


def group_alone(cluster: Cluster, name: str) -> Cluster:
    """Return a node group as a cluster. Raises HtoolsError for an instance that is also in another group."""
    row = next(row for row in cluster.groups if row.name == name)
    nodes = {node.name: node for node in cluster.nodes if node.group == row.uuid}
    rows = [each for each in cluster.instances if each.pnode in nodes or each.snode in nodes]
    for each in rows:
        if each.pnode not in nodes or not (each.snode is None or each.snode in nodes):
            raise HtoolsError(f"instance {each.name} is in group {name} and in another one")
    group_nodes = tuple(nodes.values())
    pool = candidate_pool_for(cluster, group_nodes)
    return replace(cluster, groups=(row,), nodes=group_nodes, instances=tuple(rows), candidate_pool=pool)


def nodes_staying_up(group: Cluster, bounds: PlanBounds) -> dict[str, str]:
    """Return the nodes that are not powered down now, with the reasons."""
    reasons = dict.fromkeys(bounds.switched, "was powered, or came back, a short time ago")
    reasons |= dict.fromkeys(bounds.claimed, "has claimed resources")
    return {node.name: reasons[node.name] for node in group.nodes if node.name in reasons}


def _rebuild(group: Cluster, options: SqueezeOptions, found: Mapping[str, Any]) -> SqueezePlan:
    """Return a plan from the ``found`` part of a proposal."""
    return hsqueeze.HSQUEEZE.restore(hsqueeze.state_of(group, options), options, found)


def plan_of(group: Cluster, options: SqueezeOptions, found: Mapping[str, Any], mib: int = 0) -> RemedyPlan:
    """Return the plan for the whole cluster from the ``found`` part of a proposal. Its moves copy ``mib``."""
    plan = _rebuild(group, options, found)
    proposal = plan.proposal()
    whole = replace(proposal, review=lambda *how: _reviewer(proposal, options, group, *how))
    moves, after, stops = len(plan.power.steps), proposal.score["after"], len(plan.stopped_instances)
    return RemedyPlan(options, whole, moves, mib, after, tuple(found["nodes"]), stops)


def is_accepted(group: Cluster, options: SqueezeOptions, found: Mapping[str, Any]) -> bool:
    """Whether the review before a plan's first jobs accepts it."""
    plan = _rebuild(group, options, found)
    return plan.review("stop", lambda *_lines: None)(group, plan.jobs(), 0).obstacle is None


def safe_steps(group: Cluster, options: SqueezeOptions, proposal: Proposal) -> int:
    """Count the first moves of a plan that cost neither redundancy nor reserve.

    Each phase is tried with its nodes as they are then: online, or drained. Nodes that are drained late take
    instances of lost nodes until then.
    """
    state, found, steps = hsqueeze.state_of(group, options), proposal.found, steps_of(proposal.jobs)
    everywhere, movable = np.ones(len(state.group), np.bool_), view.movable(state, options.view, sets=True)
    off, count = found["action"] == Action.OFFLINE.value, 0
    for phase in found["phases"]:
        own = steps[count : count + phase["steps"]]
        early = [state.nodes[name] for name in phase["nodes"] if name not in phase["late"]]
        state = with_power(state, early, off)
        safe = safe_moves(state, everywhere, movable, own, _reserve(options))
        count += safe
        if safe < len(own):
            break
        deque(retrace(state, movable, own), 0)
        state = with_power(state, [state.nodes[name] for name in phase["late"]], off)
    return count


def _reserve(options: SqueezeOptions) -> Reserve:
    return Reserve(options.factors[0], options.allowed is not AllowedMoves.POOLS)


def _reviewer(
    proposal: Proposal, options: SqueezeOptions, group: Cluster, on_change: OnChange, say: Say
) -> Check:
    """Return the check of a plan for the group alone, as a check of the whole cluster."""
    name, unfinished = group.groups[0].name, str(find_leftovers(group))
    plain = proposal.review(on_change, say)
    safer = guarded(plain, options.view, name, _reserve(options))
    begun = False

    def check(cluster: Cluster, rest: Jobsets, count: int) -> Review:
        nonlocal begun
        now = group_alone(cluster, name)
        if not begun and str(find_leftovers(now)) != unfinished:
            return Review("the leftovers of an earlier hsqueeze have changed")
        begun = True
        # While nodes are drained or not yet online, hsqueeze's own check is the exact one.
        return (plain if power_jobs.nodes_to_mark(rest) else safer)(now, rest, count)

    return check
