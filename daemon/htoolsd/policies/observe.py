"""Observation: the situation of each node group, from what was seen at one moment; changes of the cluster.

Pure functions.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.redundancy.health import bad_nodes
from ganeti_htools.model.cluster import Cluster, Node, silent_nodes
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.tags import SQUEEZING, standby
from ganeti_htools.planning.plan import Progress
from ganeti_htools.planning.view import View, state_of
from htoolsd.config.policies import PolicySettings, RelieveSettings, Reserve, SqueezeSettings
from htoolsd.plans.plan import Plan
from htoolsd.policies.conditions import Situation
from htoolsd.policies.memory import DAY, PolicyMemories, resting
from htoolsd.policies.names import groups_of
from htoolsd.policies.remedy import GroupFacts, Need, PlanBounds, Remedy
from htoolsd.sync.model import Model

# Opcodes that may change any group unless this parameter names where.
_ANYWHERE = {
    "OP_INSTANCE_CREATE": "pnode",
    "OP_INSTANCE_CHANGE_GROUP": "target_groups",
    "OP_GROUP_EVACUATE": "target_groups",
}
_FREE_TEXT = ("reason", "comment")  # parameters in which names mean nothing


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything from which policies decide, as it was at one moment.

    ``now`` is seconds of the epoch. ``outdated``: the model is too old. ``paused`` is the end of a pause of
    Ganeti's watcher. ``jobs`` are unfinished, with their opcodes. ``plans`` are the daemon's, ``claimed`` the
    nodes with claims. ``settings`` are those of each policy, by the present names of what they mean.
    ``memories`` grow with what policies do. ``groups`` are the node groups that have nodes; ``names`` has, by
    group, those of it, its nodes and their instances.
    """

    model: Model
    cluster: Cluster
    now: float
    outdated: bool
    paused: float
    jobs: Sequence[tuple[int, Sequence[Mapping[str, Any]]]]
    plans: Sequence[Plan]
    claimed: Sequence[str]
    settings: Mapping[str, PolicySettings]
    memories: PolicyMemories
    groups: Sequence[GroupFacts] = ()
    names: Mapping[str, Set[str]] = field(default_factory=dict)


def group_facts(cluster: Cluster, now: float = 0.0) -> list[GroupFacts]:
    """Return the facts of the node groups that have nodes. Raises HtoolsError."""
    state, facts = state_of(cluster, View()), []
    for number, row in enumerate(cluster.groups):
        scope = state.group == number
        if scope.any():
            score, n1 = score_of(state, scope), int(bad_nodes(state, scope).sum())
            facts.append(GroupFacts(cluster, row.name, state, scope, score, n1, now))
    return facts


def needs(remedy: Remedy[Any], groups: Sequence[GroupFacts]) -> Iterator[tuple[GroupFacts, Need]]:
    """Yield the need for a remedy in groups that its settings name, if the remedy reports about them."""
    settings = remedy.settings
    for facts in groups:
        if settings.groups and facts.group not in settings.groups:
            continue
        try:
            need = remedy.need(facts)
        except HtoolsError as error:
            need = Need(False, True, str(error))
        if need is not None:
            yield facts, need


def situations(seen: Observation, kind: type[Remedy[Any]], progress: Progress) -> list[Situation]:
    """Return the situation of each node group for a remedy. Raises HtoolsError if it may act in none."""
    settings = seen.settings[kind.policy]
    if not groups_of(settings, seen.cluster):
        wanted = " or ".join(settings.groups)
        raise HtoolsError(f"groups: there is no node group {wanted}; the policy acts nowhere")
    remedy, found = kind(settings), list[Situation]()
    for facts, need in needs(remedy, seen.groups):
        progress("")
        found.append(_situation(seen, remedy, facts, need))
    idle = [each.group for each in found if each.idle]
    return [replace(each, idle_groups=[name for name in idle if name != each.group]) for each in found]


def _situation(seen: Observation, remedy: Remedy[Any], facts: GroupFacts, need: Need) -> Situation:
    memory, own_names = seen.memories.memories[remedy.policy], seen.names[facts.group]
    all_names = frozenset[str]().union(*seen.names.values())
    plans = [plan for plan in seen.plans if facts.group in plan.facts["groups"]]
    nodes = [node for node in seen.cluster.nodes if node.name in own_names]
    return Situation(
        remedy,
        memory,
        facts,
        datetime.fromtimestamp(seen.now),
        need,
        drained=[node.name for node in nodes if _holds_back(remedy, node)],
        unfinished=[node.name for node in nodes if remedy.resumes and SQUEEZING in node.tags],
        silent=silent_nodes(seen.cluster, (facts.group,)),
        updating=[node for node in seen.model.updating if node in own_names],
        outdated=seen.outdated,
        paused=seen.paused,
        jobs=[number for number, opcodes in seen.jobs if touches(opcodes, own_names, all_names)],
        plan=next((plan.id for plan in plans if plan.state.going), None),
        proposal=next((plan.id for plan in plans if _is_proposal(plan, seen.now)), None),
        rounds=memory.rounds_of(remedy.title, facts.group),
        online=_online(nodes, remedy),
    )


def plan_bounds(seen: Observation, situation: Situation) -> PlanBounds:
    """Return the bounds of a plan, by what policies have done until now."""
    settings, now, squeeze = situation.settings, seen.now, seen.settings["squeeze"]
    relieve, nodes = seen.settings["relieve"], situation.rounds.nodes
    assert isinstance(squeeze, SqueezeSettings)
    assert isinstance(relieve, RelieveSettings)
    reserving, relieving = (
        each.mode != "off" and situation.group in groups_of(each, seen.cluster) for each in (squeeze, relieve)
    )
    return PlanBounds(
        situation.group,
        situation.facts.n1,
        situation.memory.plan_budget(settings, now),
        squeeze.reserve if reserving else Reserve(0.0),
        tuple(resting(seen.memories.moved, settings, now)),
        tuple(resting(seen.memories.switched, settings, now)),
        tuple(seen.claimed),
        tuple(situation.idle_groups),
        int(now),
        tuple(name for name, streak in nodes.items() if streak >= settings.hold),
        relieve.stop / 100 if relieving else 0.0,
    )


def _online(nodes: Sequence[Node], remedy: Remedy[Any]) -> list[str]:
    """Name the online nodes; for a remedy that powers nodes, with those that hsqueeze powers."""
    powered = [node for node in nodes if remedy.resumes and (SQUEEZING in node.tags or standby(node.tags))]
    return sorted(node.name for node in nodes if not node.offline or node in powered)


def _is_proposal(plan: Plan, now: float) -> bool:
    """Whether a policy has made the plan in the last 24 hours and nobody has executed it."""
    return plan.proposed and plan.facts["made"] > now - DAY


def names_by_group(cluster: Cluster) -> dict[str, set[str]]:
    """Return by group the names of the group, its nodes and their instances, and the group's uuid."""
    by_uuid = {group.uuid: {group.name, group.uuid} for group in cluster.groups}
    groups = {node.name: by_uuid[node.group] for node in cluster.nodes}
    for name, names in groups.items():
        names.add(name)
    for row in cluster.instances:
        for node in (row.pnode, row.snode):
            if node is not None and node in groups:
                groups[node].add(row.name)
    return {group.name: by_uuid[group.uuid] for group in cluster.groups}


# Jobs


def touches(opcodes: Sequence[Mapping[str, Any]], group_names: Set[str], all_names: Set[str]) -> bool:
    """Whether a job touches a node group.

    ``group_names`` are the names of the group, its nodes and its instances, ``all_names`` those of the
    cluster. An opcode touches the group if it has one of its names, if it has no name of the cluster, or if
    Ganeti chooses the group. Queries touch nothing.
    """
    changing = (each for each in opcodes if "_QUERY" not in str(each.get("OP_ID")))
    return any(_opcode_touches(each, group_names, all_names) for each in changing)


def _opcode_touches(opcode: Mapping[str, Any], group_names: Set[str], all_names: Set[str]) -> bool:
    names = {text for key, value in opcode.items() if key not in _FREE_TEXT for text in _texts(value)}
    target = _ANYWHERE.get(str(opcode.get("OP_ID")))
    anywhere = target is not None and not opcode.get(target)
    return anywhere or bool(names & group_names) or not names & all_names


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from _texts(each)
        case list() | tuple():
            for each in value:
                yield from _texts(each)


# Changes of the cluster


class ClusterChanges(NamedTuple):
    """The changes between two models.

    ``moved`` are instances on other nodes than before, ``returned`` nodes that were offline or in maintenance
    and are not now. ``events`` are those for which policies look at once, in words. ``without_n1`` are the
    groups with nodes that fail N+1 now.
    """

    moved: Sequence[str]
    returned: Sequence[str]
    events: Sequence[str]
    without_n1: Set[str]


def changes(
    before: Cluster | None, now: Cluster | None, without_n1: Set[str], active: bool
) -> ClusterChanges:
    """Compare the cluster with the one before, whose groups ``without_n1`` failed N+1.

    N+1 is only checked while policies are ``active``.
    """
    if now is None:
        return ClusterChanges((), (), (), without_n1)
    try:
        lost = _groups_without_n1(now) if active else without_n1
    except HtoolsError:  # the next decision of a policy reports it
        lost = without_n1
    events = [f"group {group} has lost N+1 redundancy" for group in sorted(lost - without_n1)]
    if before is None:
        return ClusterChanges((), (), events, lost)
    drained, returned = _drained_nodes(before), _returned_nodes(before, now)
    new = [f"node {name} was drained" for name in _drained_nodes(now) if name not in drained]
    back = [f"node {name} is back" for name in returned]
    return ClusterChanges(list(_moved_instances(before, now)), returned, [*new, *back, *events], lost)


def _moved_instances(before: Cluster, now: Cluster) -> Iterator[str]:
    """Yield instances that are on other nodes than before. New instances have not moved."""
    places = {instance.name: (instance.pnode, instance.snode) for instance in before.instances}
    for instance in now.instances:
        place = instance.pnode, instance.snode
        if places.get(instance.name, place) != place:
            yield instance.name


def _returned_nodes(before: Cluster, now: Cluster) -> list[str]:
    """Return nodes that were offline or in maintenance and are not now.

    Nodes that were drained to be powered down, and then stayed up, have not returned.
    """
    closed = {node.name for node in before.nodes if node.closed and not _is_being_emptied(node)}
    return [node.name for node in now.nodes if not node.closed and node.name in closed]


def _groups_without_n1(cluster: Cluster) -> set[str]:
    """Return the names of the node groups with nodes that fail N+1. Raises HtoolsError."""
    state = state_of(cluster, View())
    bad = bad_nodes(state, state.group == state.group)
    return {cluster.groups[row].name for row in state.group[bad].tolist()}


def _drained_nodes(cluster: Cluster) -> list[str]:
    return [node.name for node in cluster.nodes if _is_drained(node) and not _is_being_emptied(node)]


def _is_drained(node: Node) -> bool:
    return node.drained or node.in_maintenance


def _holds_back(remedy: Remedy[Any], node: Node) -> bool:
    """Whether a remedy waits for the end of what somebody does on a node."""
    heeded = not (remedy.resumes if SQUEEZING in node.tags else remedy.beside_drained)
    return heeded and _is_drained(node)


def _is_being_emptied(node: Node) -> bool:
    return node.drained and SQUEEZING in node.tags
