"""Order in which maintenance rolls through the nodes of a cluster (``hmaintain roll``).

Nodes go in the groups of ``hroller(1)``, divided further until maintenance of a whole batch can begin by the
rules of ``hmaintain start``. Tags of the nodes tell what an earlier run of the roll has done.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from ganeti_htools.engine.maintenance import rolling
from ganeti_htools.engine.maintenance.rolling import Maintenance
from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.maintenance_tags import maintenance_of
from ganeti_htools.model.state import State
from ganeti_htools.model.types import MirrorType
from ganeti_htools.planning import view
from ganeti_htools.planning.maintenance import hmaintain
from ganeti_htools.planning.maintenance.hmaintain import MaintainOptions, MaintenancePlan
from ganeti_htools.planning.maintenance.node_jobs import describe
from ganeti_htools.planning.plan import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class RollOptions:
    """Nodes to go through, and how their maintenance begins.

    * ``nodes``, ``group``, ``node_tags``: only these nodes; an empty tuple or None for all.
    * ``ignore_non_redundant``: instances that can never leave stay on nodes during their maintenance.
    * ``start``: options of ``hmaintain start``.
    """

    nodes: tuple[str, ...]
    group: str | None
    node_tags: tuple[str, ...] | None
    ignore_non_redundant: bool
    start: MaintainOptions


class RollBatch(NamedTuple):
    """Nodes (names) that are in maintenance together, and how many moves empty them.

    ``stage``: an earlier run has "begun" their maintenance, or has also "done" the work on them.
    """

    nodes: tuple[str, ...]
    moves: int
    stage: Literal["new", "begun", "done"] = "new"


@dataclass(frozen=True, slots=True)
class Roll:
    """State of a roll: what is done, the batches to come, and the nodes that are left out, with the reasons.

    * ``name``: TIME:USER of an earlier run that began it, empty if there is none.
    * ``refused``: nodes whose maintenance cannot begin; ``aside``: others that are left out.
    """

    name: str
    done: tuple[str, ...]
    batches: tuple[RollBatch, ...]
    refused: dict[str, str]
    aside: dict[str, str]


def roll_of(cluster: Cluster, options: RollOptions, progress: Progress) -> Roll:
    """Find what is left of a roll, and the order for it. Raises HtoolsError."""
    chosen = _chosen(cluster, options)
    facts = {node.name: maintenance_of(node.tags) for node in chosen}
    ours = [node.name for node in chosen if node.in_maintenance and facts[node.name].roll]
    done = tuple(name for name, fact in facts.items() if fact.rolled and name not in ours)
    working = tuple(name for name in ours if not facts[name].rolled)
    returning = tuple(name for name in ours if facts[name].rolled)
    under_way = [RollBatch(returning, 0, "done"), RollBatch(working, 0, "begun")]
    # What is under way will have ended before the next batch begins.
    ended = replace(options.start, action="end", nodes=(*returning, *working))
    state = hmaintain.state_of(cluster, ended)
    aside, members = dict[str, str](), np.zeros(len(state.group), np.bool_)
    for node in chosen:
        if node.name in {*done, *working, *returning}:
            continue
        why = _set_aside(node, state)
        if why is None:
            members[state.nodes[node.name]] = True
        else:
            aside[node.name] = why
    batches, refused = list[RollBatch](), dict[str, str]()
    for group in _groups(state, members) if members.any() else ():
        for found in _divided(state, group, options, progress):
            if isinstance(found, RollBatch):
                batches.append(found)
            else:
                refused |= found
    return Roll(
        min(filter(None, (fact.rolled or fact.roll for fact in facts.values())), default=""),
        done,
        (*(batch for batch in under_way if batch.nodes), *batches),
        refused,
        aside,
    )


def _chosen(cluster: Cluster, options: RollOptions) -> list[Node]:
    state = view.state_of(cluster, options.start.view)
    found = view.selected_nodes(state, options.group, options.node_tags)
    names = set(view.full_node_names(cluster, options.nodes))
    rows = np.flatnonzero(found).tolist()
    return [cluster.nodes[row] for row in rows if not names or cluster.nodes[row].name in names]


def _set_aside(node: Node, state: State) -> str | None:
    """Return why a node is not even tried, or None."""
    if node.master:
        return f"it is the master; on another candidate: hmaintain roll {node.name} --master-failover -L"
    if node.in_maintenance:
        return "it is in maintenance already"
    return "it is offline or drained" if state.columns.offline[state.nodes[node.name]] else None


def _groups(state: State, members: Bools) -> Iterable[Sequence[int]]:
    """Return groups of nodes (rows) that may be down together, as hroller(1) finds them: larger first."""
    graph = rolling.node_graph(state, members, offline=False)
    smallest = min(graph.colourings().values(), key=len)
    staying = Maintenance(ignore_alone=True)  # whether there is room is judged later, by stricter rules
    groups = rolling.reboot_groups(state, members, smallest, staying)
    return [group.nodes for group in groups if group.nodes]


def _divided(
    state: State, rows: Sequence[int], options: RollOptions, progress: Progress
) -> Iterator[RollBatch | dict[str, str]]:
    """Divide nodes into batches whose maintenance can begin; also yields nodes that have to be left out."""
    whole = _begun(state, rows, options, progress)
    if not isinstance(whole, str):
        yield RollBatch(tuple(state.names(rows)), len(whole.moves))
        return
    if len(rows) == 1:
        yield {state.cluster.nodes[rows[0]].name: whole}
        return
    taken, moves, later = list[int](), 0, list[int]()
    for row in rows:
        found = _begun(state, [*taken, row], options, progress)
        if not isinstance(found, str):
            taken, moves = [*taken, row], len(found.moves)
        elif taken:
            later.append(row)
        else:
            yield {state.cluster.nodes[row].name: found}
    if taken:
        yield RollBatch(tuple(state.names(taken)), moves)
    if later:
        yield from _divided(state, later, options, progress)


def _begun(
    state: State, rows: Sequence[int], options: RollOptions, progress: Progress
) -> MaintenancePlan | str:
    """Begin maintenance of nodes. Returns the plan, or why it must not begin."""
    names = state.names(rows)
    progress(f"looking for places for the instances of {', '.join(names)}")
    try:
        plan = hmaintain.plan(state, replace(options.start, nodes=tuple(names)), progress=lambda _text: None)
    except HtoolsError as error:
        return str(error).removeprefix(f"{', '.join(names)}: ")
    left = cannot_leave(plan, options.ignore_non_redundant)
    return describe(left) if left else plan


def cannot_leave(plan: MaintenancePlan, ignore_non_redundant: bool) -> dict[str, str]:
    """Return the instances that stay on nodes whose maintenance begins and must not, with the reasons."""
    instances = {row.name: row for row in plan.state.cluster.instances}
    return {
        name: why
        for name, why in plan.staying.items()
        if not (ignore_non_redundant and instances[name].template.mirror is MirrorType.NONE)
    }
