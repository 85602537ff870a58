"""The memory that mirrored instances of a lost node need on the nodes to which they fail over."""

from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.model.columns import Ints, sorted_unique


class FailoverLoad(NamedTuple):
    """Memory (MiB) by pair of nodes, the lost one and a partner, for the few pairs that share instances.

    ``size`` is the number of nodes. ``keys`` number the pairs, in ascending order. The last entry is beyond
    all pairs and needs nothing, so that each search ends within the arrays.
    """

    size: int
    keys: Ints
    memory: Ints

    @classmethod
    def of(cls, lost: Ints, partners: Ints, memory: Ints, size: int) -> "FailoverLoad":
        """Add up the memory of instances with these nodes."""
        pairs = lost * size + partners
        keys = np.append(sorted_unique(pairs), size * size)
        total = np.zeros(len(keys), np.int64)
        np.add.at(total, np.searchsorted(keys, pairs), memory)
        return cls(size, keys, total)

    @property
    def pairs(self) -> tuple[Ints, Ints, Ints]:
        """The lost node and the partner (rows) of each pair, and the memory."""
        return self.keys[:-1] // self.size, self.keys[:-1] % self.size, self.memory[:-1]

    def between(self, lost: Any, targets: Any) -> Ints:
        """Return the memory that instances of lost nodes need on targets (rows that broadcast)."""
        wanted = lost * self.size + targets
        at = np.searchsorted(self.keys, wanted)
        found: Ints = np.where(self.keys[at] == wanted, self.memory[at], 0)
        return found
