"""Allocation on nodes with exclusive storage: lose as few later allocations as possible.

For each interval of the instance policy, largest disks first, the number of smallest instances that a node
still takes is counted before and after. The node (or pair) with the lowest difference wins, then the one with
the least disk left (``hail(1)``, "lost-allocations metrics").
"""

import numpy as np

from ganeti_htools.engine.allocation.lost_allocations import lost_allocations, smallest_instances
from ganeti_htools.engine.allocation.reporter import Reporter
from ganeti_htools.engine.allocation.solution import Solution, count_failures
from ganeti_htools.engine.rules import placements
from ganeti_htools.model.columns import NOWHERE, Ints
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import Allocate, MultiAllocate, Request
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import AllocPolicy


def is_dedicated(state: State, request: Request) -> bool:
    """Whether lost allocations decide about new instances: all nodes concerned have exclusive storage.

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


def with_fewest_losses(
    state: State,
    asked: RequestedInstance,
    count: int,
    group: int,
    nodes: Ints,
    options: PlacementOptions,
    reporter: Reporter,
) -> Solution:
    """Find the one of ``nodes`` of a group (rows), or the pair, that costs the fewest later instances."""
    scope, policy = state.group == group, state.cluster.groups[group].ipolicy
    force, rows = options.ignore_soft_errors, nodes[:, np.newaxis]
    if count == 1:
        trial, secondaries = placements.allocate_one(state, asked, nodes, scope, force), np.array([NOWHERE])
    else:
        peer_mem = state.peers[rows, nodes]
        trial, secondaries = placements.allocate_pairs(state, asked, rows, nodes, peer_mem, force), nodes
    losses = lost_allocations(trial, nodes, secondaries, smallest_instances(state, policy))
    reporter.judged_losses(losses)
    failures, fits = count_failures(losses.codes[losses.real], 0), losses.fits
    if not fits.any():
        return Solution(failures, 0)
    p, s = losses.best(fits)
    if count == 1:
        chosen = trial.only(p)
    else:
        pair = nodes[[p]], nodes[[s]]
        chosen = placements.allocate_pairs(state, asked, *pair, state.peers[pair], force)
    return Solution(failures, int(np.count_nonzero(fits)), losses.metric(p, s), chosen)
