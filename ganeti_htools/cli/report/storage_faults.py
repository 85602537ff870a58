"""Faults of a cluster's storage: disks on units that their node does not report, and full units."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.capacity.storage import storage_of
from ganeti_htools.model.columns import NOWHERE, Ints, availability
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit

FULL = 95  # per cent; what is fuller than that counts as full


class MissingStorage(NamedTuple):
    """A unit that a node does not report, or a pool that it does not see, and instances with disks there."""

    node: str
    unit: DesiredUnit
    instances: tuple[str, ...]


class FullStorage(NamedTuple):
    """A unit of a node, or a pool (None), that is full; MiB."""

    node: str | None
    unit: DesiredUnit
    total: int
    free: int


class StorageFaults(NamedTuple):
    """``missing`` on primary nodes, ``unmirrored`` on secondary ones, and ``full`` units and pools."""

    missing: tuple[MissingStorage, ...]
    unmirrored: tuple[MissingStorage, ...]
    full: tuple[FullStorage, ...]


def storage_faults(state: State) -> StorageFaults:
    """The faults of the storage; none are found if no node reports its units.

    Nodes that are offline report nothing, and are left out.
    """
    if not state.units.reported:
        return StorageFaults((), (), ())
    return StorageFaults(
        tuple(_missing(state, state.pnode)), tuple(_missing(state, state.snode)), tuple(_full(state))
    )


def _missing(state: State, nodes: Ints) -> Iterator[MissingStorage]:
    """The units that instances want on their node (one for each instance) and that it does not report."""
    cluster, units = state.cluster, (*state.units.local, *state.units.pools)
    looked = (nodes != NOWHERE) & ~state.columns.offline[nodes] & ~state.forthcoming
    lacking = state.wants & ~availability(state.columns).T[nodes] & looked[:, np.newaxis]
    for node in sorted(set(nodes[lacking.any(axis=1)].tolist())):
        for at, unit in enumerate(units):
            rows = np.flatnonzero(lacking[:, at] & (nodes == node)).tolist()
            if rows:
                yield MissingStorage(
                    cluster.nodes[node].name, unit, tuple(cluster.instances[row].name for row in rows)
                )


def _full(state: State) -> Iterator[FullStorage]:
    found = storage_of(state.cluster, state.units)
    offline = {node.name for node, off in zip(state.cluster.nodes, state.columns.offline, strict=True) if off}
    for unit, there in zip(state.units.local, found.units, strict=True):
        for room in there.nodes:
            if room.node not in offline and _is_full(room.total, room.free):
                yield FullStorage(room.node, unit, room.total, room.free)
    for pool in found.pools:
        if pool.total is not None and pool.free is not None and _is_full(pool.total, pool.free):
            yield FullStorage(None, pool.unit, pool.total, pool.free)


def _is_full(total: int, free: int) -> bool:
    return 100 * (total - free) > FULL * total
