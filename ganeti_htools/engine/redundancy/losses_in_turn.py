"""Equal instances come one after the other, and each of some nodes is lost after each: tried in one go.

The twin of :meth:`.LostNode.places` for many losses, the rows of arrays; a property test compares them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.redundancy.loss_simulation import N1, Displaced, LostNode
from ganeti_htools.engine.rules.choice import CLOSE
from ganeti_htools.engine.rules.components import WEIGHTS
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints
from ganeti_htools.model.state import Asked

# About how many values are looked at in one go.
BATCH = 1 << 17

# Less than any node has.
NO_DISK = np.iinfo(np.int64).min


def comparable(lost: Sequence[LostNode]) -> bool:
    """Whether losses can be tried together here: no tags and no spindles count, and nodes have a score."""
    return len({each.nodes.score.rows for each in lost}) == 1 and all(
        each.moving.any()
        and (each.exclusive is None or all(one.disk is None for one in each.instances))
        and not any(len(one.asked.tags) or len(one.asked.desired) for one in each.instances)
        for each in lost
    )


def survived_in_turn(lost: Sequence[LostNode], asked: Asked, primaries: Sequence[int]) -> int:
    """How many equal instances can come to these primaries, in turn, until one of the nodes cannot be lost.

    The nodes are of one state, and :func:`comparable`.
    """
    came = np.zeros((len(primaries), len(lost[0].nodes.mem)), np.int64)
    came[np.arange(len(primaries)), primaries] = 1
    came = np.cumsum(came, axis=0)
    values = len(lost) * len(lost[0].nodes.values) * len(lost[0].nodes.score.rows)
    number = max(1, BATCH // values)
    for start in range(0, len(primaries), number):
        found = recovered(lost, asked, came[start : start + number])
        failed = [each.step for each in found if NOWHERE in each.nodes]
        if failed:
            return start + min(failed)
    return len(primaries)


class Recovered(NamedTuple):
    """A loss (by position) after a step, and the node of each instance in order, NOWHERE for the
    first for which there is no room.
    """

    lost: int
    step: int
    nodes: list[int]


def recovered(lost: Sequence[LostNode], asked: Asked, came: Ints) -> list[Recovered]:
    """What becomes of each loss after each step, by which so many instances ``came`` to each node."""
    known: dict[tuple[int, int], int] = {}
    kinds: list[Displaced] = []
    queues = []
    for which, node in enumerate(lost):
        at, new = node.joined_by(asked)
        queue = []
        for each in (*node.instances, new):  # those with one arrival are alike
            if (which, id(each.arrival)) not in known:
                known[which, id(each.arrival)] = len(kinds)
                kinds.append(each)
            queue.append(known[which, id(each.arrival)])
        *queue, joins = queue
        for step, own in enumerate(came[:, node.node].tolist()):
            queues.append((which, step, [*queue[:at], *[joins] * own, *queue[at:]]))
    queues.sort(key=lambda each: -len(each[2]))  # those that are not through come first
    lengths = np.array([len(queue) for *_, queue in queues])
    order = np.array([[*queue, *[0] * (lengths[0] - len(queue))] for *_, queue in queues], np.int64)
    which, step = np.array([queue[:2] for queue in queues]).T
    crowd, left = _Crowd.of(kinds, came.shape[1]), _Left(lost, asked, which, came[step])
    nodes = np.full(order.shape, NOWHERE)
    for turn in range(lengths[0]):
        number = int(np.count_nonzero(lengths > turn))
        nodes[:number, turn] = left.place(crowd.take(order[:number, turn]))
    return [
        Recovered(which, step, found[: len(queue)])
        for (which, step, queue), found in zip(queues, nodes.tolist(), strict=True)
    ]


class _Crowd(NamedTuple):
    """Instances that need room, in rows: memory and disk (:data:`NO_DISK` for none), whether they move or are
    recreated, which nodes take them, and what they change there, as in :class:`.Arrival`.
    """

    mem: Ints
    disk: Ints
    moves: Bools
    targets: Bools
    changes: Floats
    counts: Floats

    @classmethod
    def of(cls, instances: Sequence[Displaced], nodes: int) -> "_Crowd":
        """These instances."""
        targets = np.zeros((len(instances), nodes), np.bool_)
        for row, each in zip(targets, instances, strict=True):
            row[each.targets] = True
        return cls(
            np.array([each.mem for each in instances]),
            np.array([NO_DISK if each.disk is None else each.disk for each in instances]),
            np.array([each.asked.row.template.survives_node for each in instances]),
            targets,
            np.array([each.arrival.table for each in instances]),
            np.array([each.arrival.counts for each in instances]),
        )

    def take(self, rows: Ints) -> "_Crowd":
        """Some of them."""
        return _Crowd._make(column[rows] for column in self)


class _Left:
    """What nodes have left in each loss (losses by nodes), and how balanced they are then."""

    def __init__(self, lost: Sequence[LostNode], asked: Asked, which: Ints, came: Ints) -> None:
        self.mem, self.disk, self.number, self.failing, self.values = (
            np.array([getattr(each.nodes, name) for each in lost])[which]
            for name in ("mem", "disk", "number", "failing", "values")
        )
        self.mem -= came * asked.record_mem
        self.disk -= came * (asked.dsk if asked.local else 0)
        self.number += came
        self.reserved = np.array([each.reserved for each in lost])[which]
        self.failing[came > 0] = self._failing()[came > 0]
        self.values += came[:, :, np.newaxis] * lost[0].arrival(asked).table
        self.node, self.online = np.array([each.node for each in lost])[which], np.array(lost[0].online)
        self.weights = np.array(lost[0].nodes.score.weights)
        self.counts = np.array([(each.recreating, each.moving) for each in lost])[which]
        self.counted, self.size = np.zeros(self.mem.shape, np.bool_), np.zeros(len(which))
        self.sums, self.variances = np.zeros((2, len(which), len(self.weights)))

    def place(self, crowd: _Crowd) -> Ints:
        """Place an instance in each of the first losses: where, NOWHERE if there is no room."""
        rows = np.arange(len(crowd.mem))
        self._balance(self.counts[rows, crowd.moves.astype(np.int64)])
        lost = self.node[rows]
        self._change(rows, lost, np.where(crowd.moves, -1.0, 0.0)[:, np.newaxis] * crowd.changes[rows, lost])
        room = crowd.targets & (self.mem[rows] > crowd.mem[:, np.newaxis])
        room &= self.disk[rows] > crowd.disk[:, np.newaxis]
        scores = np.where(room, self._scores(rows, crowd), np.inf)
        best = scores.min(axis=1, keepdims=True)
        near = scores <= best + CLOSE * np.maximum(1.0, np.abs(best))
        chosen = near.shape[1] - 1 - near[:, ::-1].argmax(axis=1)
        self.mem[rows, chosen] -= crowd.mem
        self.disk[rows, chosen] -= np.maximum(crowd.disk, 0)
        self.number[rows, chosen] += 1
        self.failing[rows, chosen] = self._failing()[rows, chosen]
        self._change(rows, chosen, crowd.changes[rows, chosen])
        return np.where(room.any(axis=1), chosen, NOWHERE)

    def _failing(self) -> Ints:
        return np.where(self.mem <= self.reserved, self.number, 0)

    def _balance(self, counted: Bools) -> None:
        """In each of the first losses these nodes count from now on."""
        new = np.flatnonzero((self.counted[: len(counted)] != counted).any(axis=1))
        if not len(new):
            return
        counted = counted[new]
        self.counted[new], self.size[new] = counted, np.count_nonzero(counted, axis=1)
        number, looked = self.size[new, np.newaxis], counted[:, :, np.newaxis]
        values = np.where(looked, self.values[new], 0.0)
        self.sums[new] = values.sum(axis=1)
        values = np.where(looked, values - (self.sums[new] / number)[:, np.newaxis], 0.0)
        self.variances[new] = (values * values).sum(axis=1) / number

    def _change(self, rows: Ints, nodes: Ints, changes: Floats) -> None:
        """The values of one node change in each of the first losses."""
        number, values = self.size[rows, np.newaxis], self.values[rows, nodes]
        counted = np.where(self.counted[rows, nodes, np.newaxis], changes, 0.0)
        slopes = 2 / number * values - 2 / (number * number) * self.sums[rows]
        change = counted * (slopes + (number - 1) / (number * number) * counted)
        self.variances[rows] = np.maximum(self.variances[rows] + change, 0.0)
        self.sums[rows] += counted
        self.values[rows, nodes] += changes

    def _scores(self, rows: Ints, crowd: _Crowd) -> Floats:
        """What the score of each node would be made of that is not the same for all (losses by nodes)."""
        number, changes = self.size[rows, np.newaxis, np.newaxis], crowd.changes
        slopes = 2 / number * self.values[rows] - 2 / (number * number) * self.sums[rows, np.newaxis]
        slopes += (number - 1) / (number * number) * changes
        slopes *= changes
        slopes += self.variances[rows, np.newaxis]
        scores: Floats = np.sqrt(np.maximum(slopes, 0.0)) @ self.weights + crowd.counts
        fails = self.mem[rows] - crowd.mem[:, np.newaxis] <= self.reserved[rows]
        failing = np.where(fails, self.number[rows] + 1, 0) - self.failing[rows]
        return scores + WEIGHTS[N1] * np.where(self.online, failing, 0)
