"""``[rebalance]``: balances node groups, with the code of ``hbal``. Pure functions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.execution.review import Check, Say
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.planning import view
from ganeti_htools.planning.balancing.hbal import HBAL, HbalOptions
from ganeti_htools.planning.balancing.node_groups import select
from ganeti_htools.planning.plan import Execution, OnChange, Progress, Proposal
from ganeti_htools.planning.view import View
from htoolsd.config.policies import RebalanceSettings
from htoolsd.policies.remedy import GroupFacts, Need, PlanBounds, Remedy, RemedyPlan, fixed_instances
from htoolsd.policies.safety import UNSAFE, affordable, guarded, safe_moves, steps_of


def need(facts: GroupFacts, settings: RebalanceSettings) -> Need:
    """Whether the score is too high or N+1 redundancy is lost. A score that is not a number is no reason."""
    lost, score = facts.n1 > 0, f"score {fixed(facts.score, 8)}"
    over, low = facts.score >= settings.start, not facts.score > settings.stop
    why = f"{score} is {'at or above' if over else 'below'} the start, {settings.start:g}"
    cause = "lost N+1" if lost else "offline node" if _has_instances_offline(facts) else "drift"
    return Need(lost or over, low and not lost, "N+1 redundancy is lost" if lost else why, cause)


def _has_instances_offline(facts: GroupFacts) -> bool:
    """Whether an offline node of the group has instances."""
    state = facts.state
    offline = facts.scope & state.columns.offline
    return bool(offline[state.pnode].any() or offline[state.snode[state.snode != NOWHERE]].any())


def plan(cluster: Cluster, settings: RebalanceSettings, bounds: PlanBounds, progress: Progress) -> RemedyPlan:
    """Plan the first steps of hbal: those that are safe, affordable, and needed to reach ``stop``.

    Raises HtoolsError.
    """
    options = HbalOptions(
        View(exclude_instances=fixed_instances(cluster, settings, bounds.resting)),
        Execution(on_change="stop", reason="policy rebalance of htoolsd"),
        BalancingOptions(max_length=bounds.room.moves),
        bounds.group,
    )
    options = replace(options, copying=_copying(settings, bounds))
    state = HBAL.state_of(cluster, options)
    proposal = HBAL.plan(state, options, progress).proposal()
    steps = proposal.found["steps"]
    _, scope = select(state, bounds.group)
    movable = view.movable(state, options.view, sets=True)
    safe = steps[: safe_moves(state, scope, movable, steps_of(proposal.jobs), bounds.reserve)]
    copies = list(_until(settings.stop, affordable(cluster, safe, bounds.room), safe, bounds.n1 > 0))
    while copies and steps[len(copies) - 1].get("with_next"):
        copies.pop()
    if not copies:
        why = "no move fits into the budget" if safe else UNSAFE
        why = why if steps else "no move improves the score enough"
        return RemedyPlan(options, proposal, 0, 0, proposal.score["after"], refusal=why)
    if len(copies) < len(steps):
        options = replace(options, balancing=replace(options.balancing, max_length=len(copies)))
        first = {**proposal.found, "steps": steps[: len(copies)]}
        proposal = HBAL.restore(state, options, first).proposal()
    gain = proposal.score["before"] - proposal.score["after"]
    few = f"the plan would improve the score by {fixed(gain, 8)}, less than min_gain, {settings.min_gain:g}"
    whole = _guarded(proposal, options, bounds)
    found = RemedyPlan(options, whole, len(copies), sum(copies), proposal.score["after"])
    return found.refused(None if gain >= settings.min_gain else few)


def _copying(settings: RebalanceSettings, bounds: PlanBounds) -> CopyingOptions:
    """Return the options of the plan that the settings choose; by default it is the usual plan."""
    copying = CopyingOptions(
        price=settings.price,
        max_copy=settings.max_copy or -1,
        most_even=settings.most_even,
        cheapest_below=settings.cheapest_below or None,
    )
    if not copying.wanted:
        return copying
    most = bounds.room.mib if copying.max_copy < 0 else min(copying.max_copy, bounds.room.mib)
    return replace(copying, max_copy=most, max_moves=bounds.room.moves)


def _guarded(proposal: Proposal, options: HbalOptions, bounds: PlanBounds) -> Proposal:
    def review(on_change: OnChange, say: Say) -> Check:
        return guarded(proposal.review(on_change, say), options.view, bounds.group, bounds.reserve)

    return replace(proposal, review=review)


def _until(
    stop: float, copies: Iterable[int], steps: Sequence[Mapping[str, Any]], n1_lost: bool
) -> Iterator[int]:
    """Yield the MiB of the first steps until the score is at most ``stop``; all if N+1 redundancy is lost."""
    for mib, step in zip(copies, steps, strict=False):
        yield mib
        if not n1_lost and float(step["score"]) <= stop and not step.get("with_next"):
            return


REBALANCE = Remedy("rebalance", "rebalance", "hbal", need, plan)
