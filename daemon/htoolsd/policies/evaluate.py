"""Evaluation: what remedies would do in node groups now, and what holds them back.

Pure functions of an observation. Decisions and explanations come from the same functions. They run in
threads and call ``progress`` now and then; all may raise HtoolsError.
"""

from dataclasses import replace
from typing import Any

from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.planning.plan import Progress
from htoolsd.policies.conditions import Situation, obstacles, with_next_round
from htoolsd.policies.observe import Observation, plan_bounds, situations
from htoolsd.policies.remedies import ORDER
from htoolsd.policies.remedy import PlanBounds, RemedyPlan


def plan_or_reason(
    seen: Observation, situation: Situation, bounds: PlanBounds, progress: Progress
) -> RemedyPlan | str:
    """Return what a remedy would do in a group, or the first reason why it does nothing."""
    for _, reason in obstacles(situation):
        return reason
    if (conflict := _conflict(seen, situation, progress)) is not None:
        return conflict
    plan = situation.remedy.plan_in_order(seen.cluster, bounds, progress)
    return plan if plan.refusal is None else plan.refusal


def obstacle_now(seen: Observation, before: Situation, progress: Progress) -> str | None:
    """Return the first condition that now holds a remedy back in a group of an earlier observation."""
    for situation in situations(seen, type(before.remedy), progress):
        if situation.group == before.group:
            return next((reason for _, reason in obstacles(situation)), None)
    return "nothing is left to do"


def _conflict(seen: Observation, situation: Situation, progress: Progress) -> str | None:
    """Return the earlier remedy that acted lately in the group, or would act now.

    Only a remedy that yields has conflicts. "Lately" is the time that the policy takes to begin.
    """
    remedy, group, settings = situation.remedy, situation.group, situation.settings
    since = situation.now - settings.hold * settings.every_seconds
    for other in ORDER[: ORDER.index(type(remedy))] if remedy.yields else ():
        if seen.settings[other.policy].mode == "off":
            continue
        rounds = seen.memories.memories[other.policy].rounds_of(other.title, group)
        if rounds.acted > since:
            return f"{other.title} acted {situation.now - rounds.acted:.0f} s ago"
        if not rounds.active:
            continue
        for each in situations(seen, other, progress):
            if each.group == group and not isinstance(
                plan_or_reason(seen, each, plan_bounds(seen, each), progress), str
            ):
                return f"{other.title} would act in the group"
    return None


def explain(seen: Observation, situation: Situation, progress: Progress) -> dict[str, Any]:
    """Return as JSON what a remedy would do in a group in the next round, and all that blocks it."""
    conflict = _conflict(seen, situation, progress)
    situation = replace(with_next_round(situation), conflict=conflict)
    plan, held = None, obstacles(situation)
    try:
        plan = situation.remedy.plan_in_order(seen.cluster, plan_bounds(seen, situation), progress)
    except HtoolsError as error:
        held.append(("error", str(error)))
    if plan is not None and plan.refusal is not None:
        held.append(("gain", plan.refusal))
    return {
        "group": situation.group,
        "remedy": situation.remedy.title,
        "score": {"before": situation.facts.score, "after": plan and plan.after},
        "n1": situation.facts.n1,
        "held": [{"condition": name, "reason": reason} for name, reason in held],
        "moves": plan.moves_to_json() if plan else [],
        "mib": plan.mib if plan else 0,
        "powered": list(plan.nodes) if plan else [],
        "repairs": list(plan.repairs) if plan else [],
    }
