"""Equal instances come one after the other, and each of some nodes is lost after each: tried in one go.

Mirrored ones come one or the other way, each by itself.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.redundancy.loss_simulation import Displaced
from ganeti_htools.engine.redundancy.losses_in_rows import Crowd, Left
from ganeti_htools.engine.redundancy.lost_nodes import LostNode
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.state import RequestedInstance

# About how many values are looked at in one go.
BATCH = 1 << 17


def comparable(lost: Sequence[LostNode]) -> bool:
    """Whether losses can be tried together here: no spindles count, no tags at locations, and nodes have a
    score.
    """
    return len({each.nodes.score.rows for each in lost}) == 1 and all(
        each.moving.any()
        and (each.exclusive is None or all(one.disk is None for one in each.instances))
        and not (each.state.location_rows and any(len(one.asked.tags) for one in each.instances))
        for each in lost
    )


def survived_in_turn(lost: Sequence[LostNode], asked: RequestedInstance, primaries: Sequence[int]) -> int:
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


def survived_with_pairs(
    lost: LostNode, sizes: Sequence[RequestedInstance], which: Ints, primaries: Ints, secondaries: Ints
) -> Bools:
    """Whether a loss is survived with a new mirrored instance on some pairs, each by itself.

    The instance on each pair is the one of ``which`` size; the loss is :func:`comparable`.
    """
    survived = np.ones(len(which), np.bool_)
    number = max(1, BATCH // (len(lost.nodes.values) * len(lost.nodes.score.rows)))
    for start in range(0, len(which), number):
        rows = slice(start, start + number)
        survived[rows] = _survived(lost, sizes, which[rows], primaries[rows], secondaries[rows])
    return survived


def _survived(
    lost: LostNode, sizes: Sequence[RequestedInstance], which: Ints, primaries: Ints, secondaries: Ints
) -> Bools:
    crowd, left = Crowd.of(lost.instances, [lost]), Left([lost], np.zeros(len(which), np.int64))
    left.mirrored(sizes, which, lost, primaries, secondaries)
    survived = np.ones(len(which), np.bool_)
    for turn in range(len(lost.instances)):
        survived &= left.place(crowd.take(np.full(len(which), turn))) != NOWHERE
    return survived


class Recovered(NamedTuple):
    """A loss (by position) after a step, and the node of each instance in order, NOWHERE for the
    first for which there is no room.
    """

    lost: int
    step: int
    nodes: list[int]


def recovered(lost: Sequence[LostNode], asked: RequestedInstance, came: Ints) -> list[Recovered]:
    """What becomes of each loss after each step, by which so many instances ``came`` to each node."""
    known: dict[tuple[Any, ...], int] = {}
    kinds: list[Displaced] = []
    queues = []
    for which, node in enumerate(lost):
        at, new = node.joined_by(asked)
        queue = []
        for each in (*node.instances, new):  # those with one arrival are alike, tags aside
            tags = each.asked.tags, each.asked.desired
            kind = (which, id(each.arrival), *(tuple(those.tolist()) for those in tags))
            if kind not in known:
                known[kind] = len(kinds)
                kinds.append(each)
            queue.append(known[kind])
        *queue, joins = queue
        for step, own in enumerate(came[:, node.node].tolist()):
            queues.append((which, step, [*queue[:at], *[joins] * own, *queue[at:]]))
    queues.sort(key=lambda each: -len(each[2]))  # those that are not through come first
    lengths = np.array([len(queue) for *_, queue in queues])
    order = np.array([[*queue, *[0] * (lengths[0] - len(queue))] for *_, queue in queues], np.int64)
    which, step = np.array([queue[:2] for queue in queues]).T
    crowd, left = Crowd.of(kinds, lost), Left(lost, which)
    left.come(asked, came[step], lost[0].arrival(asked).table)
    nodes = np.full(order.shape, NOWHERE)
    for turn in range(lengths[0]):
        number = int(np.count_nonzero(lengths > turn))
        nodes[:number, turn] = left.place(crowd.take(order[:number, turn]))
    return [
        Recovered(which, step, found[: len(queue)])
        for (which, step, queue), found in zip(queues, nodes.tolist(), strict=True)
    ]
