"""Rolling maintenance: groups of nodes that can be rebooted at the same time (``hroller(1)``).

Nodes that must not be down together are neighbours in a graph, which is coloured: the two nodes of a
mirrored instance, and, while instances run, nodes whose instances would all migrate to the same one.
The nodes of a colour are divided further until the instances that have to move away find room. After
each group everything is moved back.

As with Ganeti's htools, instances go to the first node of their group with room, in input order, and
migration tags are not looked at. The nodes between the first and the last to be rebooted are emptied
along with them, even if they themselves are not to be rebooted, unless instances would then go to a node
that is rebooted with them or takes no instances.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.allocation import shortage
from ganeti_htools.engine.rules import node_rules, placement_rules, placements, settling
from ganeti_htools.engine.rules.node_rules import FAIL, FITS, Codes, first_reason
from ganeti_htools.engine.rules.relocate import move
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.figures import TEMPLATE_CODE
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Fail

Graph = Sequence[Sequence[int]]  # the neighbours of each vertex, possibly repeated

ALGORITHMS = ("LF", "Dsatur", "Dcolor")


def colour(graph: Graph, algorithm: str) -> list[list[int]]:
    """Return the vertices of each colour: neighbours get different ones, and few are used.

    The orders are those of Ganeti's htools (``Graph.hs``), ties included, since the colours show in what
    ``hroller(1)`` prints.

    Algorithms: ``LF`` takes vertices with the most edges first, ``Dsatur`` those whose neighbours have the
    most different colours, ``Dcolor`` those with the most edges to coloured neighbours.
    """
    colours = _by_degree(graph) if algorithm == "LF" else _by_neighbours(graph, algorithm == "Dsatur")
    classes: list[list[int]] = [[] for _ in range(max(colours, default=-1) + 1)]
    for vertex, chosen in enumerate(colours):
        classes[chosen].append(vertex)
    return classes


def _lowest_free(taken: Iterable[int]) -> int:
    used = set(taken)
    return next(number for number in range(len(used) + 1) if number not in used)


def _by_degree(graph: Graph) -> list[int]:
    colours: dict[int, int] = {}
    for vertex in sorted(range(len(graph)), key=lambda vertex: len(graph[vertex]))[::-1]:
        colours[vertex] = _lowest_free(colours[other] for other in graph[vertex] if other in colours)
    return [colours[vertex] for vertex in range(len(graph))]


def _by_neighbours(graph: Graph, distinct: bool) -> list[int]:
    size = len(graph)
    colours = [-1] * size
    seen: list[set[int]] = [set() for _ in graph]
    # Of equal vertices the last is taken, so arrays run from the last vertex to the first.
    degree = np.array([len(others) for others in graph][::-1], np.int64)
    rank = np.zeros(size, np.int64)  # the algorithm's first criterion
    scale = int(degree.max(initial=0)) + 1
    for _ in range(size):
        vertex = size - 1 - int(np.argmax(rank * scale + degree))
        colours[vertex] = chosen = _lowest_free(seen[vertex])
        rank[size - 1 - vertex] = -1
        degree[size - 1 - vertex] = 0
        for other in graph[vertex]:
            if colours[other] < 0:
                rank[size - 1 - other] += not distinct or chosen not in seen[other]
                seen[other].add(chosen)
    return colours


Classes = list[list[int]]
Progress = Callable[[int], None]  # called with each node before it is emptied


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Treatment of instances: with ``ignore_alone`` those without secondary stay; with ``full`` secondaries
    move away as well.
    """

    ignore_alone: bool = False
    full: bool = False


@dataclass(frozen=True, slots=True)
class Relocation:
    """An instance and its nodes while its own are down; ``snode`` is NOWHERE without a secondary."""

    instance: int
    pnode: int
    snode: int


class Stranded(NamedTuple):
    """An instance (row) without room on a state, and the reason against each of the other nodes (rows)."""

    state: State
    instance: int
    targets: Ints
    codes: Codes


# Empties a node, in place, if the nodes given have room.


@dataclass(frozen=True, slots=True)
class RebootGroup:
    """Nodes (rows) that can be down together, and the instances that move away meanwhile."""

    nodes: tuple[int, ...]
    relocations: tuple[Relocation, ...]


@dataclass(frozen=True, slots=True)
class NodeGraph:
    """The neighbours of each node from row ``first`` on, as rows from there."""

    first: int
    neighbours: tuple[tuple[int, ...], ...]

    def colourings(self) -> dict[str, Classes]:
        """Rows of nodes by colour, for each algorithm."""
        return {
            name: [[self.first + vertex for vertex in vertices] for vertices in colour(self.neighbours, name)]
            for name in ALGORITHMS
        }


def without_secondary(state: State) -> Bools:
    """Instances that cannot migrate to a secondary: only DRBD has one."""
    alone: Bools = (state.template != TEMPLATE_CODE[DiskTemplate.DRBD]) | (state.snode == NOWHERE)
    return alone


def stuck(state: State) -> Bools:
    """Mark mirrored instances that cannot leave their primary: the secondary takes no instances."""
    off: Bools = ~without_secondary(state) & ~state.forthcoming & ~placement_rules.fixed(state)
    return off & state.columns.offline[state.snode]


def node_graph(state: State, members: Bools, offline: bool) -> NodeGraph:
    """Return the graph of nodes that must not be down together. Raises HtoolsError without nodes."""
    rows = np.flatnonzero(members)
    if not len(rows):
        raise HtoolsError("Cannot create node graph")
    mirrored = np.flatnonzero(~without_secondary(state))
    pairs = list(zip(state.pnode[mirrored].tolist(), state.snode[mirrored].tolist(), strict=True))
    edges = [edge for p, s in pairs for edge in ((p, s), (s, p))]
    if not offline:
        known = set(edges)
        edges += [edge for edge in dict.fromkeys(_sharing_a_secondary(state)) if edge not in known]
    first = int(rows[0])
    neighbours: list[list[int]] = [[] for _ in range(first, int(rows[-1]) + 1)]
    for source, target in reversed(edges):
        if members[source] and members[target]:
            neighbours[source - first].append(target - first)
    return NodeGraph(first, tuple(map(tuple, neighbours)))


def _sharing_a_secondary(state: State) -> Iterator[tuple[int, int]]:
    """Yield pairs of nodes that each have an instance with the same secondary."""
    for node in range(len(state.group)):
        primaries = dict.fromkeys(state.pnode[state.secondaries_of(node)].tolist())
        yield from product(primaries, primaries)


def reboot_groups(
    state: State,
    members: Bools,
    classes: Classes,
    maintenance: Maintenance,
    progress: Progress = lambda _node: None,
) -> list[RebootGroup]:
    """Divide each class into groups: larger groups first, the master's group last and the master last in
    it.

    Raises HtoolsError if instances that must move have no room.
    """
    state = replace(state, allowed_migrations=None)
    groups = _groups(state, members, classes, maintenance, progress)
    if any(goes_astray(state, group) for group in groups):
        members = members.copy()
        members[state.pnode[stuck(state)]] = False
        classes = [[node for node in rows if members[node]] for rows in classes]
        groups = _groups(state, members, classes, maintenance, progress)
    return _master_last(state, sorted(groups, key=lambda group: -len(group.nodes)))


def _groups(
    state: State, members: Bools, classes: Classes, maintenance: Maintenance, progress: Progress
) -> list[RebootGroup]:
    groups = []
    for nodes, moved in emptied_together(state, classes, maintenance, progress):
        chosen = tuple(node for node in nodes if members[node])
        groups.append(RebootGroup(chosen, tuple(_relocations(state, moved))))
    return groups


def goes_astray(state: State, group: RebootGroup) -> bool:
    """Whether an instance goes to a node of the group, or to one that takes no instances."""
    closed = state.columns.offline.copy()
    closed[list(group.nodes)] = True
    return any(
        closed[new] and NOWHERE != new != old[each.instance]
        for each in group.relocations
        for new, old in ((each.pnode, state.pnode), (each.snode, state.snode))
    )


def emptied_together(
    state: State, classes: Classes, maintenance: Maintenance, progress: Progress
) -> Iterator[tuple[list[int], State]]:
    """Yield parts of each class that can be emptied together, each with the resulting state.

    Instances without secondary leave all nodes before any mirror does, so the first failure is reported.
    """
    if maintenance.ignore_alone:
        parts = [(rows, state) for rows in classes]
    else:
        parts = [part for rows in classes for part in _partition(state, rows, progress)]
    if not maintenance.full:
        yield from parts
        return
    migrated = [(nodes, _migrated(emptied, nodes)) for nodes, emptied in parts]
    for nodes, emptied in migrated:
        yield from _partition(emptied, nodes, progress, mirrors=True)


def _partition(
    state: State, rows: Sequence[int], progress: Progress, mirrors: bool = False
) -> Iterator[tuple[list[int], State]]:
    """Yield the nodes in parts that can be emptied together, each with the resulting state.

    They are emptied of instances without secondary, or of the ``mirrors`` of others.
    """
    left = list(rows)
    while left:
        cleared, after, stranded = _clear(state, left, progress, mirrors)
        if not cleared and stranded is not None:
            raise _no_capacity(stranded, mirrors)
        yield cleared, after
        left = [node for node in left if node not in cleared]


def _clear(
    state: State, rows: Sequence[int], progress: Progress, mirrors: bool
) -> tuple[list[int], State, Stranded | None]:
    """Empty as many of the nodes as have room, in order. Also returns the first instance without room."""
    targets, first = ~state.columns.offline, None
    relocate = _relocate_secondaries if mirrors else _relocate_alone
    cleared = []
    for node in rows:
        progress(node)
        others = targets.copy()
        others[node] = False
        tried = state.copy()
        stranded = relocate(tried, node, others & (state.group == state.group[node]))
        if stranded is None:
            cleared.append(node)
            state, targets = tried, others
        first = first or stranded
    return cleared, state, first


def _no_capacity(stranded: Stranded, secondary: bool) -> HtoolsError:
    """Build the error about an instance without room; the hint names the instance, what lacks, the option."""
    state, index, targets, codes = stranded
    row, node = state.cluster.instances[index], (state.snode if secondary else state.pnode)[index]
    reason = "no other node is online"
    if len(targets):
        fail, none = FAIL[int(np.bincount(codes).argmax())], np.zeros(0, np.int64)
        primaries, secondaries = (none, targets) if secondary else (targets, none)
        found = _missing(state, index, fail, primaries, secondaries)
        reason = f"most missing: {found}" if found else fail.value
    what, option = "non-redundant instances", "--ignore-non-redundant lets such instances stay"
    if secondary:
        what, option = "secondaries", "without --full-evacuation they stay"
    hint = f"instance {row.name} finds no room outside {state.cluster.nodes[node].name}: {reason}; {option}"
    return HtoolsError(f"Not enough capacity to move {what}", hint, exact=True)


def _missing(state: State, index: int, fail: Fail, primaries: Ints, secondaries: Ints) -> str | None:
    """Describe what the nodes (rows) that refuse an instance lack."""
    asked = state.instance(index)
    if fail is Fail.RULE:
        return shortage.describe_broken_rules(state, asked, primaries, secondaries)
    return shortage.nearest_miss(state, asked, fail, primaries, secondaries, force=True)


def _relocate_alone(state: State, node: int, targets: Bools) -> Stranded | None:
    rows, alone = np.flatnonzero(targets), without_secondary(state) & ~placement_rules.fixed(state)
    for index in state.primaries_of(node).tolist():
        if alone[index]:
            trial = move(state, state.instance(index), MoveKind.FAILOVER_TO, rows, targets, force=True)
            fits = np.flatnonzero(trial.codes == FITS)
            if not len(fits):
                return Stranded(state, index, rows, trial.codes)
            settling.settle(state, trial.only(int(fits[0])))
    return None


def _migrated(state: State, rows: Sequence[int]) -> State:
    """Return the state with all mirrored instances of the nodes on their secondaries."""
    state = state.copy()
    mirrored = ~without_secondary(state) & ~placement_rules.fixed(state)
    for index in [index for node in rows for index in state.primaries_of(node).tolist() if mirrored[index]]:
        asked = state.instance(index)
        trial = move(state, asked, MoveKind.FAILOVER, force=True)
        if trial.codes[0] != FITS:
            target, fail = trial.pnode[:1], FAIL[int(trial.codes[0])]
            found = _missing(state, index, fail, target, target[:0])
            hint = f"instance {asked.row.name} cannot fail over: most missing: {found or fail.value}"
            raise HtoolsError("Failed to migrate instances off nodes", hint, exact=True)
        settling.settle(state, trial)
    return state


def _relocate_secondaries(state: State, node: int, targets: Bools) -> Stranded | None:
    rows, fixed = np.flatnonzero(targets), placement_rules.fixed(state)
    for index in state.secondaries_of(node).tolist():
        if fixed[index]:
            continue
        asked, primary = state.instance(index), int(state.pnode[index])
        # The primary is not touched, so only the new node's room counts, and whether disks can be copied.
        kept = placements.class_peers(state, primary, rows)
        _, codes = node_rules.add_secondary(
            state.columns.take(rows), asked, state.peers[primary, rows], force=True, peers=kept
        )
        codes = first_reason(codes, node_rules.copy_codes(state.columns.take([primary]), asked))
        codes = placement_rules.rule_codes(state, asked, codes, secondary=rows)
        fits = rows[(codes == FITS) & (rows != primary)]
        if not len(fits):
            return Stranded(state, index, rows[rows != primary], codes[rows != primary])
        settling.settle(state, move(state, asked, MoveKind.REPLACE_SECONDARY, fits[:1], force=True))
    return None


def _relocations(before: State, after: State) -> Iterator[Relocation]:
    """Yield instances on other nodes than before; a mere change of roles does not count."""
    moved = (before.pnode != after.pnode) | (before.snode != after.snode)
    moved &= (before.pnode != after.snode) | (before.snode != after.pnode)
    snode = np.where(without_secondary(after), NOWHERE, after.snode)
    for index in np.flatnonzero(moved).tolist():
        yield Relocation(index, int(after.pnode[index]), int(snode[index]))


def _master_last(state: State, groups: Iterable[RebootGroup]) -> list[RebootGroup]:
    def is_master(node: int) -> bool:
        return state.cluster.nodes[node].master

    ordered = [replace(group, nodes=tuple(sorted(group.nodes, key=is_master))) for group in groups]
    return sorted(ordered, key=lambda group: any(map(is_master, group.nodes)))
