"""What no single move of a policy may cost: redundancy, and what has to stay free. Pure functions."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ganeti_htools.engine.balancing.recheck import retrace
from ganeti_htools.engine.redundancy.check import fragile_nodes
from ganeti_htools.engine.redundancy.n1 import bad_nodes
from ganeti_htools.execution.jobs import Job, Jobsets
from ganeti_htools.execution.review import Check, Review
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.moves import NamedStep
from ganeti_htools.model.state import State
from ganeti_htools.planning import hsqueeze, view
from ganeti_htools.planning.proposal import Proposal
from ganeti_htools.planning.view import View
from htoolsd.policies.settings import Reserve

_NONE = Reserve(0.0)
UNSAFE = "the next move would cost redundancy, or what is kept free"


def steps_of(jobs: Jobsets) -> list[NamedStep]:
    """The moves within groups that jobs make, in order."""
    return [job.step for each in jobs for job in each if isinstance(job.step, NamedStep)]


def safe(
    state: State, scope: Bools, movable: Bools, steps: Sequence[NamedStep], reserve: Reserve = _NONE
) -> int:
    """How many of the first steps of a plan for the group in scope keep what is there.

    Each node goes on to hold N+1 and can be lost, and all have the ``reserve``, if it is so before each step.
    Raises DataError for steps that cannot be made.
    """
    after = state.copy()
    keep = hsqueeze.Options(minimal_resources=reserve.instances, allow_drbd=reserve.disks)
    weak, lacking = _weak(after, scope), hsqueeze.lacking(after, keep, scope)
    count = 0
    for _ in retrace(after, movable, ((step, 0.0) for step in steps)):
        now, lacks = _weak(after, scope), hsqueeze.lacking(after, keep, scope)
        if (now & ~weak).any() or (lacks and not lacking):
            break
        weak, lacking, count = now, lacks, count + 1
    return count


def in_order(proposal: Proposal) -> Proposal:
    """A plan that makes its moves one after the other: what is safe in this order need not be in another, and
    nobody knows which of several jobs ends first.
    """
    sets = [part for jobs in proposal.jobs for part in _apart(jobs)]
    moving = sum(any(job.step for job in jobs) for jobs in sets)
    return replace(proposal, jobs=sets, cost={**proposal.cost, "jobsets": moving})


def _apart(jobs: Sequence[Job]) -> Jobsets:
    return [[job] for job in jobs] if sum(job.step is not None for job in jobs) > 1 else [jobs]


def guarded(check: Check, options: View, group: str, reserve: Reserve = _NONE) -> Check:
    """A review that also finds out whether the next jobs are safe in the group.

    Those after them are looked at again before they begin.
    """

    def guard(cluster: Cluster, rest: Jobsets, made: int) -> Review:
        found, steps = check(cluster, rest, made), steps_of(rest[:1])
        if found.obstacle is not None or not steps:
            return found
        state = view.state_of(cluster, options)
        scope = state.group == view.group(state, group, f"node group {group} is gone")
        kept = safe(state, scope, view.movable(state, options), steps, reserve)
        return found if kept == len(steps) else Review(UNSAFE)

    return guard


def _weak(state: State, scope: Bools) -> Bools:
    """Nodes that fail N+1, or that cannot be lost; those that are offline take nothing.

    Instances leave a lost node in the order in which they will be read, whichever came to it first.
    """
    state = replace(state, stamp=np.arange(len(state.pnode)))
    found: Bools = bad_nodes(state, scope) | fragile_nodes(state, scope & ~state.columns.offline)
    return found
