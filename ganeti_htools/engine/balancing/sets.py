"""Sets of instances that stay together (``htools:together``), moved as one (``htools-tags(7)``).

A candidate is a whole set, one kind of move, and one new node. Its score is that of the state after all
members have moved. Each member's move obeys the rules of single moves, in the state that the moves before it
leave. Meanwhile members are apart, so all their moves belong to one jobset.

A set acts on nodes like one instance that has the sum of its members' figures. So all candidates are rated
at once, and only the best are tried member by member. Sets whose sum is no such instance (:func:`_alike`)
stay. A set never replaces primaries: its members would be apart on a third node.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.new_nodes import BLOCK
from ganeti_htools.engine.balancing.own_nodes import May
from ganeti_htools.engine.balancing.step_search import CLOSE, BestMove
from ganeti_htools.engine.rules import affinity, choice, placement_rules
from ganeti_htools.engine.rules.batches import AMOUNTS, FIGURES, Batch, NodeFacts, batches_of
from ganeti_htools.engine.rules.node_rules import CODE, FITS
from ganeti_htools.engine.rules.relocate import nodes_after, relocate, settle_and_refresh, try_move
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.engine.rules.trial import NodeChange, Trial
from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Load
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.hour_sums import HourSums
from ganeti_htools.model.moves import KINDS, RANK, MoveKind
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail

# The moves of all members, in order; the last one has the score of the whole.
SetMove = tuple[BestMove, ...]

# Limits that a set may keep though the sum of its members does not: they depend on a single instance.
_OF_ONE = [CODE[Fail.MEM], CODE[Fail.RESOURCE]]
# Columns to which each instance adds the same.
_COUNTS = ("primaries", "secondaries", "location")


class _Sums(NamedTuple):
    """Sets (rows of their members) as a batch of instances, each in the row of its first member."""

    sets: Sequence[tuple[int, ...]]
    batch: Batch

    @property
    def sizes(self) -> Ints:
        return np.array([len(members) for members in self.sets])


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A set (rows), a kind of move and a new node, with the expected score."""

    score: float
    members: tuple[int, ...]
    kind: MoveKind
    node: int

    @property
    def rank(self) -> tuple[int, int, int]:
        """The order of equal candidates."""
        return self.members[0], self.node, RANK[self.kind]


class SetSearch:
    """The search for the best move of a set, repeated as moves are made.

    ``movable`` marks the instances that may move: a set moves only if all its members may.
    """

    def __init__(self, state: State, scope: Bools, movable: Bools, force: bool, unmirrored: bool) -> None:
        self.state, self.scope, self.force = state, scope, force
        self.targets = np.flatnonzero(scope & ~state.columns.offline)
        batches, self.facts = batches_of(state, movable & placement_rules.in_sets(state), unmirrored)
        self.member = {
            row: (batch, place) for batch in batches for place, row in enumerate(batch.rows.tolist())
        }
        sets = [members for members in _sets_at_one_place(state) if self._alike(members)]
        self.sums, self.sum_facts = self._sums(sets, unmirrored)

    def note(self, *trials: Trial) -> None:
        """Update the search after moves that have been settled."""
        nodes = np.array(sorted({int(node.rows[0]) for trial in trials for node in trial.changes}))
        self.facts.refresh(nodes)
        self.sum_facts.refresh(nodes)

    @np.errstate(invalid="ignore", divide="ignore", over="ignore")  # nodes that report nothing
    def best(
        self, limit: float, may: May, most: float, admits: Callable[[SetMove], bool] | None = None
    ) -> SetMove | None:
        """Find the move with the lowest score below ``limit``; of equal ones the first.

        It moves at most so many instances, ``may`` selects the allowed moves, ``admits`` has the last word.
        """
        slack = CLOSE * (1.0 + abs(limit))
        found, lowest = None, (limit, (-1, -1, -1))
        for each in sorted(self._candidates(limit + slack, may), key=lambda each: (each.score, each.rank)):
            if each.score > lowest[0] + slack:
                break
            move = self._move(each) if len(each.members) <= most else None
            if move is None or (admits is not None and not admits(move)):
                continue
            if (move[-1].score, each.rank) < lowest:
                found, lowest = move, (move[-1].score, each.rank)
        return found

    def _move(self, candidate: _Candidate) -> SetMove | None:
        """Move a set on a copy of the state; None if that is not possible."""
        facts, moves, kind, node = _copy(self.facts), list[BestMove](), candidate.kind, candidate.node
        for row in candidate.members:
            trial = try_move(facts, *self.member[row], kind, node, self.force)
            if trial.codes[0] != FITS:
                return None
            settle_and_refresh(facts, trial)
            moves.append(BestMove(trial, kind, node, float(choice.base(facts.state, self.scope).score())))
        return tuple(moves)

    def _candidates(self, limit: float, may: May) -> Iterator[_Candidate]:
        """Yield the candidates with an expected score up to a limit."""
        base = choice.base(self.state, self.scope)
        for sums in self.sums:
            for kind in KINDS[sums.batch.mirror]:
                if not kind.passes_secondary:
                    yield from self._rated(sums, kind, base, limit, may)

    def _rated(
        self, sums: _Sums, kind: MoveKind, base: Statistics, limit: float, may: May
    ) -> Iterator[_Candidate]:
        """Rate all moves of one kind of sets like single instances."""
        state, targets = self.state, self.targets if kind.takes_node else np.array([NOWHERE])
        allowed = np.flatnonzero(may(sums.batch, kind))
        width = max(1, BLOCK // max(1, len(targets)))
        for start in range(0, len(allowed), width):
            block = allowed[start : start + width]
            places, new = np.repeat(block, len(targets)), np.tile(targets, len(block))
            rows = sums.batch.rows[places]
            free = (new == NOWHERE) | ((new != state.pnode[rows]) & (new != state.snode[rows]))
            places, new = places[free], new[free]
            if not len(places):
                continue
            batch, nodes = sums.batch.take(places), new if kind.takes_node else None
            touched, codes = relocate(self.sum_facts, batch, kind, self.force, nodes)
            changes = tuple(_counted(each, sums.sizes[places]) for each in touched)
            after = nodes_after(state, batch, kind, nodes)
            trial = Trial(
                batch.asked, codes, *after, changes, self._location_exclusion(batch, kind, after[0])
            )
            possible = (codes == FITS) | np.isin(codes, _OF_ONE) | bool(state.columns.shape.limited)
            scores = np.broadcast_to(trial.scores(base), codes.shape)
            for at in np.flatnonzero(possible & (scores <= limit)).tolist():
                members = sums.sets[int(places[at])]
                yield _Candidate(float(scores[at]), members, kind, int(new[at]))

    def _location_exclusion(self, batch: Batch, kind: MoveKind, goal: Ints) -> Any:
        state = self.state
        if kind.keeps_primary or not state.location_rows or batch.asked.forthcoming:
            return 0.0
        tag_sets, sources = self.sum_facts.tag_sets, state.pnode[batch.rows]
        changes = affinity.location_exclusion_changes(state, tag_sets, batch.tags, sources, self.scope)
        return changes[np.arange(len(goal)), goal]

    def _alike(self, members: Sequence[int]) -> bool:
        """Whether the members can all move, and a set acts on nodes like the sum of its members.

        They move in the same ways, desire the same locations, and have no exclusion tag in common.
        """
        if not all(row in self.member for row in members):
            return False
        rows, known = self.state.cluster.instances, self.state.cluster.tags
        batches = [self.member[row][0] for row in members]
        traits = {(each.mirror, each.asked.forthcoming, each.asked.spindles is None) for each in batches}
        desires = {tags.desired_locations(known, rows[row].tags) for row in members}
        prefixes = tags.exclusion_prefixes(known)
        excluding = [tag for row in members for tag in tags.exclusion_tags(prefixes, rows[row].tags)]
        return len(traits) == len(desires) == 1 and len(set(excluding)) == len(excluding)

    def _sums(self, sets: Sequence[tuple[int, ...]], unmirrored: bool) -> tuple[list[_Sums], NodeFacts]:
        """Make an instance of each set, in the row of its first member. It has the tags of all members."""
        state, of = self.state, {members[0]: members for members in sets}
        rows, wants = list(state.cluster.instances), state.wants.copy()
        for first, members in of.items():
            every = dict.fromkeys(tag for row in members for tag in rows[row].tags)
            rows[first] = replace(rows[first], tags=tuple(every))
            wants[first] = wants[list(members)].any(axis=0)
        whole = replace(state, cluster=replace(state.cluster, instances=tuple(rows)), wants=wants)
        batches, facts = batches_of(whole, np.isin(np.arange(len(rows)), list(of)), unmirrored)
        found = []
        for batch in batches:
            chosen = [of[row] for row in batch.rows.tolist()]
            places = [[self.member[row] for row in members] for members in chosen]
            found.append(_Sums(chosen, replace(batch, asked=_added(batch.asked, places))))
        return found, replace(facts, state=state)


def _sets_at_one_place(state: State) -> Iterator[tuple[int, ...]]:
    """Yield the sets (rows) whose members are together, by their first member."""
    seen = set[int]()
    for row in np.flatnonzero(placement_rules.in_sets(state)).tolist():
        if row not in seen:
            members = sorted((row, *placement_rules.mates(state, row)))
            seen.update(members)
            if len(set(zip(state.pnode[members].tolist(), state.snode[members].tolist(), strict=True))) == 1:
                yield tuple(members)


def _added(one: RequestedInstance, sets: Sequence[Sequence[tuple[Batch, int]]]) -> RequestedInstance:
    """Return ``one`` with the sums of each set in place of its figures; members are places in batches."""

    def add(value_of: Callable[[RequestedInstance], Any]) -> Any:
        def figure(batch: Batch, place: int) -> Any:
            values = value_of(batch.asked)
            return values[place] if np.ndim(values) else values

        return np.array([sum(figure(*member) for member in members) for members in sets])

    loads = Load(*(add(attrgetter(f"row.load.{name}")) for name in ("cpu", "mem", "dsk", "net")))
    figures: Any = {name: add(attrgetter(name)) for name in FIGURES if getattr(one, name) is not None}
    for name in AMOUNTS:
        each = [partial(_amount, name, at) for at in range(len(getattr(one, name)))]
        figures[name] = tuple(map(add, each))
    hours = (
        [sum(batch.asked.hours[which].terms[0][place] for batch, place in members) for members in sets]
        for which in range(len(one.hours))
    )
    figures["hours"] = tuple(HourSums(np.array(each, np.int32)) for each in hours)
    return replace(one, row=replace(one.row, load=loads), **figures)


def _amount(name: str, at: int, asked: RequestedInstance) -> Any:
    return getattr(asked, name)[at]


def _counted(change: NodeChange, sizes: Ints) -> NodeChange:
    """Let each instance count as so many, and its locations too."""
    old, new = change.old, change.new
    figures = {
        name: getattr(old, name) + sizes * (getattr(new, name) - getattr(old, name)) for name in _COUNTS
    }
    return replace(change, new=new.with_figures(figures))


def _copy(facts: NodeFacts) -> NodeFacts:
    """Return facts about a copy of their state."""
    tables = {name: getattr(facts, name).copy() for name in ("present", "others", "reserved")}
    return replace(facts, state=facts.state.copy(), kept=tuple(map(np.copy, facts.kept)), **tables)
