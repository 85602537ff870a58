"""``[repair]``: repairs instances whose nodes are offline, with the rules of ``harep``. Pure functions."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.planning.plan import Execution, Progress
from ganeti_htools.planning.repair import harep
from ganeti_htools.planning.repair.harep import HAREP, PlannedRepair, RepairOptions
from ganeti_htools.planning.view import View
from htoolsd.config.policies import RepairSettings
from htoolsd.policies.memory import Budget
from htoolsd.policies.remedy import GroupFacts, Need, PlanBounds, Remedy, RemedyPlan, fixed_instances


def need(facts: GroupFacts, settings: RepairSettings) -> Need:
    """Whether a repair is needed and may begin. Raises HtoolsError for records in conflict."""
    found = harep.plan(facts.state, _options(facts.cluster, settings, facts.group, facts.now))
    needed = [each.title for each in found.repairs]
    refused = [f"{name}: {why}" for name, why in found.refused.items()]
    return Need(bool(needed), not needed, "; ".join(needed or refused) or "no instance needs a repair")


def plan(cluster: Cluster, settings: RepairSettings, bounds: PlanBounds, progress: Progress) -> RemedyPlan:
    """Plan the first repairs, as many as the budget allows. Raises HtoolsError.

    Instances that have moved lately are repaired, too: a failover is followed by new disks.
    """
    options = _options(cluster, settings, bounds.group, bounds.now)
    wanted = harep.plan(harep.state_of(cluster, options), options).repairs
    copies = list(_affordable(wanted, bounds.room))
    options = replace(options, most=len(copies))
    titles = tuple(each.title for each in wanted[: len(copies)])
    found = RemedyPlan(
        options, HAREP.propose(cluster, options, progress), len(copies), sum(copies), repairs=titles
    )
    why = "no repair fits into the budget" if wanted else "no repair is needed and may begin"
    return found.refused(None if copies else why)


def _options(cluster: Cluster, settings: RepairSettings, group: str, now: float) -> RepairOptions:
    return RepairOptions(
        View(exclude_instances=fixed_instances(cluster, settings, ())),
        Execution(on_change="stop", reason="policy repair of htoolsd"),
        int(now),
        group,
        settings.migrate_drained,
        settings.shared,
    )


def _affordable(repairs: Iterable[PlannedRepair], budget: Budget) -> Iterator[int]:
    """Yield the MiB that each of the first repairs copies, as far as the budget goes."""
    total = 0
    for count, each in enumerate(repairs):
        mib = each.disk_mib + each.memory_mib
        total += mib
        if count == budget.moves or total > budget.mib:
            return
        yield mib


REPAIR = Remedy("repair", "repair", "harep", need, plan, beside_drained=True)
