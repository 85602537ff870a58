"""Moves that make room for a new instance (``hail(1)``, ``--make-room``).

A plan has the fewest moves, and of these copies least (:attr:`.InstanceMove.volume`). Each move obeys the
rules of balancing. Plans of one move are searched first, then of two, and so on. For each node a lower bound
tells how many instances must leave it before the new instance fits, so most moves are never tried. The search
ends after :data:`PATIENCE` tries.

Longer plans are found by descent: nodes that need few departures are relieved by trial, each by the cheapest
moves that bring the new instance nearer. That ends after as many tries.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ganeti_htools.engine.allocation import allocate
from ganeti_htools.engine.allocation.exclusive_storage import is_dedicated
from ganeti_htools.engine.allocation.shortage import arrivals
from ganeti_htools.engine.balancing.balance import candidates
from ganeti_htools.engine.balancing.instance_moves import InstanceMove, moves_of
from ganeti_htools.engine.decide import PlacedInstance, place_instance, refused_everywhere
from ganeti_htools.engine.rules import choice, instance_policy, node_rules, placement_rules, settling
from ganeti_htools.engine.rules.limits import PRIMARY, Limit
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.pools import PoolRoom, full_pool, pool_room
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints, of_unit, sorted_unique
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.moves import Move
from ganeti_htools.model.options import BalancingOptions, PlacementOptions
from ganeti_htools.model.request import Allocate
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import AllocPolicy

MOST_MOVES = 6  # of plans that are searched completely, without a limit
LONGEST = 30  # moves of a plan, without a limit
PATIENCE = 5_000  # moves that are tried; a placement counts as well where there are many pairs of nodes
PAIRS = 10_000  # pairs of nodes whose search takes as long as a try
TARGETS = 6  # nodes, or pairs of nodes, that are relieved by trial
_NEVER = 1 << 30  # departures, where none suffice


@dataclass(frozen=True, slots=True)
class RoomLimits:
    """The most ``moves``, and the most MiB to ``copy``; negative for no limit of one's own."""

    moves: int = -1
    copy: int = -1

    @property
    def most_moves(self) -> int:
        return LONGEST if self.moves < 0 else self.moves


@dataclass(frozen=True, slots=True)
class MadeRoom:
    """Moves that make room, and the place of the new instance afterwards.

    * ``refusal``: why it has no place without moves; empty if it has one.
    * ``after``: the state after the moves, without the new instance.
    * ``placed``: its place; None if no moves were found.
    * ``volume``: MiB that the moves copy.
    * ``searched``: the number of moves up to which there is no plan.
    * ``ended``: the search ended before all plans were tried. Another plan may copy less, or have fewer
      moves, but more than ``searched``.
    * ``hopeless``: no moves would help.
    """

    refusal: str
    after: State
    steps: tuple[Move, ...] = ()
    placed: PlacedInstance | None = None
    volume: int = 0
    searched: int = 0
    ended: bool = False
    hopeless: bool = False

    @property
    def at_least(self) -> int:
        """The number of moves below which there is no plan."""
        return self.searched + 1 if self.refusal else 0


@dataclass(frozen=True, slots=True)
class _Way:
    """A state on the way, the steps to it and the data copied (MiB).

    ``departures`` are lower bounds of the instances that must leave each node (primary, secondary by nodes).
    """

    state: State
    steps: tuple[Move, ...]
    volume: int
    departures: Floats


def make_room(
    state: State,
    request: Allocate,
    options: PlacementOptions,
    limits: RoomLimits,
    movable: Bools,
    progress: Callable[[str], object] = lambda _text: None,
) -> MadeRoom:
    """Find the moves after which a new instance has a place."""
    options = _restricted(request, options)
    newcomer = _Newcomer.of(state, request, options)
    now = newcomer.placed(state, remarks=True)
    if now.nodes:
        return MadeRoom("", state, placed=now)
    search = _Search(newcomer, options, limits.copy, movable, progress, PATIENCE)
    start = _Way(state, (), 0, search.departures(state, np.arange(len(state.group))))
    fewest = max(1, newcomer.fewest(start.departures))
    if fewest >= _NEVER:
        return MadeRoom(now.info, state, hopeless=True)
    searched = max(MOST_MOVES, fewest - 1) if limits.moves < 0 else limits.moves
    for number in range(fewest, searched + 1):
        search.seen.clear()
        search.extend(start, number)
        if search.ended or search.best is not None:
            searched = number - 1
            break
    ended = search.ended
    if search.best is None and searched < limits.most_moves:
        search.descend(start, limits.most_moves)
        ended |= search.best is not None
    if search.best is None:
        return MadeRoom(now.info, state, searched=searched, ended=ended)
    best = search.best
    return MadeRoom(
        now.info, best.state, best.steps, newcomer.placed(best.state), best.volume, searched, ended
    )


def placed(state: State, request: Allocate, options: PlacementOptions) -> PlacedInstance | None:
    """Place the new instance on a copy of a state; None if there is no room."""
    found = _Newcomer.of(state, request, _restricted(request, options)).placed(state)
    return found if found.nodes else None


def balancing(options: PlacementOptions) -> BalancingOptions:
    """Return the moves that may make room: all of balancing."""
    return BalancingOptions(ignore_soft_errors=options.ignore_soft_errors)


def _restricted(request: Allocate, options: PlacementOptions) -> PlacementOptions:
    """Return the options with the request's own restriction, unless they have one."""
    return options if options.restrict_to is not None else replace(options, restrict_to=request.restrict_to)


@dataclass(frozen=True, slots=True)
class _Newcomer:
    """The new instance, in each group that may take it: its figures, and the nodes to try (rows)."""

    request: Allocate
    options: PlacementOptions
    dedicated: bool
    pools: PoolRoom
    groups: tuple[tuple[RequestedInstance, Ints], ...]

    @classmethod
    def of(cls, state: State, request: Allocate, options: PlacementOptions) -> "_Newcomer":
        """Find the groups and nodes that may take the instance once there is room."""
        placement, pools, groups = request.placement, pool_room(state), []
        for row, group in enumerate(state.cluster.groups):
            asked = state.with_disk_defaults(row, state.requested_instance(placement.instance))
            barred = (
                group.alloc_policy is AllocPolicy.UNALLOCABLE
                if placement.group is None
                else placement.group not in (group.name, group.uuid)
            )
            if (
                barred
                or refused_everywhere(state, asked.row)
                or allocate.lacks_network(state, row, asked)
                or full_pool(pools.free, state, asked.row)
            ):
                continue
            nodes = allocate.usable_nodes(state, state.group == row, options.restrict_to)
            nodes = nodes[instance_policy.policy_codes(state, asked, nodes) == FITS]
            groups.append((asked, nodes[placement_rules.eligible(state, asked)[nodes]]))
        return cls(request, options, is_dedicated(state, request), pools, tuple(groups))

    @property
    def mirrored(self) -> bool:
        return self.request.placement.count == 2

    @property
    def pairs(self) -> int:
        """The number of pairs that a placement looks at: of primary and secondary, or of node and loss."""
        some = self.mirrored or self.options.capacity
        return sum(len(nodes) ** 2 for _, nodes in self.groups) if some else 0

    def placed(self, state: State, remarks: bool = False) -> PlacedInstance:
        """Place the instance on a copy of a state. With ``remarks`` a refusal names what is missing."""
        placement = self.request.placement
        try:
            return place_instance(
                state.copy(), placement, self.options, self.dedicated, pools=self.pools, remarks=remarks
            )
        except RequestFailed as failed:
            return PlacedInstance(placement.instance.name, (), str(failed))

    def fewest(self, departures: Floats) -> int:
        """Compute the fewest departures after which some node, or pair of nodes, may have room."""
        primary, secondary = np.ceil(departures)
        if not self.mirrored:
            return min((int(primary[nodes].min(initial=_NEVER)) for _, nodes in self.groups), default=_NEVER)
        return min(
            (
                int(max(primary[p], secondary[s]))
                for _, nodes in self.groups
                for p in nodes[np.argsort(primary[nodes], kind="stable")][:2]
                for s in nodes[np.argsort(secondary[nodes], kind="stable")][:2]
                if p != s
            ),
            default=_NEVER,
        )

    def targets(self, departures: Floats) -> list[tuple[int, ...]]:
        """Return the nodes, or pairs of nodes, that need the fewest departures."""
        primary, secondary = departures
        found = list[tuple[float, tuple[int, ...]]]()
        for _, nodes in self.groups:
            first, second = (nodes[np.argsort(each[nodes], kind="stable")][:TARGETS] for each in departures)
            if not self.mirrored:
                found += [(float(primary[p]), (int(p),)) for p in first]
            else:
                pairs = ((int(p), int(s)) for p in first for s in second if p != s)
                found += [(float(primary[p] + secondary[s]), (p, s)) for p, s in pairs]
        return [nodes for need, nodes in sorted(found)[:TARGETS] if need < _NEVER]


@dataclass(slots=True)
class _Search:
    """The search for the moves. ``best`` is the best plan so far; ``tries`` counts moves that were tried.

    ``seen`` has the moves that were left and the MiB copied, by the places of all instances.
    """

    newcomer: _Newcomer
    options: PlacementOptions
    most_copied: int
    movable: Bools
    progress: Callable[[str], object]
    most_tries: int
    best: _Way | None = None
    tries: int = 0
    seen: dict[bytes, tuple[int, int]] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        return self.tries >= self.most_tries

    def extend(self, way: _Way, left: int) -> None:
        """Look for better plans that begin like this, and have so many moves left."""
        places = way.state.pnode.tobytes() + way.state.snode.tobytes()
        known, volume = self.seen.get(places, (0, 0))
        if known >= left and volume <= way.volume:
            return
        self.seen[places] = left, way.volume
        bases: dict[int, Statistics] = {}
        for move in self.moves(way, left):
            if self.ended or not self.is_worth(way.volume + move.volume):
                return
            for after in self.after(way, move, left - 1, bases):
                if left > 1:
                    self.extend(after, left - 1)
                elif self._has_room(after.state):
                    self.best = after
                if self.ended or not self.is_worth(after.volume):
                    return

    def _has_room(self, state: State) -> bool:
        self.tries += self.newcomer.pairs // PAIRS
        return bool(self.newcomer.placed(state).nodes)

    def is_worth(self, volume: int) -> bool:
        """Whether a plan that copies so much (MiB) is allowed, and better than the best."""
        if 0 <= self.most_copied < volume:
            return False
        return self.best is None or volume < self.best.volume

    def moves(self, way: _Way, left: int) -> list[InstanceMove]:
        """Return the moves that may begin a plan of so many moves, the one that copies least first.

        If as many instances must leave as there are moves, each move must take one off a node in need.
        """
        state, concerned = way.state, self.movable
        if self.newcomer.fewest(way.departures) == left:
            needy = np.asarray(((way.departures > 0) & (way.departures <= left)).any(axis=0))
            on_secondary = (state.snode != NOWHERE) & needy[state.snode]
            concerned = concerned & (needy[state.pnode] | on_secondary)
        return self._moves_of(state, concerned)

    def _moves_of(self, state: State, concerned: Bools) -> list[InstanceMove]:
        found = [
            move
            for group in sorted_unique(state.group).tolist()
            for scope in [state.group == group]
            for move in moves_of(state, scope, balancing(self.options), candidates(state, scope, concerned))
        ]
        return sorted(found, key=lambda move: move.volume)

    def descend(self, start: _Way, most: int) -> None:
        """Look for plans of at most so many moves, which relieve nodes until the new instance fits."""
        self.most_tries = self.tries + PATIENCE
        for targets in self.newcomer.targets(start.departures):
            way: _Way | None = start
            while way is not None and any(need := _need(way, targets)):
                way = self._nearer(way, targets, need) if len(way.steps) < most else None
            if way is not None and self.newcomer.placed(way.state).nodes:
                self.best, most = way, len(way.steps) - 1

    def _nearer(self, way: _Way, targets: tuple[int, ...], need: list[float]) -> _Way | None:
        """Return the way with one more move, which takes an instance off the targets.

        The move is the cheapest that saves a departure, else the one after which least is missing.
        """
        state, bases = way.state, dict[int, Statistics]()
        there = np.isin(state.pnode, targets) | np.isin(state.snode, targets)
        nearest = None
        for move in self._moves_of(state, self.movable & there):
            if self.ended or 0 <= self.most_copied < way.volume + move.volume:
                break
            for after in self.after(way, move, _NEVER, bases, targets):
                left = _need(after, targets)
                if sum(map(math.ceil, left)) < sum(map(math.ceil, need)):
                    return after
                if sum(left) < sum(need):
                    nearest, need = after, left
                break
        return nearest

    def after(
        self,
        way: _Way,
        move: InstanceMove,
        left: int,
        bases: dict[int, Statistics],
        shut: tuple[int, ...] = (),
    ) -> Iterator[_Way]:
        """Yield the ways with one more move to each node, the best score first, that may reach room.

        New nodes only get fuller. So if the first would not help even if it stayed as it was, none does,
        unless the node that stays keeps memory free for the new one. ``bases`` are the statistics of groups.
        Nodes that are ``shut`` are no new nodes.
        """
        alike = move.kind.takes_node and not (move.kind.mirrored and move.kind.to_primary)
        self.progress(f"{self.tries} moves tried")
        self.tries += 1
        if not len(nodes := move.nodes):
            return
        trial = move.trial(balancing(self.options))
        fits = np.flatnonzero((trial.codes == FITS) & ~np.isin(nodes, shut))
        if not len(fits):
            return
        group = int(way.state.group[way.state.pnode[move.index]])
        if group not in bases:
            bases[group] = choice.base(way.state, way.state.group == group)
        scores = np.broadcast_to(trial.scores(bases[group]), trial.codes.shape)
        for number, at in enumerate(fits[np.argsort(scores[fits], kind="stable")].tolist()):
            self.tries += 1
            one, state = trial.only(at), way.state.copy()
            settling.settle(state, one)
            touched = np.sort([int(change.rows[0]) for change in one.changes])
            departures = way.departures.copy()
            departures[:, touched] = self.departures(state, touched)
            if alike and not number:
                hopeful = departures.copy()
                hopeful[:, nodes[at]] = way.departures[:, nodes[at]]
                if self.newcomer.fewest(hopeful) > left:
                    return
            if self.newcomer.fewest(departures) <= left:
                step = Move(move.index, move.kind.parts(int(nodes[at])), one.nodes, float(scores[at]))
                yield _Way(state, (*way.steps, step), way.volume + move.volume, departures)

    def departures(self, state: State, nodes: Ints) -> Floats:
        """Compute how many instances must leave each node (rows) before the new one fits, at the least.

        The last one counts by the part of it that is needed. The result has a row for each role. Rules of
        tags, and whether the cluster is redundant then, do not count.
        """
        found, force = np.full((2, len(nodes)), float(_NEVER)), self.options.ignore_soft_errors
        for asked, members in self.newcomer.groups:
            here = np.isin(nodes, members)
            rows = nodes[here]
            for role, change, forced in arrivals(state, asked, members, rows, force):
                held = node_rules.limits(state.columns.shape, role, asked.forthcoming, asked.wants, forced)
                number, concerned = np.zeros(len(change.rows)), np.isin(change.rows, rows)
                for limit, figure in held:
                    values = getattr(change.new, figure), change.old, change.new, asked
                    broken = concerned & limit.broken(*values)
                    if broken.any():
                        missing = np.broadcast_to(limit.missing(*values), broken.shape)
                        for at in np.flatnonzero(broken).tolist():
                            more = self._leaving(state, limit, int(change.rows[at]), int(missing[at]))
                            number[at] = max(number[at], more)
                found[int(role is not PRIMARY), here] = number[concerned]  # rows are in order
        return found

    def _leaving(self, state: State, limit: Limit, node: int, missing: int) -> float:
        """Compute how many instances must leave a node (row), at the least, until nothing is missing."""
        if limit.fixed:
            return _NEVER
        amounts = _amounts(state, limit)
        if amounts is None:
            return 1
        roles = zip((state.pnode, state.snode), amounts, strict=True)
        freed = np.concatenate([each[self.movable & (where == node)] for where, each in roles])
        freed = np.sort(freed)[::-1]
        total = np.cumsum(freed)
        enough = int(np.searchsorted(total, missing))
        if enough == len(total):
            return _NEVER
        part = float((missing - total[enough] + freed[enough]) / max(freed[enough], 1))
        return enough + (part or 1.0)


def _need(way: _Way, targets: tuple[int, ...]) -> list[float]:
    """Return how many instances must leave each of the targets, in its role, at the least."""
    found: list[float] = way.departures[range(len(targets)), targets].tolist()
    return found


def _amounts(state: State, limit: Limit) -> tuple[Ints, Ints] | None:
    """Return what each instance leaves of the limited figure to its primary and its secondary, at the most;
    None if unknown.
    """
    values = state.figures.values
    if limit.figure == "unallocated":
        return values["mem"], values["secondary_mem"]
    if limit.figure == "u_cpu":
        return values["vcpus"], np.zeros_like(values["vcpus"])
    for unit in range(len(state.columns.shape.units)):
        if limit.figure == of_unit("f_dsk", unit):
            return state.disk[:, unit], state.disk[:, unit]
    return None
