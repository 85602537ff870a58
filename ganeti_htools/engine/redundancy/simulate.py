"""Many node losses simulated together: arrays have one row for each loss and one column for each node.

The simulation makes the same choices as :func:`.rule.recover`: one instance after the other goes where the
nodes are best balanced then. Each step places one instance of every row. A property test compares both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.redundancy.cache import LossCache
from ganeti_htools.engine.redundancy.deltas import SpreadWeights
from ganeti_htools.engine.redundancy.rule import instances_of
from ganeti_htools.engine.rules import affinity, placement_rules
from ganeti_htools.engine.rules.choice import CLOSE
from ganeti_htools.engine.rules.components import COMPONENTS, INDEX, LOCATION_EXCLUSION, WEIGHTS
from ganeti_htools.engine.rules.deviation import Deviation
from ganeti_htools.engine.rules.node_rules import fails_n1
from ganeti_htools.engine.rules.resources import DISK, MEMORY, SPINDLES, check_hard
from ganeti_htools.engine.rules.score import node_values
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints, sorted_unique
from ganeti_htools.model.state import RequestedInstance, State

N1, TAGS, LOCATION = INDEX["n1_cnt"], INDEX["pri_tags_score"], INDEX["location_score"]
# Components that a primary changes in other ways than in proportion; it leaves reserved memory as it is.
_UNKNOWN = [
    component.name
    for which, component in enumerate(COMPONENTS)
    if not component.proportional
    and which not in (N1, TAGS, LOCATION, LOCATION_EXCLUSION)
    and component.figures != ("r_mem",)
]
if _UNKNOWN:
    raise ValueError(f"the simulation of lost nodes does not know what changes {', '.join(_UNKNOWN)}")

# The limits that LossBatch holds; these are all hard limits.
check_hard((MEMORY, DISK, SPINDLES), "the simulation of lost nodes")

# Less disk than any node has.
NO_DISK = np.iinfo(np.int64).min

# About so many figures of nodes are simulated together.
FIGURES = 1 << 17


@dataclass(frozen=True, slots=True)
class DisplacedInstances:
    """Instances that need room, in rows.

    ``disk`` is :data:`NO_DISK` for instances without disks on nodes. ``targets`` are the nodes that may take
    an instance; ``moves`` tells those on shared storage from those that are created anew. ``spreads`` and
    ``counts`` are as in :class:`.PlacementDelta`; ``counts`` have missing desired locations as well. ``tags``
    tells how often an instance has each of the exclusion tags that matter.
    """

    order: Ints  # rows with more memory are created anew first
    memory: Ints
    disk: Ints
    spindles: Ints
    moves: Bools
    targets: Bools
    spreads: Floats
    counts: Floats
    tags: Ints

    def followed_by(self, other: "DisplacedInstances") -> "DisplacedInstances":
        """These instances and then others."""
        return DisplacedInstances(
            *(
                np.concatenate([getattr(self, name), getattr(other, name)])
                for name in DisplacedInstances.__dataclass_fields__
            )
        )


@dataclass(frozen=True, slots=True)
class Losses:
    """Losses of nodes on one state after the mirrored instances of each lost node have failed over.

    Arrays are losses by nodes; ``values`` (losses by spreads by nodes) are those of :class:`.SpreadWeights`,
    ``tag_counts`` (losses by tags by nodes) count primaries with each of ``tags``. ``number`` are primaries
    and secondaries of nodes, ``failing`` those of nodes that fail N+1. ``queues`` has for each loss the rows
    of ``instances`` that need room, in order. ``counted`` are the nodes whose balance counts (losses by
    created anew or moved by nodes).
    """

    state: State
    scope: Bools
    cache: LossCache
    spreads: SpreadWeights
    lost: Ints
    memory: Ints
    disk: Ints
    spindles: Ints
    number: Ints
    reserved: Ints
    failing: Ints
    values: Floats
    counted: Bools
    tags: Ints
    tag_counts: Ints
    instances: DisplacedInstances
    queues: list[list[int]]

    def positions(self, nodes: Sequence[int]) -> Ints:
        """The rows of the losses of these nodes."""
        return np.searchsorted(self.lost, nodes)

    def requested(self, new: Sequence[RequestedInstance], lost: Ints) -> DisplacedInstances:
        """New instances as they need room after the losses of these nodes."""
        return _displaced(self.state, new, lost, self.scope, self.tags, self.spreads, self.cache)


def simulated(state: State, lost: Ints, scope: Bools, cache: LossCache) -> Losses | None:
    """The losses of nodes (rows in ascending order), each by itself; their failovers must be possible.

    None where only the rule can tell: nodes are told apart by their storage or custom classes, some node has
    no score, or an instance does not say how many spindles it needs where they count. Wrong for
    :func:`.placement_rules.entangled` nodes.
    """
    columns, online = state.columns, ~state.columns.offline
    if columns.shape.binds:
        return None
    spreads = SpreadWeights.of(columns)
    parts = node_values(columns)
    values = spreads.values(columns, online, parts)
    if not np.isfinite(values).all():
        return None
    moving = [instances_of(state, node, scope) for node in lost.tolist()]
    displaced = [cache.instance(state, row) for _, rows in moving for row in rows]
    if columns.excl_stor.any() and any(asked.spindles is None for asked in displaced):
        return None
    tags = [asked.tags for asked in displaced]
    used = np.asarray(sorted_unique(np.concatenate([np.zeros(0, np.int64), *tags])))
    mates = scope & (state.group == state.group[lost][:, np.newaxis]) & online
    owners = np.repeat(lost, [len(rows) for _, rows in moving])
    ends = np.cumsum([len(rows) for _, rows in moving]).tolist()
    number, shape = len(lost), (len(lost), len(online))
    losses = Losses(
        state=state,
        scope=scope,
        cache=cache,
        spreads=spreads,
        lost=lost,
        memory=np.tile(columns.unallocated, (number, 1)),
        disk=np.broadcast_to(columns.f_dsk, shape),
        spindles=np.broadcast_to(columns.f_spindles, shape),
        number=np.broadcast_to(columns.primaries + columns.secondaries, shape),
        reserved=np.tile(columns.r_mem, (number, 1)),
        failing=np.tile(parts[N1], (number, 1)),
        values=np.tile(values, (number, 1, 1)),
        counted=np.stack([np.broadcast_to(scope & online, shape), mates], axis=1),
        tags=used,
        tag_counts=np.tile(state.tag_counts[used], (number, 1, 1)),
        instances=_displaced(state, displaced, owners, scope, used, spreads, cache),
        queues=[list(range(end - len(rows), end)) for end, (_, rows) in zip(ends, moving, strict=True)],
    )
    _fail_over(losses, [rows for rows, _ in moving])
    return losses


def _fail_over(losses: Losses, rows: Sequence[Sequence[int]]) -> None:
    """Fail over the mirrored instances (rows) of each loss, in place."""
    state, cache, lost = losses.state, losses.cache, losses.lost
    moving = [cache.instance(state, row) for some in rows for row in some]
    if not moving:
        return
    flat = np.array([row for some in rows for row in some])
    loss = np.repeat(np.arange(len(lost)), [len(some) for some in rows])
    source, target = state.pnode[flat], state.snode[flat]
    which = np.arange(len(flat))
    gained = np.array([delta.spreads for delta in cache.primary(state, moving, losses.spreads)])
    gained = gained - np.array(cache.secondary(state, moving, losses.spreads))
    memory = np.array([asked.record_mem for asked in moving])
    for nodes, sign in ((target, 1), (source, -1)):
        np.add.at(losses.values.swapaxes(1, 2), (loss, nodes), sign * gained[which, :, nodes])
        np.subtract.at(losses.memory, (loss, nodes), sign * memory)
        for at, asked in enumerate(moving) if len(losses.tags) else ():
            matter = np.count_nonzero(asked.tags[:, np.newaxis] == losses.tags, axis=0)
            losses.tag_counts[loss[at], :, nodes[at]] += sign * matter
    _reserve(losses, loss, target, np.array([asked.secondary_mem for asked in moving]))
    fails = fails_n1(losses.memory[loss, target], losses.reserved[loss, target])
    losses.failing[loss, target] = np.where(fails, losses.number[loss, target], 0)


def _reserve(losses: Losses, loss: Ints, target: Ints, kept: Ints) -> None:
    """Change the memory that nodes keep free: the lost node now keeps what its targets kept for it."""
    state, lost, rows = losses.state, losses.lost, np.arange(len(losses.lost))
    peers, everyone = state.peers, np.arange(len(state.group))
    most = peers.argmax(axis=0)
    others = peers.copy()
    others[most, everyone] = 0
    touched = np.zeros(losses.reserved.shape, np.bool_)
    touched[loss, target] = True
    rest = np.where(most == lost[:, np.newaxis], others.max(axis=0), peers[most, everyone])
    reserved = np.where(touched, rest, losses.reserved)
    moved = np.zeros_like(reserved)
    np.add.at(moved, (loss, target), kept)
    own = np.where(touched, peers[:, lost].T + moved, 0).max(axis=1)
    reserved[rows, lost] = np.maximum(losses.reserved[rows, lost], own)
    more = (reserved - losses.reserved)[:, np.newaxis]
    np.add(losses.values, more * losses.cache.reserve(state, losses.spreads), out=losses.values)
    losses.reserved[:] = reserved


def _displaced(
    state: State,
    instances: Sequence[RequestedInstance],
    owners: Ints,
    scope: Bools,
    tags: Ints,
    spreads: SpreadWeights,
    cache: LossCache,
) -> DisplacedInstances:
    """Instances that need room after the loss of their nodes (``owners``)."""
    number, size, online = len(instances), len(state.group), ~state.columns.offline
    deltas = cache.primary(state, instances, spreads)
    moves = np.array([asked.row.template.survives_node for asked in instances], np.bool_)
    targets = scope & (state.group == state.group[owners][:, np.newaxis])
    targets[np.arange(number), owners] = False
    if number:
        targets &= np.array([delta.allowed for delta in deltas])
    if state.allowed_migrations is not None:
        targets &= state.allowed_migrations[owners] | ~moves[:, np.newaxis]
    if state.rules is not None:
        rows = np.array([asked.index for asked in instances], np.int64)
        targets[rows != NOWHERE] &= placement_rules.allowed_primaries(state, rows[rows != NOWHERE])
    counts = np.array([delta.counts for delta in deltas]).reshape(number, size)
    for at, asked in enumerate(instances):
        if len(asked.desired):
            counts[at] += np.where(online, WEIGHTS[LOCATION] * affinity.unmet_locations(state, asked), 0.0)
    return DisplacedInstances(
        order=np.array([asked.row.mem for asked in instances], np.int64),
        memory=np.array([asked.record_mem for asked in instances], np.int64),
        disk=np.array([asked.dsk if asked.local else NO_DISK for asked in instances], np.int64),
        spindles=np.array([asked.spindles or 0 for asked in instances], np.int64),
        moves=moves,
        targets=targets,
        spreads=np.array([delta.spreads for delta in deltas]).reshape(number, len(spreads.rows), size),
        counts=counts,
        tags=np.array(
            [np.count_nonzero(asked.tags[:, np.newaxis] == tags, axis=0) for asked in instances], np.int64
        ).reshape(number, len(tags)),
    )


def _amounts(instances: Sequence[RequestedInstance]) -> tuple[Ints, Ints, Ints]:
    """Memory and disk (MiB) and spindles that instances take of a node."""
    memory = [asked.record_mem for asked in instances]
    disk = [asked.dsk if asked.local else 0 for asked in instances]
    return np.array(memory), np.array(disk), np.array([asked.spindles or 0 for asked in instances])


class NewInstances(NamedTuple):
    """New instances, one in each row: its size (position in ``sizes``) and its nodes.

    Secondaries are NOWHERE for instances that need one node. The sizes differ in amounts only.
    """

    sizes: Sequence[RequestedInstance]
    which: Ints
    primaries: Ints
    secondaries: Ints

    @classmethod
    def of(cls, asked: RequestedInstance, primaries: Any, secondaries: Any = NOWHERE) -> "NewInstances":
        """Equal instances on these nodes."""
        p, s = np.broadcast_arrays(np.atleast_1d(primaries), secondaries)
        return cls([asked], np.zeros(len(p), np.int64), p, s)

    def take(self, rows: Any) -> "NewInstances":
        return NewInstances(self.sizes, *(column[rows] for column in self[1:]))


class LossBatch:
    """Losses with new instances placed before, in rows; a loss may come several times."""

    def __init__(self, losses: Losses, rows: Ints) -> None:
        self.losses, self.rows, state = losses, rows, losses.state
        self.memory, self.disk, self.spindles = losses.memory[rows], losses.disk[rows], losses.spindles[rows]
        self.number, self.reserved, self.failing = (
            losses.number[rows],
            losses.reserved[rows],
            losses.failing[rows],
        )
        self.values, self.tag_counts = losses.values[rows], losses.tag_counts[rows]
        self.lost, self.online = losses.lost[rows], ~state.columns.offline
        self.exclusive, self.weights = state.columns.excl_stor, np.array(losses.spreads.weights)
        self.instances, self.queues = losses.instances, [losses.queues[row] for row in rows.tolist()]
        # Forthcoming instances have exclusion tags, but are not crowded.
        self.uncrowded = state.forthcoming_tag_counts[losses.tags]
        self.counted = np.zeros(self.memory.shape, np.bool_)
        self.total, self.variance = np.zeros((2, *self.values.shape[:2], 1))
        self.size = np.ones((len(rows), 1, 1))

    def place(self, new: NewInstances) -> None:
        if new.sizes[0].mirrored:
            self._place_pairs(new)
        else:
            came = np.zeros(self.memory.shape, np.int64)
            came[np.arange(len(came)), new.primaries] = 1
            self.place_primaries(new.sizes, new.which, came)

    def place_primaries(self, sizes: Sequence[RequestedInstance], which: Ints, came: Ints) -> None:
        """Place so many unmirrored instances on each node (rows by nodes), in each row of ``which`` size.

        Those on a lost node need room.
        """
        deltas = self.losses.cache.primary(self.losses.state, sizes, self.losses.spreads)
        memory, disk, spindles = (amounts[which, np.newaxis] for amounts in _amounts(sizes))
        self.memory -= came * memory
        self.disk -= came * disk
        self.spindles -= came * self.exclusive * spindles
        self.number += came
        self._fail(*np.nonzero(came))
        self.values += came[:, np.newaxis] * np.array([delta.spreads for delta in deltas])[which]
        joining = came[np.arange(len(came)), self.lost]
        kinds = which * len(self.online) + self.lost
        new = sorted_unique(kinds[joining > 0])
        if not len(new):
            return
        first, (kind, owners) = len(self.instances.order), divmod(new, len(self.online))
        requested = [sizes[at] for at in kind.tolist()]
        self.instances = self.instances.followed_by(self.losses.requested(requested, owners))
        for at in np.flatnonzero(joining).tolist():
            row = first + int(np.searchsorted(new, kinds[at]))
            queue, place = self.queues[at], 0
            while place < len(queue) and self._goes_before(queue[place], row):
                place += 1
            self.queues[at] = [*queue[:place], *[row] * int(joining[at]), *queue[place:]]

    def _goes_before(self, row: int, new: int) -> bool:
        """Whether an instance finds its room before a new one, which is the latest of its kind."""
        moves, order = self.instances.moves, self.instances.order
        return not moves[new] and bool(moves[row] or order[row] > order[new])

    def _place_pairs(self, new: NewInstances) -> None:
        """Place mirrored instances, which fail over if their primary is lost.

        The state is then as if they had come after the failovers.
        """
        losses, state, rows = self.losses, self.losses.state, np.arange(len(self.rows))
        swapped = new.primaries == self.lost
        p = np.where(swapped, new.secondaries, new.primaries)
        s = np.where(swapped, new.primaries, new.secondaries)
        kept_for = state.peers[p, s] + np.where(s == self.lost, state.peers[s, p], 0)
        deltas = losses.cache.primary(state, new.sizes, losses.spreads)
        as_primary = np.array([delta.spreads for delta in deltas])
        as_secondary = np.array(losses.cache.secondary(state, new.sizes, losses.spreads))
        memory, disk, spindles = (amounts[new.which] for amounts in _amounts(new.sizes))
        kept = np.array([asked.secondary_mem for asked in new.sizes])[new.which]
        more = np.maximum(kept_for + kept - self.reserved[rows, s], 0)
        self.memory[rows, p] -= memory
        self.reserved[rows, s] += more
        reserve = more[:, np.newaxis] * losses.cache.reserve(state, losses.spreads).T[s]
        for nodes, changes in (
            (p, as_primary[new.which, :, p]),
            (s, as_secondary[new.which, :, s] + reserve),
        ):
            self.disk[rows, nodes] -= disk
            self.spindles[rows, nodes] -= np.where(self.exclusive[nodes], spindles, 0)
            self.number[rows, nodes] += 1
            self.values[rows, :, nodes] += changes
            self._fail(rows, nodes)

    def survived(self) -> Bools:
        """Whether all instances of each row find room."""
        return np.array([NOWHERE not in nodes for nodes in self.places()], np.bool_)

    def places(self) -> list[list[int]]:
        """Find room for the instances of each row: their nodes, NOWHERE for the first that finds none.

        Nodes after that one mean nothing.
        """
        lengths = np.array([len(queue) for queue in self.queues])
        order = np.argsort(-lengths, kind="stable")
        self._reorder(order)
        lengths = lengths[order]
        longest = int(lengths.max(initial=0))
        rows = np.array([[*queue, *[0] * (longest - len(queue))] for queue in self.queues], np.int64)
        nodes = np.full(rows.shape, NOWHERE)
        for turn in range(longest):
            number = int(np.count_nonzero(lengths > turn))
            nodes[:number, turn] = self._place(rows[:number, turn])
        found: list[list[int]] = [[]] * len(lengths)
        for row, places, length in zip(order.tolist(), nodes.tolist(), lengths.tolist(), strict=True):
            found[row] = places[:length]
        return found

    def _reorder(self, order: Ints) -> None:
        for name in (
            "rows",
            "lost",
            "memory",
            "disk",
            "spindles",
            "number",
            "reserved",
            "failing",
            "values",
            "tag_counts",
        ):
            setattr(self, name, getattr(self, name)[order])
        self.queues = [self.queues[row] for row in order.tolist()]

    def _place(self, which: Ints) -> Ints:
        """Place one instance (row) in each of the first rows: its node, NOWHERE if there is no room."""
        number, some, instances = len(which), np.arange(len(which)), self.instances
        moves, spreads, tags = instances.moves[which], instances.spreads[which], instances.tags[which]
        memory, disk, spindles = instances.memory[which], instances.disk[which], instances.spindles[which]
        lost = self.lost[:number]
        self._balance(self.losses.counted[self.rows[:number], moves.astype(np.int64)])
        self._change(some, lost, np.where(moves, -1.0, 0.0)[:, np.newaxis] * spreads[some, :, lost])
        room = instances.targets[which] & (self.memory[:number] > memory[:, np.newaxis])
        room &= self.disk[:number] > disk[:, np.newaxis]
        if self.exclusive.any():
            needed = np.where(disk == NO_DISK, NO_DISK, spindles)[:, np.newaxis]
            room &= ~self.exclusive | (self.spindles[:number] >= needed)
        scores = self._spread_scores(spreads)
        scores += instances.counts[which]
        scores += self._failing_scores(memory)
        if tags.size:
            self.tag_counts[some, :, lost] -= tags * moves[:, np.newaxis]
            scores += self._tag_scores(tags)
        scores[~self.counted[:number].any(axis=1)] = 0.0  # as the rule: without such nodes there is no score
        scores = np.where(room, scores, np.inf)
        best = scores.min(axis=1, keepdims=True)
        near = scores <= best + CLOSE * np.maximum(1.0, np.abs(best))
        chosen = near.shape[1] - 1 - near[:, ::-1].argmax(axis=1)
        self.memory[some, chosen] -= memory
        self.disk[some, chosen] -= np.maximum(disk, 0)
        self.spindles[some, chosen] -= np.where(self.exclusive[chosen], spindles, 0)
        self.number[some, chosen] += 1
        self._fail(some, chosen)
        self._change(some, chosen, spreads[some, :, chosen])
        if tags.size:
            self.tag_counts[some, :, chosen] += tags
        return np.where(room.any(axis=1), chosen, NOWHERE)

    def _balance(self, counted: Bools) -> None:
        """Have these nodes count from now on in the first rows."""
        new = np.flatnonzero((self.counted[: len(counted)] != counted).any(axis=1))
        if len(new):
            number, total, variance = Deviation.of(self.values[new], counted[new, np.newaxis])
            self.counted[new], self.size[new] = counted[new], number[..., np.newaxis]
            self.total[new], self.variance[new] = total[..., np.newaxis], variance[..., np.newaxis]

    def _change(self, rows: Ints, nodes: Ints, changes: Floats) -> None:
        """Change the values of one node (rows by spreads) in each of the first rows."""
        values = self.values[rows, :, nodes]
        counted = np.where(self.counted[rows, nodes, np.newaxis], changes, 0.0)[..., np.newaxis]
        squares = counted * (2 * values[..., np.newaxis] + counted)
        after = self._deviation(len(rows)).after(counted, squares)
        self.total[: len(rows)], self.variance[: len(rows)] = after.sum, np.maximum(after.variance, 0.0)
        self.values[rows, :, nodes] = values + changes

    def _deviation(self, number: int) -> Deviation:
        return Deviation(self.size[:number], self.total[:number], self.variance[:number])

    def _spread_scores(self, changes: Floats) -> Floats:
        """The weighted deviations with an instance on each node (rows by nodes)."""
        squares = changes * (2 * self.values[: len(changes)] + changes)
        variances = self._deviation(len(changes)).after(changes, squares).variance
        scores: Floats = self.weights @ np.sqrt(np.maximum(variances, 0.0))
        return scores

    def _failing_scores(self, memory: Ints) -> Floats:
        """The weighted instances on nodes that fail N+1 more than before with so much memory taken."""
        some = slice(len(memory))
        fails = fails_n1(self.memory[some] - memory[:, np.newaxis], self.reserved[some])
        more = np.where(fails, self.number[some] + 1, 0) - self.failing[some]
        return np.asarray(WEIGHTS[N1] * np.where(self.online, more, 0))

    def _fail(self, rows: Ints, nodes: Ints) -> None:
        """Find out whether nodes that have changed fail N+1."""
        fails = fails_n1(self.memory[rows, nodes], self.reserved[rows, nodes])
        self.failing[rows, nodes] = np.where(fails, self.number[rows, nodes], 0)

    def _tag_scores(self, tags: Ints) -> Floats:
        """The weighted conflicts of exclusion tags (rows by tags), on nodes and at locations."""
        present, state, number = self.tag_counts[: len(tags)], self.losses.state, len(tags)
        conflicts = ((present > 0) * tags[:, :, np.newaxis]).sum(axis=1)
        scores = WEIGHTS[TAGS] * np.where(self.online, conflicts, 0)
        if state.location_rows:
            counted, located = self.counted[:number], state.location_tags.astype(np.int64)
            crowds = ((present - self.uncrowded) * counted[:, np.newaxis]) @ located
            excess = ((crowds > 0) * tags[:, :, np.newaxis]).sum(axis=1) @ located.T
            scores = scores + WEIGHTS[LOCATION_EXCLUSION] * np.where(counted, excess, 0)
        return np.asarray(scores)
