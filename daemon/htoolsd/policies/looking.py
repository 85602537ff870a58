"""What is known of each node group at the moment, as policies judge it."""

from collections.abc import Callable, Sequence
from datetime import datetime

import trio

from ganeti_htools.luxi import queries
from ganeti_htools.luxi.client import Client
from ganeti_htools.luxi.queries import JobStatus
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.planning.view import View, state_of
from htoolsd.plans.plan import Plan, PlanState
from htoolsd.plans.plans import Plans
from htoolsd.policies.changes import drained
from htoolsd.policies.conditions import Situation, touching
from htoolsd.policies.memory import DAY
from htoolsd.policies.policy import Policy
from htoolsd.policies.settings import Settings
from htoolsd.sync.following import Sync

_UNFINISHED = ["|", *(["=", "status", status.value] for status in JobStatus if not status.final)]


def measured(policy: Policy, cluster: Cluster) -> list[tuple[str, float, int]]:
    """Name, score and nodes that fail N+1 of each node group that has nodes. Raises HtoolsError."""
    state = state_of(cluster, View())
    scopes = [(row.name, state.group == number) for number, row in enumerate(cluster.groups)]
    return [(name, *policy.measured(state, scope)) for name, scope in scopes if scope.any()]


async def situations(
    policy: Policy, settings: Settings, sync: Sync, plans: Plans, clock: Callable[[], float]
) -> tuple[Cluster, list[Situation]]:
    """The cluster, and how it is with each node group that the policy is about. Raises HtoolsError."""
    model, cluster = sync.model, sync.model.cluster
    if not sync.master or cluster is None:
        raise HtoolsError("the cluster is not known yet" if sync.master else "this is not the master node")
    if unknown := {*settings.groups} - {group.name for group in cluster.groups}:
        raise HtoolsError(f"there is no node group {', '.join(sorted(unknown))}")
    async with sync.client() as ganeti:
        paused = await queries.watcher_pause(ganeti)
        jobs = await _unfinished(ganeti)
    found = await trio.to_thread.run_sync(measured, policy, cluster, abandon_on_cancel=True)
    now, away, names = clock(), drained(model), _names(cluster)
    known = frozenset[str]().union(*names.values())
    seen = []
    for name, score, n1 in found:
        if settings.groups and name not in settings.groups:
            continue
        here = names[name]
        there = [plan for plan in plans.all if name in plan.facts["groups"]]
        seen.append(
            Situation(
                now,
                datetime.fromtimestamp(now),
                name,
                score,
                n1,
                drained=[node for node in away if node in here],
                silent=model.silent,
                updating=[node for node in model.updating if node in here],
                late=sync.late,
                paused=paused or 0.0,
                jobs=[number for number, opcodes in jobs if touching(opcodes, here, known)],
                plan=next((plan.id for plan in there if plan.state.going), None),
                proposal=next((plan.id for plan in there if _waits(plan, policy, now)), None),
            )
        )
    return cluster, seen


def _waits(plan: Plan, policy: Policy, now: float) -> bool:
    """Whether a plan that the policy proposed today has not been begun."""
    ours = plan.facts.get("policy") == policy.name and plan.state is PlanState.PLANNED
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


async def _unfinished(ganeti: Client) -> Sequence[tuple[int, Sequence[dict[str, object]]]]:
    """The number and the opcodes of each job that has not ended. Raises LuxiError."""
    rows = await queries.query(ganeti, "job", ["id", "ops"], _UNFINISHED)
    return [(int(row.values["id"]), row.values.get("ops") or []) for row in rows]
