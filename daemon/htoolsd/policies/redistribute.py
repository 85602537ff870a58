"""The policy that repairs node groups with the room of others, by the code of ``hregroup``."""

from ganeti_htools.engine.groups.health import health, reasons
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.planning.hregroup import Options, propose
from ganeti_htools.planning.proposal import Execution, Progress
from ganeti_htools.planning.view import View
from htoolsd.policies.bounds import Bounds
from htoolsd.policies.conditions import Need
from htoolsd.policies.policy import Facts, Planned, Remedy, staying
from htoolsd.policies.settings import Redistribute


def need(facts: Facts, _settings: Redistribute) -> Need:
    """Whether the group is not healthy."""
    found = health(facts.state, facts.scope)
    why = f"the group is {found.word}: {'; '.join(reasons(facts.state, found))}"
    return Need(not found.good, found.good, "the group is healthy" if found.good else why)


def planned(cluster: Cluster, settings: Redistribute, bounds: Bounds, progress: Progress) -> Planned:
    """What repairs the group, with the room of groups in which nothing else goes on: all of it or nothing.

    Raises HtoolsError.
    """
    options = Options(
        View(exclude_instances=staying(cluster, settings, bounds.resting)),
        Execution(on_change="stop", reason="policy redistribute of htoolsd"),
        "redistribute",
        (bounds.group, *bounds.quiet),
        settings.disk_moves,
        settings.allow_plain,
        max_moves=bounds.room.moves,
        max_copy=bounds.room.mib,
    )
    proposal = propose(cluster, options, progress)
    steps = proposal.found["steps"]
    mib = proposal.cost["disk_mib"] + proposal.cost["memory_mib"]
    found = Planned(options, proposal, len(steps), mib)
    if bounds.group not in proposal.found["done"]:
        reasons = [why for group, why in proposal.found["failed"] if group == bounds.group]
        return found.refused(f"it cannot be repaired: {'; '.join(reasons) or 'there is nothing to repair'}")
    names = [step["instance"] for step in steps]
    twice = [name for name in names if names.count(name) > 1]
    return found.refused(f"instance {twice[0]} would move twice" if twice else None)


REDISTRIBUTE = Remedy("redistribute", "redistribute", "hregroup", need, planned)
