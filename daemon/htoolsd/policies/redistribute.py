"""``[redistribute]``: repairs node groups with the room of other groups, with the code of ``hregroup``."""

from ganeti_htools.engine.groups.diagnosis import diagnose, reasons
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.planning.groups.hregroup import HREGROUP, RegroupOptions
from ganeti_htools.planning.plan import Execution, Progress
from ganeti_htools.planning.view import View
from htoolsd.config.policies import RedistributeSettings
from htoolsd.policies.remedy import GroupFacts, Need, PlanBounds, Remedy, RemedyPlan, fixed_instances


def need(facts: GroupFacts, _settings: RedistributeSettings) -> Need:
    """Whether instances are on offline nodes, or nodes fail N+1."""
    found = diagnose(facts.state, facts.scope)
    why = f"the group is {found.word}: {'; '.join(reasons(facts.state, found))}"
    return Need(not found.good, found.good, "the group needs no repair" if found.good else why, found.word)


def plan(
    cluster: Cluster, settings: RedistributeSettings, bounds: PlanBounds, progress: Progress
) -> RemedyPlan:
    """Plan the repair of the group with the room of quiet groups. Raises HtoolsError."""
    options = RegroupOptions(
        View(exclude_instances=fixed_instances(cluster, settings, bounds.resting)),
        Execution(on_change="stop", reason="policy redistribute of htoolsd"),
        "redistribute",
        (bounds.group, *bounds.quiet),
        settings.disk_moves,
        settings.allow_plain,
        max_moves=bounds.room.moves,
        max_copy=bounds.room.mib,
        partial=settings.partial,
    )
    proposal = HREGROUP.propose(cluster, options, progress)
    steps = proposal.found["steps"]
    mib = proposal.cost["disk_mib"] + proposal.cost["memory_mib"]
    found = RemedyPlan(options, proposal, len(steps), mib)
    if bounds.group not in proposal.found["done"] and not (settings.partial and steps):
        reasons = [why for group, why in proposal.found["failed"] if group == bounds.group]
        return found.refused(f"the group cannot be repaired: {'; '.join(reasons) or 'nothing to repair'}")
    names = [step["instance"] for step in steps]
    twice = [name for name in names if names.count(name) > 1]
    return found.refused(f"instance {twice[0]} would move twice" if twice else None)


REDISTRIBUTE = Remedy("redistribute", "redistribute", "hregroup", need, plan)
