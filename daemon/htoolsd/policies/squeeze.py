"""The policy that powers nodes down and up, with the code of ``hsqueeze``. Pure functions.

A plan is about one node group, which is looked at as a cluster of its own.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.balancing.traffic import copied
from ganeti_htools.engine.rules.move_kinds import MoveKind
from ganeti_htools.engine.squeezing.candidates import pool_left_to
from ganeti_htools.engine.squeezing.power_group import switched
from ganeti_htools.engine.squeezing.power_plan import Action
from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.execution.review import Check, Review
from ganeti_htools.execution.wording import Say
from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State
from ganeti_htools.model.tags import STANDBY
from ganeti_htools.planning import hsqueeze, view
from ganeti_htools.planning.hsqueeze import Options
from ganeti_htools.planning.proposal import Execution, OnChange, Progress, Proposal
from ganeti_htools.planning.view import View
from htoolsd.policies.conditions import Need, Situation
from htoolsd.policies.memory import Room
from htoolsd.policies.policy import Facts, Planned, Remedy, staying
from htoolsd.policies.safety import UNSAFE, guarded, safe, steps_of
from htoolsd.policies.settings import Squeeze


def lacks_nodes(facts: Facts, settings: Squeeze) -> Need:
    """Whether nodes have less than the minimal resources free. Raises HtoolsError."""
    group = part(facts.cluster, facts.group)
    options = _options(facts.cluster, group, settings)
    if hsqueeze.lacking(hsqueeze.seen(group, options), options):
        return Need(True, False, "nodes have less than the minimal resources free")
    return Need(False, True, "every node has the minimal resources free")


def spares_nodes(facts: Facts, settings: Squeeze) -> Need:
    """Whether perhaps a node can be powered down; only the plan finds out. Raises HtoolsError."""
    group = part(facts.cluster, facts.group)
    options = _options(facts.cluster, group, settings)
    state = hsqueeze.seen(group, options)
    if hsqueeze.lacking(state, options):
        return Need(False, True, "nodes have less than the minimal resources free")
    if hsqueeze.may_spare(state, options):
        return Need(True, False, "nodes can perhaps be spared")
    return Need(False, True, "no node can be spared")


def powered_up(cluster: Cluster, settings: Squeeze, seen: Situation, progress: Progress) -> Planned:
    """As many nodes as it takes, and the first of the moves that go with them, as far as there is room.

    Moves that are left are made by later plans. Raises HtoolsError.
    """
    group = part(cluster, seen.group)
    options = _options(cluster, group, settings, seen)
    proposal = hsqueeze.propose(group, options, progress)
    if not proposal.found["enough"] and seen.resting:
        # What rests does not make more nodes necessary: as many as would be enough if it moved.
        free = hsqueeze.propose(
            group, replace(options, view=_options(cluster, group, settings).view), progress
        )
        if free.found["enough"]:
            group = _without_standby(group, free.found["nodes"])
            proposal = hsqueeze.propose(group, options, progress)
    found = proposal.found
    if found["action"] != Action.ONLINE.value:
        return Planned(options, proposal, 0, 0, refusal="every node has the minimal resources free")
    if not found["enough"] and not found["nodes"]:
        return Planned(options, proposal, 0, 0, refusal="no node is left that could be powered up")
    kept = found["steps"][: _safe(group, options, proposal)]
    count, mib = _first(group, kept, seen.room)
    if not count and not found["nodes"]:
        why = "no move fits into the budget" if kept else UNSAFE
        return Planned(options, proposal, 0, 0, refusal=why)
    return _cut(group, options, found, count, mib, found["enough"] and count == len(found["steps"]))


def powered_down(cluster: Cluster, settings: Squeeze, seen: Situation, progress: Progress) -> Planned:
    """As many nodes as can be emptied with so many moves, and no moves but those that empty them.

    Raises HtoolsError.
    """
    group = part(cluster, seen.group)
    options = _options(cluster, group, settings, seen)
    refused: Planned | None = None
    for most in range(settings.max_nodes, settings.min_nodes - 1, -1):
        proposal = hsqueeze.propose(group, replace(options, max_nodes=most), progress)
        found = proposal.found
        if found["action"] != Action.OFFLINE.value or len(found["nodes"]) < settings.min_nodes:
            few = f"fewer than {settings.min_nodes} nodes can be powered down"
            return refused or Planned(options, proposal, 0, 0, refusal=few)
        if len(found["nodes"]) > most:
            continue
        steps = _needed(group, options, found)
        count, mib = _first(group, steps, seen.room)
        if count == len(steps) <= _safe(group, options, proposal):
            return _cut(group, options, found, count, mib, True)
        names = ", ".join(found["nodes"])
        refused = Planned(
            options, proposal, 0, 0, refusal=f"to empty {names} takes more than the budget, or N+1"
        )
    assert refused is not None  # min_nodes is no more than max_nodes
    return refused


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


def _options(cluster: Cluster, group: Cluster, settings: Squeeze, seen: Situation | None = None) -> Options:
    """What hsqueeze is asked for; without ``seen`` nothing rests. Raises HtoolsError for unknown names."""
    here = {instance.name for instance in group.instances}
    stay = staying(cluster, settings, seen.resting if seen else ())
    return Options(
        View(exclude_instances=tuple(name for name in stay if name in here)),
        Execution(on_change="stop", reason="policy squeeze of htoolsd"),
        settings.minimal_resources,
        settings.target_resources,
        _here(cluster, group, settings.prefer),
        (*_here(cluster, group, settings.never), *(_kept_up(group, seen) if seen else ())),
        settings.max_nodes,
        settings.allow_drbd,
    )


def _kept_up(group: Cluster, seen: Situation) -> Iterator[str]:
    """Nodes that must not be emptied at present. Whatever forbids that, besides ``never``, belongs here."""
    yield from (node.name for node in group.nodes if node.name in seen.switched or node.name in seen.claimed)


def _here(cluster: Cluster, group: Cluster, names: Iterable[str]) -> tuple[str, ...]:
    """Of names of nodes, and tags of nodes, those that mean something in the group. Raises HtoolsError for
    those that mean nothing anywhere.
    """

    def meant(name: str, node: Node) -> bool:
        return name in (node.name, *node.tags) or node.name.startswith(f"{name}.")

    for name in names:
        if not any(meant(name, node) for node in cluster.nodes):
            raise HtoolsError(f"{name} is neither a node nor a tag of one")
    return tuple(name for name in names if any(meant(name, node) for node in group.nodes))


def _without_standby(group: Cluster, but: Sequence[str]) -> Cluster:
    """The group as if no other nodes could be powered up than these."""

    def stripped(node: Node) -> Node:
        tags = tuple(tag for tag in node.tags if not tag.startswith(STANDBY))
        return node if node.name in but else replace(node, tags=tags)

    return replace(group, nodes=tuple(map(stripped, group.nodes)))


def _first(group: Cluster, steps: Sequence[Any], room: Room) -> tuple[int, int]:
    """How many of the first steps there is room for, no instance twice, and how many MiB they copy."""
    rows = {instance.name: instance for instance in group.instances}
    moved, copies = set[str](), 0
    for step in steps:
        name = step["instance"]
        more = sum(copied(MoveKind(step["move"]), rows[name]))
        if name in moved or len(moved) == room.moves or copies + more > room.mib:
            break
        moved.add(name)
        copies += more
    return len(moved), copies


def _safe(group: Cluster, options: Options, proposal: Proposal) -> int:
    """How many of the first moves of a plan, once its nodes are drained or online, cost no redundancy."""
    state, found = hsqueeze.seen(group, options), proposal.found
    off = found["action"] == Action.OFFLINE.value
    marked = switched(state, [state.nodes[name] for name in found["nodes"]], off)
    everywhere = np.ones(len(state.group), np.bool_)
    return safe(marked, everywhere, view.movable(marked, options.view), steps_of(proposal.jobs))


def _needed(group: Cluster, options: Options, found: Any) -> list[Any]:
    """The first steps of a plan that empty its nodes and leave enough free on the others."""
    steps, away = list(found["steps"]), set(found["nodes"])
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
    return steps[:count]


def _holds(group: Cluster, options: Options, found: Any) -> bool:
    """Whether a plan can be made, and leaves what it has to, by the review before its first jobs."""
    proposal = _proposed(group, options, found)[1]
    return proposal.review("stop", lambda *_lines: None)(group, proposal.jobs, 0).obstacle is None


def _proposed(group: Cluster, options: Options, found: Any) -> tuple[State, Proposal]:
    """A plan as it is handed over, from what was found; and the state that it leads to."""
    state = hsqueeze.seen(group, options)
    plan = hsqueeze.plan_again(state, options, found)
    return plan.state, hsqueeze.proposed(state, plan, options)


def _cut(group: Cluster, options: Options, found: Any, count: int, mib: int, enough: bool) -> Planned:
    """The first steps of a plan, to be carried out on the whole cluster."""
    state, proposal = _proposed(group, options, {**found, "steps": found["steps"][:count], "enough": enough})
    name = group.groups[0].name
    whole = replace(proposal, review=lambda *how: _reviewer(proposal, options, name, *how))
    after = score_of(state, np.ones(len(state.group), np.bool_))
    return Planned(options, whole, count, mib, after, tuple(found["nodes"]))


def _reviewer(proposal: Proposal, options: Options, name: str, on_change: OnChange, say: Say) -> Check:
    """The check of a plan that was made for the group alone."""
    inner = proposal.review(on_change, say)
    safer = guarded(inner, options.view, name)

    def check(cluster: Cluster, rest: Jobsets, made: int) -> Review:
        # Before nodes are online, and while they are drained, the plan's own check knows better.
        pending = hsqueeze.marked(rest)
        return (inner if pending else safer)(part(cluster, name), rest, made)

    return check


POWER_UP = Remedy("power up", "squeeze", "hsqueeze", lacks_nodes, powered_up, moves=False)
POWER_DOWN = Remedy("power down", "squeeze", "hsqueeze", spares_nodes, powered_down, yields=True)
