"""Moves of instances off nodes and out of groups, one after the other, each to the best place then.

The rules are those of ``hail(1)`` (node evacuation, group change, relocation): targets are the online nodes
of a group that are not to be emptied. Scores are those of the target group.

Instances that stay together (``htools:together``) leave their nodes together, or not at all.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ganeti_htools.engine.allocation.allocate import best_outcome, in_groups
from ganeti_htools.engine.allocation.leave import leave
from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.allocation.shortage import explain
from ganeti_htools.engine.allocation.solution import GroupOutcome
from ganeti_htools.engine.allocation.wording import outcome_line
from ganeti_htools.engine.rules.placement_rules import eligible, mates
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.moves import Move, MovePart
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import EvacMode, MirrorType


@dataclass(frozen=True, slots=True)
class Evacuation:
    """The moves in order, the failures with their reasons, and the state afterwards.

    ``left``: instances that move to another group because their own has no place, with the reason.
    """

    moved: tuple[Move, ...]
    failed: tuple[tuple[int, str], ...]
    state: State
    left: tuple[tuple[int, str], ...] = ()


def evacuate_nodes(
    state: State,
    instances: Sequence[int],
    mode: EvacMode,
    options: PlacementOptions,
    reporter: Reporter = SILENT,
) -> Evacuation:
    """Move each instance off its primary, its secondary or both, within its group."""
    state, away = state.copy(), nodes_to_leave(state, instances, mode)

    def move(now: State, index: int, nodes: Bools, reporter: Reporter = SILENT) -> list[MovePart]:
        asked, group = now.instance(index), int(now.group[now.pnode[index]])
        usable = nodes.copy()
        usable[now.pnode[index]] = False
        reporter.starting(now, asked, now.group == group)
        return leave(now, asked, mode, group, np.flatnonzero(usable), options, reporter)

    def scope(index: int) -> Bools:
        nodes: Bools = (state.group == state.group[state.pnode[index]]) & ~away & ~state.columns.offline
        return nodes

    sets = SetMoves(state, instances, move, mode, scope)
    return _one_by_one(
        state, instances, lambda index: move(state, index, sets.targets(index), reporter), reporter
    )


def nodes_to_leave(state: State, instances: Sequence[int], mode: EvacMode) -> Bools:
    """Find the nodes that some of the instances are to leave."""
    nodes = np.zeros(len(state.group), np.bool_)
    for index in instances:
        if mode is not EvacMode.SECONDARY:
            nodes[state.pnode[index]] = True
        if mode is not EvacMode.PRIMARY and state.instance(index).mirrored and state.snode[index] != NOWHERE:
            nodes[state.snode[index]] = True
    return nodes


def _one_by_one(
    state: State, instances: Sequence[int], move: Callable[[int], list[MovePart]], reporter: Reporter
) -> Evacuation:
    """Move each instance, in place; ``move`` returns the parts of its move or raises RequestFailed."""
    moved, failed = [], []
    for index in sets_in_order(state, instances) if state.rules else instances:
        try:
            parts = move(index)
        except RequestFailed as failure:
            reporter.failed(str(failure))
            failed.append((index, str(failure)))
        else:
            moved.append(Move(index, tuple(parts), state.nodes_of(index)))
            reporter.placed(moved[-1].nodes)
    return Evacuation(tuple(moved), tuple(failed), state)


def change_group(
    state: State,
    instances: Sequence[int],
    targets: Sequence[int],
    options: PlacementOptions,
    reporter: Reporter = SILENT,
) -> Evacuation:
    """Move each instance to the best of the target groups, of all other groups if no targets are given.

    The reporter gets the places of an equal new instance, which decide about the group.
    """
    left = {int(state.group[state.pnode[index]]) for index in instances}
    allowed = [group for group in (targets or range(len(state.cluster.groups))) if group not in left]
    state = state.copy()

    def move(now: State, index: int, nodes: Bools, reporter: Reporter = SILENT) -> list[MovePart]:
        asked = now.instance(index)
        count = asked.row.template.required_nodes
        outcomes = in_groups(now, asked, count, options, allowed, reporter)
        best = best_outcome(now, outcomes)
        if best is None:
            raise RequestFailed(_no_group(now, asked, allowed, outcomes, options))
        usable = (now.group == best.group) & nodes
        return leave(now, asked, EvacMode.ALL, best.group, np.flatnonzero(usable), PlacementOptions())

    scope = np.isin(state.group, allowed) & ~state.columns.offline
    sets = SetMoves(state, instances, move, EvacMode.ALL, lambda _: scope)
    return _one_by_one(
        state, instances, lambda index: move(state, index, sets.targets(index), reporter), reporter
    )


def _no_group(
    state: State,
    asked: RequestedInstance,
    allowed: Sequence[int],
    outcomes: Sequence[GroupOutcome],
    options: PlacementOptions,
) -> str:
    if outcomes:
        lines = ", ".join(outcome_line(state, outcome, asked.row.name) for outcome in outcomes)
        why = explain(state, asked, asked.row.template.required_nodes, outcomes, options)
        return f"{lines}; {why}" if why else lines
    names = [state.cluster.groups[group].name for group in allowed]
    return f"no groups for evacuation: allowed groups was {names}"


def relocate_off(
    state: State,
    index: int,
    count: int,
    leaving: Sequence[int],
    options: PlacementOptions,
    reporter: Reporter = SILENT,
) -> Evacuation:
    """Move one instance off the one node named: the secondary if it is mirrored, else the primary."""
    mode = _relocation_mode(state, index, count, leaving)
    result = evacuate_nodes(state, [index], mode, options, reporter)
    if result.failed:
        raise RequestFailed(result.failed[0][1])
    return result


def _relocation_mode(state: State, index: int, count: int, leaving: Sequence[int]) -> EvacMode:
    """Determine the mode by the one node to leave. Raises RequestFailed if it must not be left."""
    if count != 1:
        raise RequestFailed(f"Exchange {count} nodes mode is not implemented")
    mirror = state.cluster.instances[index].template.mirror
    if mirror is MirrorType.NONE:
        raise RequestFailed("Can't relocate non-mirrored instances")
    internal = mirror is MirrorType.INTERNAL
    expected = int(state.snode[index] if internal else state.pnode[index])
    if list(leaving) != [expected]:
        role, names = "secondary" if internal else "primary", ", ".join(state.names(leaving)) or "none"
        own = "none" if expected == NOWHERE else state.names([expected])[0]
        raise RequestFailed(
            f"Unsupported request: excluded nodes not equal to instance's {role}({own} versus {names})"
        )
    return EvacMode.SECONDARY if internal else EvacMode.PRIMARY


_TRIED = 32  # nodes, those with most free memory, of which one or two are tried for a whole set

# Moves an instance (row) to some nodes (a mask), in place on a state; raises RequestFailed.
MoveOff = Callable[[State, int, Bools], object]


def sets_in_order(state: State, instances: Sequence[int]) -> list[int]:
    """Sort instances (rows) so that members of a set follow its first member."""
    ordered: dict[int, None] = {}
    for index in instances:
        if index not in ordered:
            ordered |= dict.fromkeys(each for each in (index, *mates(state, index)) if each in instances)
    return list(ordered)


class SetMoves:
    """The moves of one request: ``instances`` (rows) leave nodes, by ``move``.

    ``scope`` marks the nodes that the request allows an instance (row).
    """

    def __init__(
        self,
        state: State,
        instances: Sequence[int],
        move: MoveOff,
        mode: EvacMode,
        scope: Callable[[int], Bools],
    ) -> None:
        self.state, self.instances, self.move, self.mode, self.scope = state, instances, move, mode, scope
        self._found: dict[int, Bools | str] = {}

    def targets(self, index: int) -> Bools:
        """Return the nodes among which the instance finds a place that all its mates find too.

        Raises RequestFailed if there are none.
        """
        if index not in self._found:
            others = mates(self.state, index)
            members = [index, *(each for each in others if each in self.instances)]
            left = [each for each in others if each not in members and self._shares_node(index, each)]
            self._found |= dict.fromkeys(members, self._common(members, left))
        found = self._found[index]
        if isinstance(found, str):
            raise RequestFailed(found)
        return found

    def _shares_node(self, index: int, other: int) -> bool:
        hosts = self.state.snode if self.mode is EvacMode.SECONDARY else self.state.pnode
        return bool(hosts[index] == hosts[other] != NOWHERE)

    def _common(self, members: Sequence[int], left: Sequence[int]) -> Bools | str:
        """Return the nodes for these members of a set, or the reason against all nodes."""
        everywhere = self.scope(members[0])
        if left:
            return f"it stays together with {self._names(left)}, which the request does not move"
        if len(members) == 1:
            return everywhere
        why = ""
        for nodes in self._choices(members[0], everywhere):
            tried = self.state.copy()
            try:
                for index in members:
                    self.move(tried, index, nodes)
            except RequestFailed as failure:
                why = why or str(failure)
            else:
                return nodes
        return f"no place for all of {self._names(members)}, which stay together: {why}"

    def _names(self, rows: Sequence[int]) -> str:
        return ", ".join(self.state.cluster.instances[row].name for row in rows)

    def _choices(self, index: int, everywhere: Bools) -> Iterator[Bools]:
        """Yield sets of nodes to try for the mates of an instance (row): all, and then one or two of them."""
        yield everywhere
        rows = np.flatnonzero(everywhere & eligible(self.state, self.state.instance(index)))
        roomy = rows[np.argsort(-self.state.columns.unallocated[rows], kind="stable")][:_TRIED]
        for some in combinations(roomy.tolist(), 2 if self.mode is EvacMode.ALL else 1):
            nodes = np.zeros_like(everywhere)
            nodes[list(some)] = True
            yield nodes
