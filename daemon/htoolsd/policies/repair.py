"""``[repair]``: repairs instances whose nodes are offline, with the rules of ``harep``. Pure functions."""

from dataclasses import replace

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.planning.plan import Progress
from ganeti_htools.planning.repair import harep
from ganeti_htools.planning.repair.harep import HAREP, RepairOptions
from htoolsd.config.policies import RepairSettings
from htoolsd.policies.remedy import GroupFacts, Need, PlanBounds, Remedy, RemedyPlan
from htoolsd.policies.safety import affordable


class RepairInstances(Remedy[RepairSettings]):
    """Repairs, each as one job."""

    title = policy = "repair"
    tool = "harep"
    beside_drained = True

    def need(self, facts: GroupFacts) -> Need:
        """Whether a repair is needed and may begin. Raises HtoolsError for records in conflict."""
        repairs = harep.plan(facts.state, self._options(facts.cluster, facts.group, facts.now))
        needed = [each.title for each in repairs.repairs]
        refused = [f"{name}: {why}" for name, why in repairs.refused.items()]
        return Need(bool(needed), not needed, "; ".join(needed or refused) or "no instance needs a repair")

    def plan(self, cluster: Cluster, bounds: PlanBounds, progress: Progress) -> RemedyPlan:
        """Plan the first repairs, as many as the budget allows. Raises HtoolsError.

        Instances that have moved lately are repaired, too: a failover is followed by new disks.
        """
        options = self._options(cluster, bounds.group, bounds.now)
        repairs = harep.plan(harep.state_of(cluster, options), options).repairs
        copies = affordable(
            ((each.need.name, each.disk_mib + each.memory_mib) for each in repairs), bounds.room
        )
        options = replace(options, most=len(copies))
        titles = tuple(each.title for each in repairs[: len(copies)])
        proposal = HAREP.propose(cluster, options, progress)
        plan = RemedyPlan(options, proposal, len(copies), sum(copies), repairs=titles)
        why = "no repair fits into the budget" if repairs else "no repair is needed and may begin"
        return plan.refused(None if copies else why)

    def _options(self, cluster: Cluster, group: str, now: float) -> RepairOptions:
        return RepairOptions(
            **self.common_options(cluster),
            now=int(now),
            group=group,
            migrate_drained=self.settings.migrate_drained,
            shared=self.settings.shared,
        )
