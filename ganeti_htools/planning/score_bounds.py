"""Bounds of balancing plans: the score below which no plan leads that copies as little (``hbal(1)``)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ganeti_htools.engine.balancing.priced_plans import priced_plans
from ganeti_htools.engine.balancing.score_bound import score_bounds
from ganeti_htools.planning.hbal import GroupPlan, HbalOptions, movable_instances


def with_bounds(plan: GroupPlan, options: HbalOptions) -> GroupPlan:
    """Return a plan with the bounds of its moves and of the plans to pick from, as far as there are any."""
    state, copying = plan.state, options.copying
    if plan.front:
        scores = [(float(row["score"]), row["weighted_mib"]) for row in plan.front]
    else:
        *_, made = priced_plans(state, copying, plan.score_before, [move.step for move in plan.moves])
        scores = [(plan.score_after, made.weighted)]
    budgets = [budget for _, budget in scores]
    least = score_bounds(state, plan.scope, options.balancing, movable_instances(state, options), budgets)
    if least is None:
        return plan
    bounds = [_bound(score, low) for (score, _), low in zip(scores, least, strict=True)]
    front = [{**row, "bound": bound} for row, bound in zip(plan.front, bounds, strict=bool(plan.front))]
    return replace(plan, bound=bounds[copying.pick] if plan.moves else None, front=front)


def _bound(score: float, least: float) -> Mapping[str, Any] | None:
    """Describe a bound as JSON: the least score, and by how many percent at most a plan is above."""
    return {"score": least, "percent": max(0.0, 100 * (score / least - 1))} if least > 0 else None
