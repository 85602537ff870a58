"""What is known of each node group at the moment, as policies judge it."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import trio

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.redundancy.n1 import bad_nodes
from ganeti_htools.luxi import job_queries, queries
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.tags import SQUEEZING
from ganeti_htools.planning.view import View, state_of
from htoolsd.plans.plan import Plan, PlanState
from htoolsd.plans.plans import Plans
from htoolsd.policies.bounds import Bounds
from htoolsd.policies.conditions import Need, Situation
from htoolsd.policies.kept import Remembered
from htoolsd.policies.memory import DAY, resting
from htoolsd.policies.policy import Facts, Remedy
from htoolsd.policies.settings import Settings
from htoolsd.policies.touching import touching
from htoolsd.sync.following import Sync


class Measured(NamedTuple):
    """A node group (its name), its score, how many of its nodes fail N+1, and whether something is needed."""

    group: str
    score: float
    n1: int
    need: Need


def measured(remedy: Remedy, settings: Settings, cluster: Cluster) -> list[Measured]:
    """Each node group that has nodes, that the settings name, and of which there is something to tell.

    Raises HtoolsError.
    """
    state = state_of(cluster, View())
    found = []
    for number, row in enumerate(cluster.groups):
        scope = state.group == number
        if not scope.any() or (settings.groups and row.name not in settings.groups):
            continue
        score, n1 = score_of(state, scope), int(bad_nodes(state, scope).sum())
        try:
            need = remedy.need(Facts(cluster, row.name, state, scope, score, n1), settings)
        except HtoolsError as error:
            need = Need(False, True, str(error))
        if need is not None:
            found.append(Measured(row.name, score, n1, need))
    return found


async def situations(
    remedy: Remedy,
    settings: Settings,
    known: Remembered,
    sync: Sync,
    plans: Plans,
    clock: Callable[[], float],
) -> tuple[Cluster, list[Situation]]:
    """The cluster, and how it is with each node group that a policy is about. Raises HtoolsError."""
    model, cluster = sync.model, sync.model.cluster
    if not sync.master or cluster is None:
        raise HtoolsError("the cluster is not known yet" if sync.master else "this is not the master node")
    if unknown := {*settings.groups} - {group.name for group in cluster.groups}:
        raise HtoolsError(f"groups: there is no node group {', '.join(sorted(unknown))}")
    async with sync.client() as ganeti:
        paused = await queries.watcher_pause(ganeti)
        jobs = await job_queries.unfinished(ganeti)
    found = await trio.to_thread.run_sync(measured, remedy, settings, cluster, abandon_on_cancel=True)
    now, names = clock(), _names(cluster)
    everything = frozenset[str]().union(*names.values())
    memory, seen = known.memories[remedy.policy], []
    bounds = Bounds(
        "",
        room=memory.room(settings, now),
        resting=tuple(resting(known.moved, settings, now)),
        switched=tuple(resting(known.switched, settings, now)),
        claimed=tuple(sorted(plans.claimed())),
    )
    for name, score, n1, need in found:
        here = names[name]
        there = [plan for plan in plans.all if name in plan.facts["groups"]]
        nodes = [node for node in cluster.nodes if node.name in here]
        left = [node.name for node in nodes if remedy.resumes and SQUEEZING in node.tags]
        seen.append(
            Situation(
                now,
                datetime.fromtimestamp(now),
                bounds._replace(group=name, n1=n1),
                score,
                need,
                drained=[node.name for node in nodes if node.drained and node.name not in left],
                left=left,
                silent=model.silent,
                updating=[node for node in model.updating if node in here],
                late=sync.late,
                paused=paused or 0.0,
                jobs=[number for number, opcodes in jobs if touching(opcodes, here, everything)],
                plan=next((plan.id for plan in there if plan.state.going), None),
                proposal=next((plan.id for plan in there if _waits(plan, now)), None),
                rounds=memory.of(remedy.title, name),
                moves=remedy.moves,
            )
        )
    return cluster, seen


def _waits(plan: Plan, now: float) -> bool:
    """Whether a plan that a policy proposed today has not been begun."""
    ours = plan.facts.get("policy") is not None and plan.state is PlanState.PLANNED
    return ours and plan.facts["made"] > now - DAY


def _names(cluster: Cluster) -> dict[str, set[str]]:
    """For each node group what names something of it: the group, its nodes and their instances."""
    found = {group.uuid: {group.name, group.uuid} for group in cluster.groups}
    groups = {node.name: found[node.group] for node in cluster.nodes}
    for name, here in groups.items():
        here.add(name)
    for row in cluster.instances:
        for node in (row.pnode, row.snode):
            if node is not None and node in groups:
                groups[node].add(row.name)
    return {group.name: found[group.uuid] for group in cluster.groups}
