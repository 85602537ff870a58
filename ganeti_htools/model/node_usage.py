"""Instances on their nodes: what nodes have of them, summed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.figures import Figures


def sum_by(rows: Ints, values: Any, size: int) -> Any:
    """``values`` summed by row, in order, in their own type."""
    total = np.zeros(size, np.asarray(values).dtype)
    np.add.at(total, rows, values)
    return total


@dataclass(frozen=True, slots=True)
class HostedInstances:
    """Instances where they are: their figures and, by row, primary and secondary node (or NOWHERE)."""

    size: int  # number of nodes
    values: NDArray[np.void]
    pnode: Ints
    snode: Ints
    forthcoming: Bools

    @property
    def settled(self) -> Bools:
        """Those that are not forthcoming."""
        return ~self.forthcoming

    @property
    def all_instances(self) -> Bools:
        """All of them."""
        return np.ones_like(self.forthcoming)

    @property
    def with_secondary(self) -> Bools:
        """Those with a secondary."""
        doubled: Bools = self.snode != NOWHERE
        return doubled

    def on_primaries(self, amounts: Any, which: Bools) -> Any:
        """Amounts of some instances summed for each node over its primaries, instances in order."""
        return sum_by(self.pnode[which], amounts[which], self.size)

    def on_both(self, amounts: Any, which: Bools) -> Any:
        """Amounts summed over primaries and secondaries, instances in order, an instance's primary first."""
        keep = np.stack([which, which & self.with_secondary], axis=1)
        both = np.stack([self.pnode, self.snode], axis=1)
        return sum_by(both[keep], np.stack([amounts, amounts], axis=1)[keep], self.size)

    def peers(self, amounts: Ints) -> Ints:
        """What each node (column) keeps free for each other one (row), given that for settled instances."""
        peers = np.zeros((self.size, self.size), np.int64)
        keeps = self.settled & self.with_secondary
        np.add.at(peers, (self.pnode[keeps], self.snode[keeps]), amounts[keeps])
        return peers


def hosted_instances(cluster: Cluster, figures: Figures, node_row: Mapping[str, int]) -> HostedInstances:
    """The instances of a cluster, whose nodes have these rows."""
    instances = cluster.instances
    return HostedInstances(
        len(cluster.nodes),
        figures.values,
        pnode=np.array([node_row[row.pnode] for row in instances], np.int64),
        snode=np.array(
            [NOWHERE if row.snode is None else node_row[row.snode] for row in instances], np.int64
        ),
        forthcoming=np.ascontiguousarray(figures.values["forthcoming"]),
    )
