"""Safety of the single moves of a policy's plan: budget, redundancy, reserve. Pure functions.

Invariant: three properties survive every move of a policy: a node holds N+1, a node can be lost, all nodes
have the reserve. :func:`safe_moves` cuts a plan before the first move that would break this, and
:func:`cool_moves` before the first one that makes a node hot. :func:`in_order` lets no move overtake another.
:func:`guarded` checks the next jobset again on the cluster as it is then.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ganeti_htools.engine.balancing.recheck import retrace
from ganeti_htools.engine.balancing.relief import worst_hours
from ganeti_htools.engine.moving.traffic import copied
from ganeti_htools.engine.redundancy.health import bad_nodes
from ganeti_htools.engine.redundancy.recoverability import unrecoverable
from ganeti_htools.execution.jobs import Job, Jobsets
from ganeti_htools.execution.review import Check, Review
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.figures import Figures
from ganeti_htools.model.moves import MoveKind, NamedMove
from ganeti_htools.model.state import State
from ganeti_htools.planning import view
from ganeti_htools.planning.jobsets import units
from ganeti_htools.planning.plan import Proposal
from ganeti_htools.planning.squeezing import hsqueeze
from ganeti_htools.planning.view import View
from htoolsd.config.policies import Reserve
from htoolsd.policies.memory import Budget

_NO_RESERVE = Reserve(0.0)
HOT = "make a node hot (the stop of [relieve])"
UNSAFE = "the next move would cost redundancy or the reserve"


def steps_of(jobs: Jobsets) -> list[NamedMove]:
    """Return the moves that jobs make, in order."""
    return [job.step for each in jobs for job in each if job.step is not None]


def copies_of(cluster: Cluster, steps: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, int]]:
    """Yield the instance of each step of a proposal as JSON, and the MiB that the step copies."""
    rows = {instance.name: instance for instance in cluster.instances}
    for step in steps:
        yield step["instance"], sum(copied(MoveKind(step["move"]), rows[step["instance"]]))


def affordable(copies: Iterable[tuple[str, int]], budget: Budget) -> list[int]:
    """Return the MiB that each of the first moves copies, as far as the budget goes.

    Each move comes with its instance. The result ends before an instance would move twice.
    """
    moved: dict[str, int] = {}
    for name, mib in copies:
        if name in moved or len(moved) == budget.moves or sum(moved.values()) + mib > budget.mib:
            break
        moved[name] = mib
    return list(moved.values())


def safe_moves(
    state: State, scope: Bools, movable: Bools, steps: Sequence[NamedMove], reserve: Reserve = _NO_RESERVE
) -> int:
    """Count the first steps that keep redundancy and reserve in the group of nodes ``scope``.

    What a node lacked before a step does not count against the step. Sets that stay together are whole
    afterwards. Raises DataError for impossible steps.
    """
    after = state.copy()
    keep = hsqueeze.SqueezeOptions(minimal_resources=reserve.instances, allow_drbd=reserve.disks)
    weak, lost = bad_nodes(after, scope), unrecoverable(after, scope)
    lacking = hsqueeze.lacks_resources(after, keep, scope)
    count = 0
    for made, step in enumerate(retrace(after, movable, steps), 1):
        if step.with_next:
            continue
        bad, gone = bad_nodes(after, scope), unrecoverable(after, scope)
        lacks = hsqueeze.lacks_resources(after, keep, scope)
        if (bad & ~weak).any() or (gone & ~lost).any() or (lacks and not lacking):
            break
        weak, lost, lacking, count = bad, gone, lacks, made
    return count


def cool_moves(cluster: Cluster, steps: Sequence[NamedMove], cool: float, *, strictly: bool = False) -> int:
    """Count the first steps after which no new node uses more than ``cool`` of its CPUs in its worst hour.

    Unless ``strictly``, it may use what the old node used. Without ``cool``, and while no load is known, all
    steps count.
    """
    if not cool or not cluster.load_profiles:
        return len(steps)
    after = view.state_of(cluster, View(load="real"))
    everything, count, worst = np.ones(len(after.pnode), np.bool_), 0, worst_hours(after)
    for made, (step, move) in enumerate(zip(steps, retrace(after, everything, steps), strict=True), 1):
        source, target, before = after.nodes[step.was[0]], move.nodes[0], worst
        worst = worst_hours(after)
        if source != target and worst[target] > max(cool, 0.0 if strictly else before[source]):
            break
        count = count if step.with_next else made
    return count


def in_order(proposal: Proposal) -> Proposal:
    """Return the plan with one move per jobset, or those of instances that move together.

    Moves that are safe in one order need not be in another, and jobs of one set end in any order.
    """
    sets = [part for jobs in proposal.jobs for part in _one_by_one(jobs)]
    moving = sum(any(job.step for job in jobs) for jobs in sets)
    return replace(proposal, jobs=sets, cost={**proposal.cost, "jobsets": moving})


def _one_by_one(jobs: Sequence[Job]) -> Jobsets:
    moving = sum(job.step is not None for job in jobs)
    return units(jobs, lambda job: job.step) if moving > 1 else [jobs]


def guarded(check: Check, options: View, group: str, reserve: Reserve = _NO_RESERVE) -> Check:
    """Return a review that also refuses the next jobset if one of its moves is not safe in the group."""

    figures: Figures | None = None  # of the last state

    def guard(cluster: Cluster, rest: Jobsets, count: int) -> Review:
        nonlocal figures
        review, steps = check(cluster, rest, count), steps_of(rest[:1])
        if review.obstacle is not None or not steps:
            return review
        state = view.state_of(cluster, options, figures)
        figures = state.figures
        scope = state.group == view.group(state, group, f"node group {group} is gone")
        safe = safe_moves(state, scope, view.movable(state, options, sets=True), steps, reserve)
        return review if safe == len(steps) else Review(UNSAFE)

    return guard
