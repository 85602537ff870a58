"""What decides the outcome of a secondary besides its node: amounts of each pair of nodes."""

from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.capacity.bulk_search import InstanceNodes
from ganeti_htools.engine.rules import affinity, settling
from ganeti_htools.model.columns import sorted_unique
from ganeti_htools.model.state import RequestedInstance, State


class PairFigures(NamedTuple):
    """The amounts that a secondary keeps free for a primary, and the number of locations that both share.

    ``memory`` is in MiB. ``classes`` are custom classes, empty unless the instance demands any.
    """

    memory: int
    shared: int
    classes: tuple[int, ...] = ()


class PairAmounts:
    """The amounts of all pairs as ``numbers`` (primaries by secondaries): positions in ``known``."""

    def __init__(self, state: State, asked: RequestedInstance) -> None:
        self.state, self.asked = state, asked
        everyone, shared = np.arange(len(state.group)), np.zeros((1, 1), np.int64)
        if state.location_rows:
            shared = affinity.shared_locations(state, everyone[:, np.newaxis], everyone)
        self.numbers, met = np.zeros(state.peers.shape, np.int64), list[tuple[int, ...]]([()])
        for table in (state.peers, shared, *(state.class_peers if any(asked.classes) else ())):
            size = int(table.max(initial=0)) + 1
            mixed = self.numbers * size + table
            different = sorted_unique(mixed.ravel())
            self.numbers = np.searchsorted(different, mixed)
            split = (divmod(each, size) for each in different.tolist())
            met = [(*met[number], amount) for number, amount in split]
        self.known = [PairFigures(memory, together, tuple(classes)) for memory, together, *classes in met]
        self.number = {amounts: number for number, amounts in enumerate(self.known)}

    def of(self, nodes: InstanceNodes) -> PairFigures:
        """The amounts of a pair."""
        return self.known[int(self.numbers[nodes])]

    def add(self, nodes: InstanceNodes) -> None:
        """Add the instance to a pair, here and in the state."""
        asked, before = self.asked, self.of(nodes)
        settling.reserve(self.state, asked, *nodes)
        classes = tuple(map(sum, zip(before.classes, asked.secondary_classes, strict=False)))
        after = PairFigures(before.memory + asked.secondary_mem, before.shared, classes)
        self.numbers[nodes] = self.number.setdefault(after, len(self.known))
        if self.numbers[nodes] == len(self.known):
            self.known.append(after)
