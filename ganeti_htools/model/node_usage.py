"""Instances on their nodes, and sums of their figures per node."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.figures import Figures


def sum_by(rows: Ints, values: Any, size: int) -> Any:
    """Sum ``values`` by row, in order and in their own type."""
    total = np.zeros(size, np.asarray(values).dtype)
    np.add.at(total, rows, values)
    return total


@dataclass(frozen=True, slots=True)
class HostedInstances:
    """Figures of instances and, by row, their primary and secondary nodes (or NOWHERE)."""

    size: int  # number of nodes
    values: NDArray[np.void]
    pnode: Ints
    snode: Ints
    forthcoming: Bools

    @property
    def settled(self) -> Bools:
        """Mask of the instances that are not forthcoming."""
        return ~self.forthcoming

    @property
    def all_instances(self) -> Bools:
        return np.ones_like(self.forthcoming)

    @property
    def with_secondary(self) -> Bools:
        doubled: Bools = self.snode != NOWHERE
        return doubled

    def on_primaries(self, amounts: Any, which: Bools) -> Any:
        """Sum amounts of some instances for each node over its primaries, in instance order."""
        return sum_by(self.pnode[which], amounts[which], self.size)

    def on_both(self, amounts: Any, which: Bools) -> Any:
        """Sum amounts over primaries and secondaries, in instance order, each primary first."""
        keep = np.stack([which, which & self.with_secondary], axis=1)
        both = np.stack([self.pnode, self.snode], axis=1)
        return sum_by(both[keep], np.stack([amounts, amounts], axis=1)[keep], self.size)

    def peers(self, amounts: Ints) -> Ints:
        """Sum the amounts that each node (column) keeps free in case another (row) fails.

        ``amounts`` are per instance; only settled instances count.
        """
        peers = np.zeros((self.size, self.size), np.int64)
        keeps = self.settled & self.with_secondary
        np.add.at(peers, (self.pnode[keeps], self.snode[keeps]), amounts[keeps])
        return peers


def hosted_instances(cluster: Cluster, figures: Figures, node_row: Mapping[str, int]) -> HostedInstances:
    """Return the instances of a cluster on nodes with these rows."""
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
