"""Needs of instances and free room of node groups: memory, disk, CPUs.

Amounts are rows: memory (MiB), each storage unit (MiB), virtual CPUs.
"""

import numpy as np

from ganeti_htools.model.columns import NOWHERE, Floats, Ints, by_unit
from ganeti_htools.model.state import State


def amounts(state: State) -> Ints:
    """Return each instance's use of all its nodes together (amounts by instances)."""
    values = state.figures.values
    nodes = np.where(state.snode == NOWHERE, 1, 2)
    return np.array([values["record_mem"], *(state.disk.T * nodes), values["vcpus"]])


def used(state: State, needs: Ints) -> Ints:
    """Sum the needs of the instances of each group (amounts by groups)."""
    found = np.zeros((len(needs), len(state.cluster.groups)), np.int64)
    np.add.at(found.T, state.group[state.pnode], needs.T)
    return found


def free(state: State) -> Floats:
    """Sum the free amounts of each group's online nodes (amounts by groups); unlimited CPUs are infinite."""
    columns, found = state.columns, []
    cpus = np.where(columns.vcpu_ratio >= 0, columns.t_cpu * columns.vcpu_ratio - columns.u_cpu, np.inf)
    for figure in (columns.unallocated, *by_unit(columns, "f_dsk"), cpus):
        left = np.where(columns.offline, 0, np.maximum(figure, 0))
        sums = np.zeros(len(state.cluster.groups))
        np.add.at(sums, state.group, left)
        found.append(sums)
    return np.array(found)


def share(need: Ints, left: Floats) -> Floats:
    """Return the largest share of a free amount that a need takes, by group; infinite if nothing is free."""
    wanted = need > 0
    shares = np.full((np.count_nonzero(wanted) + 1, left.shape[1]), np.inf)
    np.divide(need[wanted, np.newaxis], left[wanted], out=shares[1:], where=left[wanted] > 0)
    shares[0] = 0
    return np.asarray(shares.max(axis=0))


def lacking(state: State, need: Ints, left: Floats) -> str | None:
    """Return the first amount that is too small, in words; None if every amount suffices."""
    disks = [f"MiB on {unit}" if state.units.reported else "MiB of disk" for unit in state.units.local]
    for name, wanted, there in zip(("MiB of memory", *disks, "virtual CPUs"), need, left, strict=True):
        if wanted > there:
            return f"it uses {wanted} {name}, the groups that it can give instances to have {there:.0f} free"
    return None
