"""A cluster while instances change their node groups.

Each group is also a small state of its own; moves are carried out on the whole cluster. Within a group an
instance gets the place that a change of group by ``hail(1)`` gives it. The best group is chosen by
allocation policy, then by the score of the whole cluster. No placement breaks the redundancy of its group.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ganeti_htools.engine.allocation.move_parts import try_operation, try_part
from ganeti_htools.engine.allocation.solution import Solution
from ganeti_htools.engine.groups.diagnosis import GroupDiagnosis, diagnose
from ganeti_htools.engine.groups.group_state import GroupState, best_place, group_state, has_room
from ganeti_htools.engine.groups.partitions import GroupTargets
from ganeti_htools.engine.groups.routes import end_of_route, route_out, routes_within, source_node
from ganeti_htools.engine.groups.rules import RegroupingRules, obstacle_to_leaving
from ganeti_htools.engine.moving.named_moves import remaining_move
from ganeti_htools.engine.redundancy.checks import NoLossCheck
from ganeti_htools.engine.redundancy.recoverability import describe_lost, recoveries
from ganeti_htools.engine.rules import choice, settling
from ganeti_htools.engine.rules.node_rules import FAIL, FITS, copy_codes
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.model.columns import NOWHERE, Bools, Ints, sorted_unique
from ganeti_htools.model.moves import Move, MovePart, NamedMove, Operation
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.placement_tags import placement_tags
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import AllocPolicy, Fail, MirrorType


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """A place for an instance (row) in a group (row): its route, and the whole cluster's score.

    The score is that with one more instance like it.
    """

    instance: int
    group: int
    parts: tuple[MovePart, ...]
    score: float


class Regrouping:
    """A cluster after some instances changed their nodes; :attr:`moved` lists them.

    The state is never changed in place.
    """

    def __init__(self, state: State, rules: RegroupingRules) -> None:
        self.state, self.rules, self.moved = state, rules, list[Move]()
        self._detached: dict[int, GroupState] = {}
        self._health: dict[int, GroupDiagnosis] = {}
        self._redundant = set[int]()  # groups that are proved redundant, and that instances have only left
        self._base: Statistics | None = None
        self.group_targets = GroupTargets(state, rules)

    def copy(self) -> "Regrouping":
        """Return a copy; changes of the copy do not affect this one."""
        other = object.__new__(Regrouping)
        other.__dict__.update(self.__dict__)
        other.moved = list(self.moved)
        other._detached, other._health = dict(self._detached), dict(self._health)
        other._redundant = set(self._redundant)
        return other

    def group_of(self, index: int) -> int:
        """Return the group (row) of an instance's primary."""
        return int(self.state.group[self.state.pnode[index]])

    def homes(self, index: int) -> tuple[int, ...]:
        """Return the groups (rows) of an instance's nodes, that of its primary first.

        There are two while an interrupted change of group leaves the instance between them.
        """
        return tuple(dict.fromkeys(int(self.state.group[node]) for node in self.state.nodes_of(index)))

    def obstacle(self, index: int) -> str | None:
        """Return the reason why an instance must not change its group; None if it may."""
        return obstacle_to_leaving(self.state, self.rules, index)

    def refusal(self, index: int, group: int) -> str | None:
        """Return the reason why a group (row) can never take an instance, whatever its room; None if it
        can.
        """
        return self.group_targets.refusal(index, self.group_of(index), group)

    def targets(self, index: int) -> list[int]:
        """Groups (rows) that may take an instance if they have room; see :meth:`.GroupTargets.of`."""
        return self.group_targets.of(index, self.homes(index))

    def last_resort(self, group: int) -> bool:
        """Whether a group (row) takes instances only if no other group does."""
        return self.state.cluster.groups[group].alloc_policy is AllocPolicy.LAST_RESORT

    def places(self, index: int, groups: Iterable[int]) -> list[GroupPlace]:
        """Return the best place in each of these groups (rows), the best group first.

        Groups of the last resort count only if no other group has a place. An instance between two groups
        comes to one of them if it can, which copies less.
        """
        groups = list(groups)
        if len(homes := self.homes(index)) > 1 and (
            here := [place for home in homes if home in groups for place in self._finished(index, home)]
        ):
            return here
        found: list[GroupPlace] = []
        for last_resort in (False, True):
            for group in groups:
                if self.last_resort(group) is last_resort:
                    found += self._place(index, group)
            if found:
                break
        return sorted(found, key=self.rank)

    def _finished(self, index: int, group: int) -> list[GroupPlace]:
        """Return the best place in a group for an instance that has one of its two nodes there."""
        for parts in routes_within(self.state, self.rules, index, group):
            after = self.after_moving(index, parts)
            if after is not None:
                return [GroupPlace(index, group, parts, float(after.base.score()))]
        return []

    def rank(self, place: GroupPlace) -> tuple[Any, ...]:
        """Return the sort key of a place: allocation policy, then score; of equal places the last group, as
        hail.
        """
        unrated = place.score != place.score
        return self.last_resort(place.group), unrated, 0.0 if unrated else place.score, -place.group

    def _place(self, index: int, group: int) -> list[GroupPlace]:
        solution = self._best_place(index, group)
        if solution is None or solution.trial is None:
            return []
        score = float(np.asarray(solution.trial.scores(self.base)).ravel()[0])
        return [GroupPlace(index, group, route_out(self.state, index, self._rows(group, solution)), score)]

    def route_to(self, index: int, group: int) -> tuple[MovePart, ...] | None:
        """Return an instance's route to the best place in a group (row), or None."""
        if len(self.homes(index)) > 1:
            return next((place.parts for place in self.places(index, [group])), None)
        solution = self._best_place(index, group)
        if solution is None or solution.trial is None:
            return None
        return route_out(self.state, index, self._rows(group, solution))

    def _rows(self, group: int, solution: Solution) -> tuple[int, ...]:
        return tuple(self.group_state(group).nodes[list(solution.nodes)].tolist())

    def _best_place(self, index: int, group: int) -> Solution | None:
        """Return the best place in a group, cached for equal instances that reach the same nodes."""
        alone, asked = self.group_state(group), self.unplaced(index)
        reached = self.reached(index, alone)
        check, excused = alone.check, False
        if isinstance(check, NoLossCheck) and index in self.diagnosis(self.group_of(index)).unrecoverable:
            check, excused = replace(check, may_be_lost=True), True
        load = tuple(each.sums.tobytes() for each in asked.hours)
        kind = asked.needs, asked.row.demand, load, *map(tuple, (asked.tags, asked.desired))
        rules = placement_tags(asked.row.tags) if self.state.rules is not None else None
        key = *kind, rules, excused, reached.tobytes()
        if key not in alone.known:
            alone.known[key] = best_place(alone, asked, reached, check)
        return alone.known[key]

    def unplaced(self, index: int) -> RequestedInstance:
        """Return the figures of a new instance equal to an instance."""
        return replace(self.state.instance(index), index=NOWHERE)

    def reached(self, index: int, alone: GroupState) -> Ints:
        """Return the nodes of a group (its rows) that an instance can reach from its nodes.

        A mirrored instance first gets its new primary as secondary, and its new secondary from there.
        """
        state, asked = self.state, self.state.instance(index)
        nodes = np.flatnonzero(~alone.state.columns.offline)
        if state.allowed_migrations is not None and asked.row.template.mirror is not MirrorType.NONE:
            nodes = nodes[state.allowed_migrations[source_node(state, index), alone.nodes[nodes]]]
        if not asked.mirrored or not len(nodes):
            return nodes
        if state.columns.offline[state.pnode[index]]:
            failed_over = self._gone(index, [MovePart(Operation.FAILOVER)])
            if isinstance(failed_over, Fail):
                return nodes[:0]
            state = failed_over
        trial = try_operation(
            state, asked, Operation.REPLACE_SECONDARY, alone.nodes[nodes], PlacementOptions()
        )
        source = copy_codes(alone.state.columns.take(nodes), asked)
        reached: Ints = nodes[(trial.codes == FITS) & (source == FITS)]
        return reached

    def move(self, index: int, parts: Sequence[MovePart]) -> bool:
        """Move an instance along its route; False if a part is impossible."""
        after = self._gone(index, parts)
        if isinstance(after, Fail):
            return False
        homes, self.state, self._base = self.homes(index), after, None
        for group in {*homes, *self.homes(index)}:
            alone = self._detached.pop(group, None)
            self._health.pop(group, None)
            if group in self.homes(index):
                self._redundant.discard(group)
            elif alone is not None and alone.redundant:
                self._redundant.add(group)
        self.moved.append(Move(index, tuple(parts), after.nodes_of(index)))
        return True

    def failure(self, index: int, parts: Sequence[MovePart]) -> Fail | None:
        """Return the reason why a part of a route is impossible, or None."""
        after = self._gone(index, parts)
        return after if isinstance(after, Fail) else None

    def _gone(self, index: int, parts: Sequence[MovePart]) -> State | Fail:
        """Return the state after an instance's route, or the reason against it."""
        asked = self.state.instance(index)
        after = self.state.copy()
        for part in parts:
            trial = try_part(after, asked, part, PlacementOptions())
            code = int(trial.codes.ravel()[0])
            if code != FITS:
                return FAIL[code]
            settling.settle(after, trial)
        after.stamp = self.state.stamp  # the order after the cluster is read again
        return after

    def after_moving(self, index: int, parts: Sequence[MovePart]) -> "Regrouping | None":
        """Return a copy with an instance moved; None if it cannot move or an affected group gets worse."""
        after = self.copy()
        return after if after.move(index, parts) and not after.degrades(self, self.homes(index)) else None

    def degrades(self, before: "Regrouping", groups: Iterable[int]) -> bool:
        """Whether any of these groups, or of the last moved instance's groups, is worse than before.

        Nor may an instance of these groups lose its redundancy.
        """
        touched = {*groups, *(self.homes(self.moved[-1].instance) if self.moved else ())}
        worse = any(self.diagnosis(group).worse_than(before.diagnosis(group)) for group in touched)
        return worse or bool(self.lost_since(before, touched))

    def lost_since(self, before: "Regrouping", groups: Iterable[int]) -> list[int]:
        """Return the instances (rows) of some groups that lost their redundancy.

        They would have come back after the loss of their primary before, and would not now.
        """
        groups = list(groups)
        was, now = (
            {row for group in groups for row in each.diagnosis(group).unrecoverable}
            for each in (before, self)
        )
        return sorted(now - was)

    def after_leaving_group(self, index: int) -> "Regrouping | None":
        """Return a copy with an instance moved to its best place in another group, or None."""
        found = (self.after_moving(index, place.parts) for place in self.places(index, self.targets(index)))
        return next(filter(None, found), None)

    def has_room(self, group: int, number: int) -> bool:
        """Whether a group (row) can take this number of standard instances."""
        return has_room(self.group_state(group), group, number)

    @property
    def base(self) -> Statistics:
        if self._base is None:
            self._base = choice.base(self.state, self.state.everywhere)
        return self._base

    def group_state(self, group: int) -> GroupState:
        """Return a group as a state of its own."""
        if group not in self._detached:
            self._detached[group] = group_state(self.state, group)
        return self._detached[group]

    def diagnosis(self, group: int) -> GroupDiagnosis:
        """Return the diagnosis of a group, in rows of the whole cluster."""
        if group not in self._health:
            self._health[group] = diagnose(self.state, self.state.group == group, self._unrecoverable(group))
        return self._health[group]

    def _unrecoverable(self, group: int) -> Bools:
        """Mark the instances with their primary in a group that would not come back after its loss."""
        state = self.state
        found, here = np.zeros(len(state.pnode), np.bool_), state.group[state.pnode] == group
        if group not in self._redundant:
            alone = self.group_state(group)
            found[alone.instances] = alone.lost
        elsewhere = (state.snode != NOWHERE) & (state.group[state.snode] != group)
        between = here & elsewhere & ~state.forthcoming
        for node in sorted_unique(state.pnode[between]).tolist():
            for recovery in recoveries(state.copy(), node):
                found[recovery.instance] = recovery.node == NOWHERE
        return found


def recheck_moves(now: Regrouping, moves: Sequence[NamedMove]) -> str | None:
    """Make moves in place, one after the other, and return the first reason against them, or None.

    A partly moved instance goes the rest of its route. No move may take an instance's redundancy. In the end
    no group may be less healthy and no moved instance between two groups.
    """
    rows = now.state.rows_by_name()
    groups = sorted(now.rules.groups)
    before = {group: now.diagnosis(group) for group in groups}
    for move in moves:
        last = now.copy()
        why = _cannot_be_made(now, rows.get(move.instance, NOWHERE), move)
        if why is not None:
            return f"instance {move.instance} {why}"
        if lost := now.lost_since(last, groups):
            return describe_lost(now.state, lost)
    names = [group.name for group in now.state.cluster.groups]
    for move in moves:
        homes = now.homes(rows[move.instance])
        if len(homes) > 1:
            return f"instance {move.instance} would be between groups {' and '.join(names[g] for g in homes)}"
    for group in groups:
        if now.diagnosis(group).worse_than(before[group]):
            return f"group {names[group]} would be {now.diagnosis(group).word}"
    return None


def _cannot_be_made(now: Regrouping, row: int, move: NamedMove) -> str | None:
    """Make the rest of a move. Returns the obstacle, or None once the move is made."""
    if row == NOWHERE:
        return "is gone"
    state, names = now.state, [group.name for group in now.state.cluster.groups]
    rest = remaining_move(state, row, move)
    if rest is None:
        here = ", ".join(state.names(state.nodes_of(row)))
        return f"is on {here}, not on {', '.join(move.was)}"
    parts = []
    for operation, name in rest.parts:
        node = NOWHERE if name is None else state.nodes.get(name, NOWHERE)
        if name is not None and node == NOWHERE:
            return f"cannot go to node {name}, which is gone"
        if node != NOWHERE and state.columns.offline[node]:
            return f"cannot go to node {name}, which is offline or drained"
        parts.append(MovePart(operation, node))
    if not now.rules.movable[row]:
        return "must not be moved"
    target = int(state.group[end_of_route(now.state, row, parts)[0]])
    if target not in now.homes(row) and (why := now.refusal(row, target)) is not None:
        return f"cannot go to group {names[target]}: {why}"
    fail = now.failure(row, parts)
    if fail is not None:
        return f"does not fit on {', '.join(move.now)} any more ({fail.value})"
    now.move(row, parts)
    return None
