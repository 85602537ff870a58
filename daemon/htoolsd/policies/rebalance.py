"""``[rebalance]``: balances node groups, with the code of ``hbal``. Pure functions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.execution.review import Check, Say
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.load import LoadMode
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.planning import view
from ganeti_htools.planning.balancing.hbal import HBAL, HbalOptions
from ganeti_htools.planning.balancing.node_groups import select
from ganeti_htools.planning.plan import OnChange, Progress, Proposal
from ganeti_htools.planning.view import View
from htoolsd.config.policies import RebalanceSettings
from htoolsd.policies.remedy import GroupFacts, Need, PlanBounds, Remedy, RemedyPlan
from htoolsd.policies.safety import (
    HOT,
    UNSAFE,
    affordable,
    cool_moves,
    copies_of,
    guarded,
    safe_moves,
    steps_of,
)


class Rebalance(Remedy[RebalanceSettings]):
    """Moves within the group."""

    title = policy = "rebalance"
    tool = "hbal"

    def need(self, facts: GroupFacts) -> Need:
        """Whether the score is too high or N+1 redundancy is lost. A score that is not a number is no
        reason.
        """
        settings, lost, mode = self.settings, facts.n1 > 0, self._load(facts.cluster)
        score, of = facts.score, "score"
        if mode != "none":
            score = score_of(view.state_of(facts.cluster, View(load=mode)), facts.scope)
            of = "score with measured load"
        over, low = score >= settings.start, not score > settings.stop
        why = f"{of} {fixed(score, 8)} is {'at or above' if over else 'below'} the start, {settings.start:g}"
        cause = "lost N+1" if lost else "offline node" if _has_instances_offline(facts) else "drift"
        return Need(lost or over, low and not lost, "N+1 redundancy is lost" if lost else why, cause)

    def plan(self, cluster: Cluster, bounds: PlanBounds, progress: Progress) -> RemedyPlan:
        """Plan the first steps of hbal: those that are safe, affordable, and needed to reach ``stop``.

        Raises HtoolsError.
        """
        common = self.common_options(cluster, bounds.resting)
        options = HbalOptions(
            view=replace(common["view"], load=self._load(cluster)),
            execution=common["execution"],
            balancing=BalancingOptions(max_length=bounds.room.moves),
            group=bounds.group,
            copying=_copying(self.settings, bounds),
        )
        state = HBAL.state_of(cluster, options)
        proposal = HBAL.plan(state, options, progress).proposal()
        steps = proposal.found["steps"]
        _, scope = select(state, bounds.group)
        movable = view.movable(state, options.view, sets=True)
        moves = steps_of(proposal.jobs)
        cool = cool_moves(cluster, moves, bounds.cool)
        safe = steps[: min(cool, safe_moves(state, scope, movable, moves, bounds.reserve))]
        needed = safe if bounds.n1 else safe[: _steps_to(self.settings.stop, safe)]
        copies = affordable(copies_of(cluster, needed), bounds.room)
        while copies and steps[len(copies) - 1].get("with_next"):
            copies.pop()
        if not copies:
            why = "no move fits into the budget" if safe else UNSAFE if cool else f"the next move would {HOT}"
            why = why if steps else "no move improves the score enough"
            return RemedyPlan(options, proposal, after=proposal.score["after"], refusal=why)
        if len(copies) < len(steps):
            options = replace(options, balancing=replace(options.balancing, max_length=len(copies)))
            first = {**proposal.found, "steps": steps[: len(copies)]}
            proposal = HBAL.restore(state, options, first).proposal()
        gain, least = proposal.score["before"] - proposal.score["after"], self.settings.min_gain
        few = f"the plan would improve the score by {fixed(gain, 8)}, less than min_gain, {least:g}"
        whole = guarded_proposal(proposal, options, bounds)
        plan = RemedyPlan(options, whole, len(copies), sum(copies), proposal.score["after"])
        return plan.refused(None if gain >= least else few)

    def _load(self, cluster: Cluster) -> LoadMode:
        """Return how measured load counts now."""
        return self.settings.load if cluster.load_profiles else "none"


def _has_instances_offline(facts: GroupFacts) -> bool:
    """Whether an offline node of the group has instances."""
    state = facts.state
    offline = facts.scope & state.columns.offline
    return bool(offline[state.pnode].any() or offline[state.snode[state.snode != NOWHERE]].any())


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


def guarded_proposal(proposal: Proposal, options: HbalOptions, bounds: PlanBounds) -> Proposal:
    """Return a proposal whose review also refuses moves that are not safe."""

    def review(on_change: OnChange, say: Say) -> Check:
        return guarded(proposal.review(on_change, say), options.view, bounds.group, bounds.reserve)

    return replace(proposal, review=review)


def _steps_to(stop: float, steps: Sequence[Mapping[str, Any]]) -> int:
    """Count the first steps until the score is at most ``stop``; all if it stays above."""
    for count, step in enumerate(steps, 1):
        if float(step["score"]) <= stop and not step.get("with_next"):
            return count
    return len(steps)
