"""``[squeeze]``: powers nodes up and down, and finishes interrupted runs, with the code of ``hsqueeze``.

Pure functions. Each node group is treated as a cluster of its own (:mod:`htoolsd.policies.squeeze_plans`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ganeti_htools.engine.squeezing.power_plan import Action
from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.state import State
from ganeti_htools.model.tags import STANDBY
from ganeti_htools.planning.plan import Progress
from ganeti_htools.planning.squeezing import hsqueeze
from ganeti_htools.planning.squeezing.hsqueeze import HSQUEEZE, SqueezeOptions
from ganeti_htools.planning.squeezing.leftovers import find_leftovers
from htoolsd.config.policies import SqueezeSettings
from htoolsd.policies.remedy import GroupFacts, Need, PlanBounds, Remedy, RemedyPlan
from htoolsd.policies.safety import HOT, UNSAFE, affordable, cool_moves, copies_of, steps_of
from htoolsd.policies.squeeze_plans import group_alone, is_accepted, nodes_staying_up, plan_of, safe_steps

_ENOUGH = "every node has the minimal resources free"
_LACKING = "some nodes have less than the minimal resources free"
NO_STANDBY = "no node is left that could be powered up"


class Squeeze(Remedy[SqueezeSettings]):
    """The remedies of ``[squeeze]``."""

    policy = "squeeze"
    tool = "hsqueeze"
    resumes = True

    def options(self, group: Cluster, bounds: PlanBounds | None = None) -> SqueezeOptions:
        """Return hsqueeze's options for a group that is :func:`.group_alone`.

        Without ``bounds`` no instance rests, and no node has to stay up.
        """
        settings = self.settings
        named = {name for node in group.nodes for name in (node.name, *node.tags)}
        return SqueezeOptions(
            **self.common_options(group, bounds.resting if bounds else ()),
            minimal_resources=settings.minimal_resources,
            target_resources=settings.target_resources,
            prefer=tuple(name for name in settings.prefer if name in named),
            never=tuple(name for name in settings.never if name in named),
            stay_up=nodes_staying_up(group, bounds) if bounds else {},
            max_nodes=settings.max_nodes,
            allow_drbd=settings.allow_drbd,
            allow_all=settings.allow_all,
        )

    def group_state(self, facts: GroupFacts) -> tuple[State, SqueezeOptions]:
        """Return the state of a group, and the options for it. Raises HtoolsError."""
        group = group_alone(facts.cluster, facts.group)
        options = self.options(group)
        return hsqueeze.state_of(group, options), options


class PowerUp(Squeeze):
    """Powers up nodes and fills them."""

    title = "power up"
    needs_moves = False

    def need(self, facts: GroupFacts) -> Need:
        """Whether nodes have less than the minimal resources free. Raises HtoolsError."""
        lacking = hsqueeze.lacks_resources(*self.group_state(facts))
        return Need(lacking, not lacking, _LACKING if lacking else _ENOUGH)

    def plan(self, cluster: Cluster, bounds: PlanBounds, progress: Progress) -> RemedyPlan:
        """Plan to power up as many nodes as needed, with the first of their moves that the budget allows.

        Later plans make the other moves. Raises HtoolsError.
        """
        group = group_alone(cluster, bounds.group)
        # Nodes that the new ones replace are powered down by another plan, within the bounds for that.
        options = replace(self.options(group, bounds), max_nodes=0)
        proposal = HSQUEEZE.propose(group, options, progress)
        if not proposal.found["enough"] and bounds.resting:
            # Resting instances are no reason for more nodes than would be enough without rests.
            free = replace(options, view=self.options(group).view)
            without_rests = HSQUEEZE.propose(group, free, progress).found
            if without_rests["enough"]:
                group = _with_standby_only(group, without_rests["nodes"])
                proposal = HSQUEEZE.propose(group, options, progress)
        power = proposal.found
        if power["action"] != Action.ONLINE.value:
            return RemedyPlan(options, proposal, refusal=_ENOUGH)
        if not power["enough"] and not power["nodes"]:
            return RemedyPlan(options, proposal, refusal=NO_STANDBY)
        steps = power["steps"]
        safe = steps[: safe_steps(group, options, proposal)]
        copies = affordable(copies_of(group, safe), bounds.room)
        if not copies and not power["nodes"]:
            why = "no move fits into the budget" if safe else UNSAFE
            return RemedyPlan(options, proposal, refusal=why)
        enough = power["enough"] and len(copies) == len(steps)
        first = {**power, "steps": steps[: len(copies)], "enough": enough}
        return plan_of(group, options, first, sum(copies))


def _with_standby_only(group: Cluster, names: Sequence[str]) -> Cluster:
    """Return the group as if only these nodes could be powered up."""

    def stripped(node: Node) -> Node:
        tags = tuple(tag for tag in node.tags if not tag.startswith(STANDBY))
        return node if node.name in names else replace(node, tags=tags)

    return replace(group, nodes=tuple(map(stripped, group.nodes)))


class PowerDown(Squeeze):
    """Empties nodes and powers them down."""

    title = "power down"
    yields = True

    def need(self, facts: GroupFacts) -> Need:
        """Whether perhaps a node can be powered down; only the plan finds out. Raises HtoolsError."""
        state, options = self.group_state(facts)
        if hsqueeze.lacks_resources(state, options):
            return Need(False, True, _LACKING)
        kept = hsqueeze.quick_refusals(state, options)
        if kept is not None:
            return Need(False, True, f"no node can be spared: {'; '.join(kept)}")
        return Need(True, False, "perhaps some nodes can be spared")

    def plan(self, cluster: Cluster, bounds: PlanBounds, progress: Progress) -> RemedyPlan:
        """Plan to power down as many nodes as the budget allows to empty, with no other moves.

        Raises HtoolsError.
        """
        least, group = self.settings.min_nodes, group_alone(cluster, bounds.group)
        options = self.options(group, bounds)
        refused, most, offline = None, self.settings.max_nodes, len(find_leftovers(group).offline)
        while refused is None or most - offline >= least:
            proposal = HSQUEEZE.propose(group, replace(options, max_nodes=most), progress)
            power = proposal.found
            if power["action"] != Action.OFFLINE.value or len(power["nodes"]) < least:
                few = f"fewer than {least} nodes" if least > 1 else "no node"
                return refused or RemedyPlan(options, proposal, refusal=f"{few} can be powered down")
            steps = _emptying_steps(group, options, power)
            copies = affordable(copies_of(group, steps), bounds.room)
            moves = steps_of(proposal.jobs)[: len(steps)]
            cool = len(moves) == cool_moves(group, moves, bounds.cool, strictly=True)
            if cool and len(copies) == len(steps) <= safe_steps(group, options, proposal):
                return plan_of(group, options, {**power, "steps": steps}, sum(copies))
            costs = "exceed the budget or cost N+1 redundancy" if cool else HOT
            why = f"emptying {', '.join(power['nodes'])} would {costs}"
            refused = RemedyPlan(options, proposal, refusal=why)
            most = offline + len(power["nodes"]) - 1
        return refused


def _emptying_steps(group: Cluster, options: SqueezeOptions, power: Mapping[str, Any]) -> Sequence[Any]:
    """Return the first steps of a plan that empty its nodes and leave enough free on the others."""
    steps, away = power["steps"], set(power["nodes"])
    remaining = {row.name for row in group.instances if {row.pnode, row.snode} & away}
    count = 0
    while remaining and count < len(steps):
        step = steps[count]
        (remaining.add if set(step["to"]) & away else remaining.discard)(step["instance"])
        count += 1
    more = 1
    while count < len(steps) and not is_accepted(group, options, {**power, "steps": steps[:count]}):
        count, more = min(count + more, len(steps)), 2 * more
    needed: Sequence[Any] = steps[:count]
    return needed


class Finish(Squeeze):
    """Finishes what an interrupted hsqueeze has left."""

    title = "finish"
    needs_moves = False

    def need(self, facts: GroupFacts) -> Need | None:
        """Whether an interrupted hsqueeze has left something; None if not. Raises HtoolsError."""
        left = str(find_leftovers(group_alone(facts.cluster, facts.group)))
        return Need(True, False, f"an earlier hsqueeze has left: {left}") if left else None

    def plan(self, cluster: Cluster, bounds: PlanBounds, progress: Progress) -> RemedyPlan:
        """Plan to use drained nodes again, to power off offline ones, and to remove tags.

        Raises HtoolsError.
        """
        group = group_alone(cluster, bounds.group)
        none = {"action": Action.NOTHING.value, "phases": (), "steps": (), "enough": False, "kept": {}}
        plan = plan_of(group, self.options(group, bounds), {**none, "nodes": ()})
        left = find_leftovers(group)
        names = tuple(node.name for node in (*left.drained, *left.offline, *left.online))
        return replace(plan, nodes=names).refused(None if names else "an earlier hsqueeze has left nothing")
