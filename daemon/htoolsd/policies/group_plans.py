"""Plans of ``hsqueeze`` about one node group, which is looked at as a cluster of its own. Pure functions."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.balancing.recheck import retrace
from ganeti_htools.engine.squeezing.candidates import pool_left_to
from ganeti_htools.engine.squeezing.power_group import switched
from ganeti_htools.engine.squeezing.power_plan import Action, Allowed, PowerPlan
from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.execution.review import Check, Review
from ganeti_htools.execution.wording import Say
from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.planning import hsqueeze, view
from ganeti_htools.planning.hsqueeze import Options
from ganeti_htools.planning.leftovers import leftovers
from ganeti_htools.planning.proposal import Execution, OnChange, Proposal
from ganeti_htools.planning.view import View
from htoolsd.policies.bounds import Bounds
from htoolsd.policies.policy import Planned, staying
from htoolsd.policies.safety import guarded, safe, steps_of
from htoolsd.policies.settings import Reserve, Squeeze


def part(cluster: Cluster, name: str) -> Cluster:
    """A node group as a cluster of its own. Raises HtoolsError if instances are in another group as well."""
    row = next(row for row in cluster.groups if row.name == name)
    nodes = {node.name: node for node in cluster.nodes if node.group == row.uuid}
    rows = [each for each in cluster.instances if each.pnode in nodes or each.snode in nodes]
    for each in rows:
        if each.pnode not in nodes or not (each.snode is None or each.snode in nodes):
            raise HtoolsError(f"instance {each.name} is in group {name} and in another one")
    left = tuple(nodes.values())
    pool = pool_left_to(cluster, left)
    return replace(cluster, groups=(row,), nodes=left, instances=tuple(rows), candidate_pool=pool)


def options_for(cluster: Cluster, group: Cluster, settings: Squeeze, bounds: Bounds | None = None) -> Options:
    """What hsqueeze is asked for in a group that is :func:`part` of a cluster; without ``bounds`` nothing
    rests. Raises HtoolsError for unknown names.
    """
    here = {instance.name for instance in group.instances}
    stay = staying(cluster, settings, bounds.resting if bounds else ())
    return Options(
        View(exclude_instances=tuple(name for name in stay if name in here)),
        Execution(on_change="stop", reason="policy squeeze of htoolsd"),
        minimal_resources=settings.minimal_resources,
        target_resources=settings.target_resources,
        prefer=_here(cluster, group, "prefer", settings.prefer),
        never=(*_here(cluster, group, "never", settings.never), *(_kept_up(group, bounds) if bounds else ())),
        max_nodes=settings.max_nodes,
        allow_drbd=settings.allow_drbd,
        allow_all=settings.allow_all,
    )


def _kept_up(group: Cluster, bounds: Bounds) -> Iterator[str]:
    """Nodes that must not be emptied at present. Whatever forbids that, besides ``never``, belongs here."""
    yield from (node.name for node in group.nodes if node.name in (*bounds.switched, *bounds.claimed))


def _here(cluster: Cluster, group: Cluster, key: str, names: Iterable[str]) -> tuple[str, ...]:
    """Of names of nodes, and tags of nodes, at a key, those that mean something in the group. Raises
    HtoolsError for those that mean nothing anywhere.
    """

    def meant(name: str, node: Node) -> bool:
        return name in (node.name, *node.tags) or node.name.startswith(f"{name}.")

    for name in names:
        if not any(meant(name, node) for node in cluster.nodes):
            raise HtoolsError(f"{key}: {name} is neither a node nor a tag of one")
    return tuple(name for name in names if any(meant(name, node) for node in group.nodes))


def proposed(group: Cluster, options: Options, found: Mapping[str, Any]) -> tuple[PowerPlan, Proposal]:
    """A plan, from what was found of it; and as it is handed over."""
    state = hsqueeze.seen(group, options)
    plan = hsqueeze.plan_again(state, options, found)
    return plan, hsqueeze.proposed(state, plan, options)


def made(group: Cluster, options: Options, found: Mapping[str, Any], mib: int = 0) -> Planned:
    """A plan to be carried out on the whole cluster. ``mib`` is what its moves copy."""
    plan, proposal = proposed(group, options, found)
    after = score_of(plan.state, np.ones(len(plan.state.group), np.bool_))
    whole = replace(proposal, review=lambda *how: _reviewer(proposal, options, group, *how))
    stops = len(hsqueeze.stopped(plan.state, plan))
    return Planned(options, whole, len(plan.steps), mib, after, tuple(found["nodes"]), stops)


def safe_steps(group: Cluster, options: Options, proposal: Proposal) -> int:
    """How many of the first moves of a plan cost no redundancy or reserve.

    In each phase its nodes are online, or drained; those that are drained late take instances of lost nodes
    until then.
    """
    state, found, steps = hsqueeze.seen(group, options), proposal.found, steps_of(proposal.jobs)
    everywhere, movable = np.ones(len(state.group), np.bool_), view.movable(state, options.view)
    off, count = found["action"] == Action.OFFLINE.value, 0
    for phase in found["phases"]:
        own = steps[count : count + phase["steps"]]
        early = [state.nodes[name] for name in phase["nodes"] if name not in phase["late"]]
        state = switched(state, early, off)
        kept = safe(state, everywhere, movable, own, _reserve(options))
        count += kept
        if kept < len(own):
            break
        deque(retrace(state, movable, ((step, 0.0) for step in own)), 0)
        state = switched(state, [state.nodes[name] for name in phase["late"]], off)
    return count


def _reserve(options: Options) -> Reserve:
    return Reserve(options.factors[0], options.allowed is not Allowed.POOLS)


def _reviewer(proposal: Proposal, options: Options, group: Cluster, on_change: OnChange, say: Say) -> Check:
    """The check of a plan that was made for the group alone."""
    name, left = group.groups[0].name, str(leftovers(group))
    inner = proposal.review(on_change, say)
    safer = guarded(inner, options.view, name, _reserve(options))
    begun = False

    def check(cluster: Cluster, rest: Jobsets, made: int) -> Review:
        nonlocal begun
        now = part(cluster, name)
        if not begun and str(leftovers(now)) != left:
            return Review("what an earlier hsqueeze has left there has changed")
        begun = True
        # Before nodes are online, and while they are drained, the plan's own check knows better.
        return (inner if hsqueeze.marked(rest) else safer)(now, rest, made)

    return check
