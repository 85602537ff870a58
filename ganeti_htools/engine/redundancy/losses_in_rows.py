"""What becomes of many losses, the rows of arrays: one instance of each at a time finds its room.

The twin of :meth:`.LostNode.places`; a property test compares them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.redundancy.loss_simulation import LOCATION, N1, TAGS, Displaced
from ganeti_htools.engine.redundancy.lost_nodes import LostNode
from ganeti_htools.engine.rules import affinity
from ganeti_htools.engine.rules.choice import CLOSE
from ganeti_htools.engine.rules.components import WEIGHTS
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints, sorted_unique
from ganeti_htools.model.state import RequestedInstance, State

# Less than any node has.
NO_DISK = np.iinfo(np.int64).min

NONE: Ints = np.zeros(0, np.int64)


class Crowd(NamedTuple):
    """Instances that need room, in rows: memory and disk (:data:`NO_DISK` for none), whether they move or are
    recreated, which nodes take them, and what they change there, as in :class:`.Arrival`, with the desired
    locations that nodes lack. ``tags`` is how often they have each of :func:`exclusion_tags`.
    """

    mem: Ints
    disk: Ints
    moves: Bools
    targets: Bools
    changes: Floats
    counts: Floats
    tags: Ints

    @classmethod
    def of(cls, instances: Sequence[Displaced], lost: Sequence[LostNode]) -> "Crowd":
        """These instances of lost nodes."""
        state, online, tags = lost[0].state, np.array(lost[0].online), exclusion_tags(lost)
        targets = np.zeros((len(instances), len(online)), np.bool_)
        for row, each in zip(targets, instances, strict=True):
            row[each.targets] = True
        return cls(
            np.array([each.mem for each in instances]),
            np.array([NO_DISK if each.disk is None else each.disk for each in instances]),
            np.array([each.asked.row.template.survives_node for each in instances]),
            targets,
            np.array([each.arrival.table for each in instances]),
            np.array([_counts(state, online, each) for each in instances]),
            np.array(
                [np.count_nonzero(each.asked.tags[:, np.newaxis] == tags, axis=0) for each in instances]
            ),
        )

    def take(self, rows: Ints) -> "Crowd":
        """Some of them."""
        return Crowd._make(column[rows] for column in self)


def exclusion_tags(lost: Sequence[LostNode]) -> Ints:
    """The exclusion tags that matter: those of instances that need room (rows)."""
    tags = [one.asked.tags for each in lost for one in each.instances]
    return np.asarray(sorted_unique(np.concatenate([NONE, *tags])))


def _counts(state: State, online: Bools, each: Displaced) -> Any:
    if not len(each.asked.desired):
        return each.arrival.counts
    unmet = np.where(online, affinity.unmet_locations(state, each.asked), 0)
    return np.array(each.arrival.counts) + WEIGHTS[LOCATION] * unmet


class Left:
    """What nodes have left in each loss (losses by nodes), and how balanced they are then.

    ``tagged`` is how many instances with each exclusion tag nodes have (losses by tags by nodes).
    """

    def __init__(self, lost: Sequence[LostNode], which: Ints) -> None:
        self.mem, self.disk, self.number, self.failing, self.values = (
            np.array([getattr(each.nodes, name) for each in lost])[which]
            for name in ("mem", "disk", "number", "failing", "values")
        )
        self.reserved = np.array([each.reserved for each in lost])[which]
        self.node, self.online = np.array([each.node for each in lost])[which], np.array(lost[0].online)
        self.weights, tags = np.array(lost[0].nodes.score.weights), exclusion_tags(lost)
        self.tagged = np.array([each.state.tag_counts[tags] for each in lost])[which]
        self.counts = np.array([(each.recreating, each.moving) for each in lost])[which]
        self.counted, self.size = np.zeros(self.mem.shape, np.bool_), np.zeros(len(which))
        self.sums, self.variances = np.zeros((2, len(which), len(self.weights)))

    def come(self, asked: RequestedInstance, came: Ints, table: Floats) -> None:
        """Equal new instances without a mirror come, so many to each node, which they change by ``table``."""
        self.mem -= came * asked.record_mem
        self.disk -= came * (asked.dsk if asked.local else 0)
        self.number += came
        self.failing[came > 0] = self._failing()[came > 0]
        self.values += came[:, :, np.newaxis] * table

    def mirrored(
        self,
        sizes: Sequence[RequestedInstance],
        which: Ints,
        lost: LostNode,
        primaries: Ints,
        secondaries: Ints,
    ) -> None:
        """A mirrored instance comes in each loss, of one of some sizes; as :meth:`.LostNode.mirrored`.

        All losses are of one node.
        """
        primaries, secondaries = (
            np.where(primaries == lost.node, secondaries, primaries),
            np.where(primaries == lost.node, primaries, secondaries),
        )
        lost.learn(sizes)
        rows, mirrors = np.arange(len(primaries)), [lost.mirror(asked) for asked in sizes]
        memory, needed, disk = np.array(
            [(each.record_mem, each.secondary_mem, each.dsk if each.local else 0) for each in sizes]
        )[which].T
        more = np.maximum(lost.peers[primaries, secondaries] + needed - self.reserved[rows, secondaries], 0)
        self.mem[rows, primaries] -= memory
        self.reserved[rows, secondaries] += more
        taken, kept = (np.array(each)[which, secondaries] for each in zip(*mirrors, strict=True))
        tables = np.array([lost.arrival(asked).table for asked in sizes])
        for nodes, changes in (
            (primaries, tables[which, primaries]),
            (secondaries, taken + more[:, np.newaxis] * kept),
        ):
            self.disk[rows, nodes] -= disk
            self.number[rows, nodes] += 1
            fails = self.mem[rows, nodes] <= self.reserved[rows, nodes]
            self.failing[rows, nodes] = np.where(fails, self.number[rows, nodes], 0)
            self.values[rows, nodes] += changes

    def place(self, crowd: Crowd) -> Ints:
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
        if crowd.tags.size:
            self.tagged[rows, :, chosen] += crowd.tags > 0
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

    def _scores(self, rows: Ints, crowd: Crowd) -> Floats:
        """What the score of each node would be made of that is not the same for all (losses by nodes)."""
        number, changes = self.size[rows, np.newaxis, np.newaxis], crowd.changes
        slopes = 2 / number * self.values[rows] - 2 / (number * number) * self.sums[rows, np.newaxis]
        slopes += (number - 1) / (number * number) * changes
        slopes *= changes
        slopes += self.variances[rows, np.newaxis]
        scores: Floats = np.sqrt(np.maximum(slopes, 0.0)) @ self.weights + crowd.counts
        fails = self.mem[rows] - crowd.mem[:, np.newaxis] <= self.reserved[rows]
        failing = np.where(fails, self.number[rows] + 1, 0) - self.failing[rows]
        scores += WEIGHTS[N1] * np.where(self.online, failing, 0)
        if crowd.tags.any():
            conflicts = ((self.tagged[rows] > 0) * crowd.tags[:, :, np.newaxis]).sum(axis=1)
            scores += WEIGHTS[TAGS] * np.where(self.online, conflicts, 0)
        return scores
