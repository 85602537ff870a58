"""``[redistribute]``: repairs node groups with the room of other groups, with the code of ``hregroup``."""

from ganeti_htools.engine.groups.diagnosis import diagnose, reasons
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.planning.groups.hregroup import HREGROUP, RegroupOptions
from ganeti_htools.planning.plan import Progress
from htoolsd.config.policies import RedistributeSettings
from htoolsd.policies.remedy import GroupFacts, Need, PlanBounds, Remedy, RemedyPlan


class Redistribute(Remedy[RedistributeSettings]):
    """Moves to quiet groups."""

    title = policy = "redistribute"
    tool = "hregroup"

    def need(self, facts: GroupFacts) -> Need:
        """Whether instances are on offline nodes, or nodes fail N+1."""
        health = diagnose(facts.state, facts.scope)
        if health.good:
            return Need(False, True, "the group needs no repair", health.word)
        why = f"the group is {health.word}: {'; '.join(reasons(facts.state, health))}"
        return Need(True, False, why, health.word)

    def plan(self, cluster: Cluster, bounds: PlanBounds, progress: Progress) -> RemedyPlan:
        """Plan the repair of the group with the room of quiet groups. Raises HtoolsError."""
        settings = self.settings
        options = RegroupOptions(
            **self.common_options(cluster, bounds.resting),
            action="redistribute",
            among=(bounds.group, *bounds.quiet),
            disk_moves=settings.disk_moves,
            allow_plain=settings.allow_plain,
            max_moves=bounds.room.moves,
            max_copy=bounds.room.mib,
            partial=settings.partial,
        )
        proposal = HREGROUP.propose(cluster, options, progress)
        steps = proposal.found["steps"]
        mib = proposal.cost["disk_mib"] + proposal.cost["memory_mib"]
        plan = RemedyPlan(options, proposal, len(steps), mib)
        if bounds.group not in proposal.found["done"] and not (settings.partial and steps):
            failed = [why for group, why in proposal.found["failed"] if group == bounds.group]
            return plan.refused(f"the group cannot be repaired: {'; '.join(failed) or 'nothing to repair'}")
        names = [step["instance"] for step in steps]
        twice = [name for name in names if names.count(name) > 1]
        return plan.refused(f"instance {twice[0]} would move twice" if twice else None)
