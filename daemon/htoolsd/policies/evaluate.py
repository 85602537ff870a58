"""Evaluation: what remedies would do in node groups now, and what holds them back.

Nothing here acts or remembers. Decisions and explanations come from the same functions.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.planning.plan import Proposal
from ganeti_htools.records import JSON
from htoolsd.policies.conditions import Situation, obstacles, with_next_round
from htoolsd.policies.observe import Observation, PolicyInputs, look, situations
from htoolsd.policies.remedies import ORDER, POLICIES
from htoolsd.policies.remedy import PlanBounds, Remedy, RemedyPlan
from htoolsd.policies.safety import in_order


def obstacles_to(inputs: PolicyInputs, remedy: Remedy, situation: Situation) -> list[tuple[str, str]]:
    """Return the conditions that hold a remedy back in a group, each with its reason."""
    memory = inputs.memory.content.memories[remedy.policy]
    return list(obstacles(inputs.settings[remedy.policy], memory, situation))


async def obstacle_now(inputs: PolicyInputs, remedy: Remedy, group: str) -> str | None:
    """Observe the group again; return what holds the remedy back, if anything. Raises HtoolsError."""
    for situation in await situations(inputs, remedy, await look(inputs)):
        if situation.group == group:
            return next((why for _, why in obstacles_to(inputs, remedy, situation)), None)
    return "nothing is left to do"


async def make_plan(inputs: PolicyInputs, remedy: Remedy, cluster: Cluster, bounds: PlanBounds) -> RemedyPlan:
    """Plan what a remedy would do in a group, one move per jobset. Raises HtoolsError."""
    settings = inputs.present_settings(remedy.policy, cluster)
    found = await inputs.computations.run(lambda pause: remedy.plan(cluster, settings, bounds, pause))
    return replace(found, proposal=in_order(found.proposal))


async def remake_proposal(inputs: PolicyInputs, facts: Mapping[str, Any]) -> Proposal:
    """Make the plan of a policy of an earlier daemon again, from the facts in its record.

    The plan is for the cluster as it is now, within the same bounds. Raises HtoolsError if there is none.
    """
    remedy = next((each for each in ORDER if each.title == facts["remedy"]), None)
    bounds: PlanBounds | None = JSON.read(PlanBounds | None, "bounds", facts.get("bounds"))
    cluster = inputs.sync.model.available
    if remedy is None or bounds is None or cluster is None:
        raise HtoolsError("its record lacks a known remedy or bounds, or the cluster is not known yet")
    if all(row.name != bounds.group for row in cluster.groups):
        raise HtoolsError(f"node group {bounds.group} is gone")
    found = await make_plan(inputs, remedy, cluster, bounds)
    if found.refusal is not None:
        raise HtoolsError(found.refusal)
    return found.proposal


async def conflict_of(
    inputs: PolicyInputs, remedy: Remedy, situation: Situation, seen: Observation
) -> str | None:
    """Return the earlier remedy that acted lately in the group, or would act now.

    Only a remedy that yields has conflicts. "Lately" is the time that the policy takes to begin. Raises
    HtoolsError.
    """
    settings = inputs.settings[remedy.policy]
    since = situation.now - settings.hold * settings.every_seconds
    for other in ORDER[: ORDER.index(remedy)] if remedy.yields else ():
        if inputs.settings[other.policy].mode == "off":
            continue
        rounds = inputs.memory.content.memories[other.policy].rounds_of(other.title, situation.group)
        if rounds.acted > since:
            return f"{other.title} acted {situation.now - rounds.acted:.0f} s ago"
        if rounds.active and await _would_act(inputs, other, situation.group, seen):
            return f"{other.title} would act in the group"
    return None


async def _would_act(inputs: PolicyInputs, remedy: Remedy, group: str, seen: Observation) -> bool:
    for situation in await situations(inputs, remedy, seen):
        if situation.group == group and not obstacles_to(inputs, remedy, situation):
            return (await make_plan(inputs, remedy, seen.cluster, situation.bounds)).refusal is None
    return False


async def explain_groups(inputs: PolicyInputs, policy: str) -> list[dict[str, Any]]:
    """Return as JSON what each remedy would do in each group, and all that holds it back.

    Raises HtoolsError.
    """
    explained = []
    seen = await look(inputs)
    for remedy in POLICIES[policy]:
        for each in await situations(inputs, remedy, seen):
            conflict = await conflict_of(inputs, remedy, each, seen)
            situation = replace(with_next_round(inputs.settings[policy], each), conflict=conflict)
            plan, held = None, obstacles_to(inputs, remedy, situation)
            try:
                plan = await make_plan(inputs, remedy, seen.cluster, situation.bounds)
            except HtoolsError as error:
                held.append(("error", str(error)))
            if plan is not None and plan.refusal is not None:
                held.append(("gain", plan.refusal))
            explained.append(
                {
                    "group": situation.group,
                    "remedy": remedy.title,
                    "score": {"before": situation.score, "after": plan and plan.after},
                    "n1": situation.bounds.n1,
                    "held": [{"condition": name, "reason": reason} for name, reason in held],
                    "moves": plan.moves_to_json() if plan else [],
                    "mib": plan.mib if plan else 0,
                    "powered": list(plan.nodes) if plan else [],
                    "repairs": list(plan.repairs) if plan else [],
                }
            )
    return explained
