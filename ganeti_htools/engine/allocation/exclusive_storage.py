"""Allocation where every node has exclusive storage: lose as few later allocations as possible.

For each interval of the instance policy, largest disks first, count how many smallest instances a
node still takes, before and after. The node (or pair) with the lowest difference wins, then the one
with the least disk left (``hail(1)``, "lost-allocations metrics").
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ganeti_htools.engine.allocation.allocate import best_outcome, candidates, lacks_network
from ganeti_htools.engine.allocation.solution import GroupOutcome, Solution, counted
from ganeti_htools.engine.rules import node_rules, placements
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.options import Options
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import Bools, Columns, Ints, sorted_unique
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.policy import IPolicy
from ganeti_htools.model.request import Allocate, MultiAllocate, Request
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.types import AllocPolicy, DiskTemplate

MOST = 1 << 20  # no node is taken to hold more instances of one size


def is_dedicated(state: State, request: Request) -> bool:
    """Whether new instances are placed by lost allocations: all nodes concerned have exclusive storage.

    These are the nodes of the one group that the request names, or else of all allocable groups.
    """
    match request:
        case Allocate(placement):
            named = {placement.group}
        case MultiAllocate(placements):
            named = {each.group for each in placements}
        case _:
            return False
    named.discard(None)
    group = named.pop() if len(named) == 1 else None
    meant = [
        row
        for row, each in enumerate(state.cluster.groups)
        if (each.alloc_policy is not AllocPolicy.UNALLOCABLE if group is None else each.name == group)
    ]
    return bool((state.columns.excl_stor | ~np.isin(state.group, meant)).all())


def _samples(state: State, policy: IPolicy) -> list[Asked]:
    """The smallest instance of each interval, largest disk first."""
    smallest = sorted((pair.min for pair in policy.minmax), key=lambda spec: -spec.disk_size)
    return [
        state.ask(
            Instance(
                "smallest",
                spec.memory_size,
                spec.disk_size,
                (),
                spec.cpu_count,
                auto_balance=False,
                template=DiskTemplate.PLAIN,
                spindle_use=spec.spindle_use,
            )
        )
        for spec in smallest
    ]


def capacities(columns: Columns, samples: Sequence[Asked], shape: tuple[int, ...]) -> Ints:
    """For each sample (first axis), how many more of it each node takes."""
    result = []
    for sample in samples:
        fits, fails = np.zeros(shape, np.int64), np.full(shape, MOST)
        while (fails - fits > 1).any():
            many: Any = (fits + fails) // 2
            together = replace(
                sample,
                mem=many * sample.mem,
                record_mem=many * sample.record_mem,
                dsk=many * sample.dsk,
                vcpus=many * sample.vcpus,
                spindle_use=many * sample.spindle_use,
            )
            _, codes = node_rules.add_primary(columns, together, np.int64(0), np.int64(0))
            fits, fails = np.where(codes == FITS, many, fits), np.where(codes == FITS, fails, many)
        result.append(fits)
    return np.array(result, np.int64).reshape(-1, *shape)


def in_group(state: State, asked: Asked, count: int, group: int, options: Options) -> Solution:
    """A new instance on the node, or pair of nodes, of a group that costs the fewest allocations."""
    row = state.cluster.groups[group]
    if lacks_network(state, group, asked):
        raise RequestFailed(
            f"The group {row.name} is not connected to a network required by instance {asked.row.name}"
        )
    scope = state.group == group
    nodes = candidates(state, scope, options.restrict_to)
    trial, usable = _tried(state, asked, count, nodes, scope, options.ignore_soft_errors)
    lost, disk = _costs(trial, _samples(state, row.ipolicy), usable.shape)
    codes = np.broadcast_to(trial.codes, usable.shape)
    failures = counted(codes[usable], 0)
    fits = np.flatnonzero((usable & (codes == FITS)).ravel())
    if not len(fits):
        return Solution(failures, 0)
    # Few lost allocations first, then little disk left, then the last in the input.
    best = int(fits[np.lexsort((-fits, disk[fits], *lost[::-1, fits]))[0]])
    metric = tuple(lost[:, best].tolist()), int(disk[best])
    if count == 1:
        return Solution(failures, len(fits), metric, trial.only(best))
    p, s = divmod(best, len(nodes))
    pair = nodes[[p]], nodes[[s]]
    chosen = placements.allocate_pairs(state, asked, *pair, state.peers[pair], options.ignore_soft_errors)
    return Solution(failures, len(fits), metric, chosen)


def _tried(
    state: State, asked: Asked, count: int, nodes: Ints, scope: Bools, force: bool
) -> tuple[Trial, Bools]:
    """The instance on each node, or on each pair of nodes (also of a node with itself).

    The second array tells which candidates are real ones. Raises RequestFailed if there is none.
    """
    if count == 1:
        if not len(nodes):
            raise RequestFailed("No online nodes")
        trial = placements.allocate_one(state, asked, nodes, scope, force)
        return trial, np.ones(len(nodes), np.bool_)
    if count == 2:
        if len(nodes) < 2:
            raise RequestFailed("Not enough online nodes")
        rows = nodes[:, np.newaxis]
        trial = placements.allocate_pairs(state, asked, rows, nodes, state.peers[rows, nodes], force)
        return trial, rows != nodes
    raise RequestFailed("Unsupported number of nodes, only one or two  supported")


def _costs(trial: Trial, samples: Sequence[Asked], shape: tuple[int, ...]) -> tuple[Ints, Ints]:
    """Allocations lost (samples by candidates, in one row) and disk left (MiB), of all nodes that change."""
    lost = np.zeros((len(samples), *shape), np.int64)
    disk = np.zeros(shape, np.int64)
    for node in trial.changes:
        # A secondary's reservation may differ for each primary.
        wide = np.broadcast_shapes(node.old.r_mem.shape, node.new.r_mem.shape, (1,) * len(shape))
        lost += capacities(node.old, samples, wide) - capacities(node.new, samples, wide)
        disk += node.new.f_dsk
    return lost.reshape(len(samples), disk.size), disk.ravel()


def in_best_group(
    state: State, asked: Asked, count: int, options: Options
) -> tuple[GroupOutcome | None, list[GroupOutcome]]:
    """A new instance in the best group by this metric, and what came of each group in input order."""
    outcomes = []
    for group in sorted_unique(state.group).tolist():
        try:
            outcomes.append(GroupOutcome(group, in_group(state, asked, count, group, options)))
        except RequestFailed as failure:
            outcomes.append(GroupOutcome(group, error=str(failure)))
    return best_outcome(state, outcomes), outcomes
