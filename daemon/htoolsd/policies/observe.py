"""Observation: the situation of each node group, from model, luxid and plans; changes of the cluster."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

import trio

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.redundancy.health import bad_nodes
from ganeti_htools.luxi import job_queries, queries
from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.tags import SQUEEZING, standby
from ganeti_htools.planning.view import View, state_of
from htoolsd.config.policies import PolicySettings, Reserve, SqueezeSettings
from htoolsd.config.settings import Settings
from htoolsd.plans.plan import Plan
from htoolsd.plans.plans import Plans
from htoolsd.policies.conditions import Situation
from htoolsd.policies.memory import DAY, MemoryFile, resting
from htoolsd.policies.names import named_objects, with_present_names
from htoolsd.policies.remedy import GroupFacts, Need, PlanBounds, Remedy
from htoolsd.sync.model import Model
from htoolsd.sync.sync import Sync
from htoolsd.threads import Computations

# Opcodes that may change any group unless this parameter names where.
_ANYWHERE = {
    "OP_INSTANCE_CREATE": "pnode",
    "OP_INSTANCE_CHANGE_GROUP": "target_groups",
    "OP_GROUP_EVACUATE": "target_groups",
}
_FREE_TEXT = ("reason", "comment")  # parameters in which names mean nothing


@dataclass(frozen=True, slots=True)
class PolicyInputs:
    """Everything from which policies decide."""

    sync: Sync
    plans: Plans
    memory: MemoryFile
    configuration: Settings
    clock: Callable[[], float]
    computations: Computations = field(default_factory=lambda: Computations(trio.lowlevel.checkpoint))

    @property
    def settings(self) -> Mapping[str, PolicySettings]:
        """The settings of each policy, which may change at any time."""
        return self.configuration.now.policies

    def present_settings(self, policy: str, cluster: Cluster) -> PolicySettings:
        """Return the settings of a policy with the names that their objects have in the cluster."""
        settings = self.settings[policy]
        return with_present_names(settings, named_objects(cluster), self.memory.content.uuids)

    def groups(self, policy: str, cluster: Cluster) -> list[str]:
        """Return the names of the node groups in which a policy may act."""
        named = self.present_settings(policy, cluster).groups
        return [row.name for row in cluster.groups if row.name in named or not self.settings[policy].groups]


class Observation(NamedTuple):
    """The cluster at one moment, as far as policies decide by it.

    ``now`` is seconds of the epoch. ``paused`` is the end of a pause of Ganeti's watcher. ``jobs`` are
    unfinished, with their opcodes. ``names`` has, by group, those of it, its nodes and their instances.
    """

    model: Model
    cluster: Cluster
    now: float
    paused: float
    jobs: Sequence[tuple[int, Sequence[Mapping[str, Any]]]]
    groups: Sequence[GroupFacts]
    names: Mapping[str, Set[str]]


async def look(inputs: PolicyInputs) -> Observation:
    """Observe the cluster. Raises HtoolsError."""
    sync = inputs.sync
    model, cluster = sync.model, sync.model.available
    if (why := sync.obstacle()) is not None:
        raise HtoolsError(why)
    if not sync.master or cluster is None:
        raise HtoolsError("the cluster is not known yet" if sync.master else "this is not the master node")
    async with sync.client() as ganeti:
        paused = await queries.watcher_pause(ganeti)
        jobs = await job_queries.unfinished(ganeti)
    now = inputs.clock()
    facts, names = await inputs.computations.run(lambda _pause: (group_facts(cluster, now), _names(cluster)))
    return Observation(model, cluster, now, paused or 0.0, jobs, facts, names)


def group_facts(cluster: Cluster, now: float = 0.0) -> list[GroupFacts]:
    """Return the facts of the node groups that have nodes. Raises HtoolsError."""
    state, found = state_of(cluster, View()), []
    for number, row in enumerate(cluster.groups):
        scope = state.group == number
        if scope.any():
            score, n1 = score_of(state, scope), int(bad_nodes(state, scope).sum())
            found.append(GroupFacts(cluster, row.name, state, scope, score, n1, now))
    return found


def needs(
    remedy: Remedy, settings: PolicySettings, groups: Sequence[GroupFacts]
) -> list[tuple[GroupFacts, Need]]:
    """Return the need for a remedy in groups that ``settings`` name, if the remedy reports about them."""
    found = []
    for facts in groups:
        if settings.groups and facts.group not in settings.groups:
            continue
        try:
            need = remedy.need(facts, settings)
        except HtoolsError as error:
            need = Need(False, True, str(error))
        if need is not None:
            found.append((facts, need))
    return found


async def situations(inputs: PolicyInputs, remedy: Remedy, seen: Observation) -> list[Situation]:
    """Return the situation of each node group for a remedy. Raises HtoolsError."""
    cluster, now = seen.cluster, seen.now
    settings = inputs.present_settings(remedy.policy, cluster)
    if not inputs.groups(remedy.policy, cluster):
        wanted = " or ".join(inputs.settings[remedy.policy].groups)
        raise HtoolsError(f"groups: there is no node group {wanted}; the policy acts nowhere")
    wanted_by = await inputs.computations.run(lambda _pause: needs(remedy, settings, seen.groups))
    known = inputs.memory.content
    all_names = frozenset[str]().union(*seen.names.values())
    memory = known.memories[remedy.policy]
    shared = PlanBounds(
        "",
        room=memory.plan_budget(settings, now),
        resting=tuple(resting(known.moved, settings, now)),
        switched=tuple(resting(known.switched, settings, now)),
        claimed=tuple(sorted(inputs.plans.claims_on_nodes())),
        now=int(now),
    )
    reserve, reserving = _reserve(inputs.settings), inputs.groups("squeeze", cluster)
    found = []
    for facts, need in wanted_by:
        name, group_names = facts.group, seen.names[facts.group]
        bounds = shared._replace(group=name, n1=facts.n1)
        plans = [plan for plan in inputs.plans.all if name in plan.facts["groups"]]
        nodes = [node for node in cluster.nodes if node.name in group_names]
        unfinished = [node.name for node in nodes if remedy.resumes and SQUEEZING in node.tags]
        found.append(
            Situation(
                now,
                datetime.fromtimestamp(now),
                bounds._replace(reserve=reserve if name in reserving else Reserve(0.0)),
                facts.score,
                need,
                drained=[node.name for node in nodes if _holds_back(remedy, node)],
                unfinished=unfinished,
                silent=seen.model.silent,
                updating=[node for node in seen.model.updating if node in group_names],
                outdated=inputs.sync.late,
                paused=seen.paused,
                jobs=[number for number, opcodes in seen.jobs if touches(opcodes, group_names, all_names)],
                plan=next((plan.id for plan in plans if plan.state.going), None),
                proposal=next((plan.id for plan in plans if _is_proposal(plan, now)), None),
                rounds=memory.rounds_of(remedy.title, name),
                online=_online(nodes, remedy),
                needs_moves=remedy.needs_moves,
            )
        )
    return _with_quiet_groups(found)


def _online(nodes: Sequence[Node], remedy: Remedy) -> list[str]:
    """Name the online nodes; for a remedy that powers nodes, with those that hsqueeze powers."""
    powered = [node for node in nodes if remedy.resumes and (SQUEEZING in node.tags or standby(node.tags))]
    return sorted(node.name for node in nodes if not node.offline or node in powered)


def _reserve(settings: Mapping[str, PolicySettings]) -> Reserve:
    """Return the reserve of ``[squeeze]``, which no policy may use up in its groups."""
    squeeze = settings["squeeze"]
    assert isinstance(squeeze, SqueezeSettings)
    return squeeze.reserve if squeeze.mode != "off" else Reserve(0.0)


def _with_quiet_groups(situations: Sequence[Situation]) -> list[Situation]:
    """Return the situations, each with the other groups in which nothing goes on and nothing is needed."""
    quiet = [each.group for each in situations if each.quiet and not each.need.begin]
    return [
        replace(each, bounds=each.bounds._replace(quiet=tuple(name for name in quiet if name != each.group)))
        for each in situations
    ]


def _is_proposal(plan: Plan, now: float) -> bool:
    """Whether a policy has made the plan in the last 24 hours and nobody has executed it."""
    return plan.proposed and plan.facts["made"] > now - DAY


def _names(cluster: Cluster) -> dict[str, set[str]]:
    """Return by group the names of the group, its nodes and their instances, and the group's uuid."""
    found = {group.uuid: {group.name, group.uuid} for group in cluster.groups}
    groups = {node.name: found[node.group] for node in cluster.nodes}
    for name, names in groups.items():
        names.add(name)
    for row in cluster.instances:
        for node in (row.pnode, row.snode):
            if node is not None and node in groups:
                groups[node].add(row.name)
    return {group.name: found[group.uuid] for group in cluster.groups}


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


def moved_instances(before: Cluster, now: Cluster) -> Iterator[str]:
    """Yield instances that are on other nodes than before. New instances have not moved."""
    places = {instance.name: (instance.pnode, instance.snode) for instance in before.instances}
    for instance in now.instances:
        place = instance.pnode, instance.snode
        if places.get(instance.name, place) != place:
            yield instance.name


def returned_nodes(before: Cluster, now: Cluster) -> list[str]:
    """Return nodes that were offline or in maintenance and are not now.

    Nodes that were drained to be powered down, and then stayed up, have not returned.
    """
    closed = {node.name for node in before.nodes if node.closed and not _is_being_emptied(node)}
    return [node.name for node in now.nodes if not node.closed and node.name in closed]


def groups_without_n1(cluster: Cluster) -> set[str]:
    """Return the names of the node groups with nodes that fail N+1. Raises HtoolsError."""
    state = state_of(cluster, View())
    bad = bad_nodes(state, state.group == state.group)
    return {cluster.groups[row].name for row in state.group[bad].tolist()}


def node_events(before: Model, now: Model) -> Iterator[str]:
    """Yield the changes of nodes for which policies look at once, in words."""
    drained = _drained_nodes(before)
    yield from (f"node {name} was drained" for name in _drained_nodes(now) if name not in drained)
    if before.cluster is not None and now.cluster is not None:
        yield from (f"node {name} is back" for name in returned_nodes(before.cluster, now.cluster))


def _drained_nodes(model: Model) -> list[str]:
    nodes = model.cluster.nodes if model.cluster else ()
    return [node.name for node in nodes if _is_drained(node) and not _is_being_emptied(node)]


def _is_drained(node: Node) -> bool:
    return node.drained or node.in_maintenance


def _holds_back(remedy: Remedy, node: Node) -> bool:
    """Whether a remedy waits for the end of what somebody does on a node."""
    heeded = not (remedy.resumes if SQUEEZING in node.tags else remedy.beside_drained)
    return heeded and _is_drained(node)


def _is_being_emptied(node: Node) -> bool:
    return node.drained and SQUEEZING in node.tags
