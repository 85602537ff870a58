"""Allocation where every node has exclusive storage: lose as few later allocations as possible.

For each interval of the instance policy, largest disks first, count how many smallest instances a
node still takes, before and after. The node (or pair) with the lowest difference wins, then the one
with the least disk left (``hail(1)``, "lost-allocations metrics").
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ganeti_htools.engine.allocation.allocate import (
    by_group,
    candidates,
    check_networks,
    check_number,
    listening,
)
from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.allocation.solution import GroupOutcome, Metric, Solution, counted
from ganeti_htools.engine.rules import node_rules, placements
from ganeti_htools.engine.rules.node_rules import FITS, Codes
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Ints
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.policy import IPolicy
from ganeti_htools.model.request import Allocate, MultiAllocate, Request
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import AllocPolicy, DiskTemplate

MOST = 1 << 20  # a node is taken to have room for fewer instances of one size than this


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


def _samples(state: State, policy: IPolicy) -> list[RequestedInstance]:
    """The smallest instance of each interval, largest disk first."""
    smallest = sorted((pair.min for pair in policy.minmax), key=lambda spec: -spec.disk_size)
    return [
        state.requested_instance(
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


def capacities(columns: Columns, samples: Sequence[RequestedInstance], shape: tuple[int, ...]) -> Ints:
    """How many more instances like each sample each node takes: samples by nodes, these in ``shape``.

    The largest number that fits is found by bisection, below ``MOST``.
    """
    result = []
    for sample in samples:
        fits, fails = np.zeros(shape, np.int64), np.full(shape, MOST)
        while (fails - fits > 1).any():
            many: Any = (fits + fails) // 2
            together = replace(
                sample,
                mem=many * sample.mem,
                record_mem=many * sample.record_mem,
                disk=tuple(many * amount for amount in sample.disk),
                vcpus=many * sample.vcpus,
                spindle_use=many * sample.spindle_use,
            )
            _, codes = node_rules.add_primary(columns, together, np.int64(0), np.int64(0))
            fits, fails = np.where(codes == FITS, many, fits), np.where(codes == FITS, fails, many)
        result.append(fits)
    return np.array(result, np.int64).reshape(-1, *shape)


@dataclass(frozen=True, slots=True)
class Losses:
    """A new instance tried on all nodes, or on all pairs of nodes; the arrays are primaries by secondaries.

    Where it takes one node only, there is one column of secondaries, which is NOWHERE. ``codes`` say why a
    candidate does not do; ``real`` is false for a node paired with itself. ``lost`` has the intervals of the
    instance policy as one more axis, in front, largest disks first: how many later instances of the smallest
    size a candidate costs. ``disk`` is what it leaves on its nodes (MiB).
    """

    primaries: Ints
    secondaries: Ints
    codes: Codes
    real: Bools
    lost: Ints
    disk: Ints

    @property
    def fits(self) -> Bools:
        """The candidates that nothing speaks against."""
        return np.asarray(self.real & (self.codes == FITS))

    def best(self, some: Bools) -> tuple[int, int]:
        """Of some candidates the one that loses least, then leaves least disk, then is last: its position."""
        flat = np.flatnonzero(some.ravel())
        lost, disk = self.lost.reshape(len(self.lost), self.disk.size), self.disk.ravel()
        order = np.lexsort((-flat, disk[flat], *lost[::-1, flat]))
        return divmod(int(flat[order[0]]), len(self.secondaries))

    def metric(self, row: int, column: int) -> Metric:
        """What a candidate is chosen by."""
        return tuple(self.lost[:, row, column].tolist()), int(self.disk[row, column])


def in_group(
    state: State,
    asked: RequestedInstance,
    count: int,
    group: int,
    options: PlacementOptions,
    reporter: Reporter = SILENT,
) -> GroupOutcome:
    """A new instance in the group (row) it was asked for; only this group is looked at.

    Raises RequestFailed where nothing can be tried: the group lacks a network, or has too few nodes.
    """
    asked, scope = state.with_disk_defaults(group, asked), state.group == group
    nodes = candidates(state, scope, options.restrict_to)
    reporter.starting(state, asked, scope, rated=False)
    reporter.trying(group, nodes)
    return GroupOutcome(group, _solution(state, asked, count, group, nodes, options, reporter))


def in_groups(
    state: State,
    asked: RequestedInstance,
    count: int,
    options: PlacementOptions,
    groups: Sequence[int],
    reporter: Reporter = SILENT,
) -> list[GroupOutcome]:
    """A new instance tried in each of the groups, in input order."""
    reporter.starting(state, asked, np.ones(len(state.group), np.bool_), rated=False)
    outcomes = []
    for group, nodes in by_group(state, groups, options, reporter):
        heard = listening(state, group, nodes, reporter)
        try:
            solution = _solution(
                state, state.with_disk_defaults(group, asked), count, group, nodes, options, heard
            )
            outcomes.append(GroupOutcome(group, solution))
        except RequestFailed as failure:
            outcomes.append(GroupOutcome(group, error=str(failure)))
    return outcomes


def _solution(
    state: State,
    asked: RequestedInstance,
    count: int,
    group: int,
    nodes: Ints,
    options: PlacementOptions,
    reporter: Reporter,
) -> Solution:
    """Of some nodes of a group the one, or the pair, that costs the fewest later instances.

    Raises RequestFailed.
    """
    scope, policy = state.group == group, state.cluster.groups[group].ipolicy
    check_networks(state, group, asked, nodes, reporter)
    check_number(count, nodes, reporter)
    force, rows = options.ignore_soft_errors, nodes[:, np.newaxis]
    if count == 1:
        trial, secondaries = placements.allocate_one(state, asked, nodes, scope, force), np.array([NOWHERE])
    else:
        peer_mem = state.peers[rows, nodes]
        trial, secondaries = placements.allocate_pairs(state, asked, rows, nodes, peer_mem, force), nodes
    losses = _losses(trial, nodes, secondaries, _samples(state, policy))
    reporter.judged_losses(losses)
    failures, fits = counted(losses.codes[losses.real], 0), losses.fits
    if not fits.any():
        return Solution(failures, 0)
    p, s = losses.best(fits)
    if count == 1:
        chosen = trial.only(p)
    else:
        pair = nodes[[p]], nodes[[s]]
        chosen = placements.allocate_pairs(state, asked, *pair, state.peers[pair], force)
    return Solution(failures, int(np.count_nonzero(fits)), losses.metric(p, s), chosen)


def _losses(trial: Trial, primaries: Ints, secondaries: Ints, samples: Sequence[RequestedInstance]) -> Losses:
    """What the candidates of a trial cost, summed up over the nodes that they change."""
    pairs = trial.codes.ndim == 2
    shape = (len(primaries), len(secondaries)) if pairs else (len(primaries),)
    lost, disk = np.zeros((len(samples), *shape), np.int64), np.zeros(shape, np.int64)
    for node in trial.changes:
        # A secondary's reservation may differ for each primary.
        wide = np.broadcast_shapes(node.old.r_mem.shape, node.new.r_mem.shape, (1,) * len(shape))
        lost += capacities(node.old, samples, wide) - capacities(node.new, samples, wide)
        disk += node.new.f_dsk
    whole = len(primaries), len(secondaries)
    return Losses(
        primaries,
        secondaries,
        np.broadcast_to(trial.codes, shape).reshape(whole),
        primaries[:, np.newaxis] != secondaries,
        lost.reshape(len(samples), *whole),
        disk.reshape(whole),
    )
