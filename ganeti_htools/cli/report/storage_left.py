"""The space that remains after an allocation, and the resource that ended first."""

from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.allocation import shortage
from ganeti_htools.engine.capacity.counting import Capacity
from ganeti_htools.engine.capacity.scope import AllocationScope
from ganeti_htools.engine.capacity.storage import storage_of
from ganeti_htools.engine.rules import instance_policy, node_rules
from ganeti_htools.engine.rules.node_rules import FAIL, FITS, Codes, first_reason
from ganeti_htools.engine.rules.pools import full_pool
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import Ints, of_unit
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.types import Fail


@dataclass(frozen=True, slots=True)
class RemainingSpace:
    """The remaining space (MiB) of a unit on all nodes together, or of a pool; None where it is unknown.

    ``most`` is the largest remaining space on one node; None for a pool.
    """

    type: str
    key: str
    total: int | None
    free: int | None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class StorageLeft:
    """The remaining space of units and pools, and a description of the obstacle to one more instance."""

    units: tuple[RemainingSpace, ...]
    pools: tuple[RemainingSpace, ...]
    ends_first: str | None


def storage_left(
    before: State, result: Capacity, kind: InstanceKind, size: InstanceSize, scope: AllocationScope
) -> StorageLeft | None:
    """The space that remains after an allocation of a size; None if no units or pools are reported."""
    state = result.state
    if not (state.units.reported or state.cluster.pools or state.cluster.pool_settings):
        return None
    local = state.units.local if state.units.reported else ()
    units = tuple(_unit(state, at, unit) for at, unit in enumerate(local))
    left = scope.pools.free_after(state)
    pools = tuple(
        RemainingSpace(pool.type, pool.key, pool.total, left.get(pool.unit))
        for pool in storage_of(state.cluster, state.units).pools
    )
    last = result.tiers[-1][0] if result.tiers else size
    return StorageLeft(units, pools, _ends_first(before, result, kind.instance(last), scope))


def _unit(state: State, at: int, unit: DesiredUnit) -> RemainingSpace:
    total, free, kept = (getattr(state.columns, of_unit(name, at)) for name in ("t_dsk", "f_dsk", "lo_dsk"))
    room = np.maximum(free - kept, 0)
    return RemainingSpace(
        unit.type.value, unit.key, int(total.sum()), int(room.sum()), int(room.max(initial=0))
    )


def _ends_first(before: State, result: Capacity, row: Instance, scope: AllocationScope) -> str | None:
    """Describe the obstacle to one more instance; None if there is none.

    The obstacle is redundancy if a candidate has enough of every resource and its policy allows the instance.
    Otherwise it is what most nodes now lack or forbid, of those that had enough before, if any.
    """
    state, failures = result.state, result.failures
    if scope.closed or not any(failures.values()):
        return None
    pool = full_pool(scope.pools.free_after(state), state, row)
    if pool and not failures.get(Fail.N1):
        return pool
    asked = state.requested_instance(row)
    roomy = scope.nodes[(_codes(before, asked, scope.nodes) == FITS).all(axis=0)]
    nodes = roomy if len(roomy) else scope.nodes
    codes = _codes(state, asked, nodes)
    against = codes[codes != FITS]
    fits = failures.get(Fail.N1) or not len(against)
    most = Fail.N1 if fits else FAIL[int(np.bincount(against).argmax())]
    return shortage.remark(state, asked, most, nodes, nodes if asked.mirrored else nodes[:0], scope.options)


def _codes(state: State, asked: RequestedInstance, nodes: Ints) -> Codes:
    """The reasons of nodes against an instance: a row for each role, a column for each node."""
    columns, policy = state.columns.take(nodes), instance_policy.policy_codes(state, asked, nodes)
    _, primary = node_rules.add_primary(columns, asked, 0, 0)
    if not asked.mirrored:
        return np.array([first_reason(policy, primary)])
    _, secondary = node_rules.add_secondary(columns, asked, np.zeros(len(nodes), np.int64))
    return np.array([first_reason(policy, primary), first_reason(policy, secondary)])
