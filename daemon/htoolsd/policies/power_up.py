"""Nodes are powered up where others have too little free, with the code of ``hsqueeze``. Pure functions."""

from collections.abc import Sequence
from dataclasses import replace

from ganeti_htools.engine.squeezing.power_plan import Action
from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.tags import STANDBY
from ganeti_htools.planning import hsqueeze
from ganeti_htools.planning.proposal import Progress
from htoolsd.policies.bounds import Bounds
from htoolsd.policies.budget import affordable
from htoolsd.policies.conditions import Need
from htoolsd.policies.group_plans import made, options_for, part, safe_steps
from htoolsd.policies.policy import Facts, Planned, Remedy
from htoolsd.policies.safety import UNSAFE
from htoolsd.policies.settings import Squeeze

ENOUGH = "every node has the minimal resources free"
LACKING = "nodes have less than the minimal resources free"


def need(facts: Facts, settings: Squeeze) -> Need:
    """Whether nodes have less than the minimal resources free. Raises HtoolsError."""
    group = part(facts.cluster, facts.group)
    options = options_for(facts.cluster, group, settings)
    lacking = hsqueeze.lacking(hsqueeze.seen(group, options), options)
    return Need(lacking, not lacking, LACKING if lacking else ENOUGH)


def planned(cluster: Cluster, settings: Squeeze, bounds: Bounds, progress: Progress) -> Planned:
    """As many nodes as it takes, and the first of the moves that go with them, as far as there is room.

    Moves that are left are made by later plans. Raises HtoolsError.
    """
    group = part(cluster, bounds.group)
    # What these replace is powered down by another plan, within the bounds for that.
    options = replace(options_for(cluster, group, settings, bounds), max_nodes=0)
    proposal = hsqueeze.propose(group, options, progress)
    if not proposal.found["enough"] and bounds.resting:
        # What rests does not make more nodes necessary: as many as would be enough if it moved.
        free = replace(options, view=options_for(cluster, group, settings).view)
        found = hsqueeze.propose(group, free, progress).found
        if found["enough"]:
            group = _without_standby(group, found["nodes"])
            proposal = hsqueeze.propose(group, options, progress)
    found = proposal.found
    if found["action"] != Action.ONLINE.value:
        return Planned(options, proposal, 0, 0, refusal=ENOUGH)
    if not found["enough"] and not found["nodes"]:
        return Planned(options, proposal, 0, 0, refusal="no node is left that could be powered up")
    steps = found["steps"]
    kept = steps[: safe_steps(group, options, proposal)]
    copies = list(affordable(group, kept, bounds.room))
    if not copies and not found["nodes"]:
        why = "no move fits into the budget" if kept else UNSAFE
        return Planned(options, proposal, 0, 0, refusal=why)
    enough = found["enough"] and len(copies) == len(steps)
    return made(group, options, {**found, "steps": steps[: len(copies)], "enough": enough}, sum(copies))


def _without_standby(group: Cluster, but: Sequence[str]) -> Cluster:
    """The group as if no other nodes could be powered up than these."""

    def stripped(node: Node) -> Node:
        tags = tuple(tag for tag in node.tags if not tag.startswith(STANDBY))
        return node if node.name in but else replace(node, tags=tags)

    return replace(group, nodes=tuple(map(stripped, group.nodes)))


POWER_UP = Remedy("power up", "squeeze", "hsqueeze", need, planned, moves=False, resumes=True)
