"""What each node keeps free for each other one, as a number for each pair: equal numbers, equal amounts."""

from typing import Any

import numpy as np

from ganeti_htools.engine.capacity.bulk_search import InstanceNodes
from ganeti_htools.model.columns import Ints
from ganeti_htools.model.state import RequestedInstance, State


class KeptPeers:
    """``numbers`` (primaries by secondaries) are the memory itself (MiB), unless an instance demands custom
    classes, of which nodes keep something free as well.
    """

    def __init__(self, state: State, asked: RequestedInstance) -> None:
        self.state, self.asked = state, asked
        self.numbers = state.peers
        self.known: dict[tuple[int, ...], int] | None = None
        if any(asked.classes):
            tables = np.stack([state.peers, *state.class_peers], axis=-1)
            met, numbers = np.unique(tables.reshape(-1, tables.shape[-1]), axis=0, return_inverse=True)
            self.known = {amounts: number for number, amounts in enumerate(map(tuple, met.tolist()))}
            self.numbers = numbers.reshape(state.peers.shape)

    def amounts(self, numbers: Ints) -> tuple[Ints, list[Any]]:
        """The memory (MiB), and what is kept of each custom class."""
        if self.known is None:
            return numbers, []
        memory, *classes = np.array(list(self.known))[numbers].T
        return memory, classes

    def add(self, nodes: InstanceNodes) -> None:
        """The instance comes to nodes."""
        state, asked = self.state, self.asked
        state.peers[nodes] += asked.secondary_mem
        for peers, kept in zip(state.class_peers, asked.secondary_classes, strict=True):
            peers[nodes] += kept
        if self.known is not None:
            amounts = tuple(int(peers[nodes]) for peers in (state.peers, *state.class_peers))
            self.numbers[nodes] = self.known.setdefault(amounts, len(self.known))
