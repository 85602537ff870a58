"""Facts about a plan of ``hsqueeze`` for its report: reasons of nodes that stay, least free memory."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.engine.squeezing import candidates, power_down, power_group
from ganeti_htools.engine.squeezing.candidates import MIRRORS, OWN_STORAGE
from ganeti_htools.engine.squeezing.power_plan import Action, AllowedMoves, PowerPlan
from ganeti_htools.model.cluster import Node
from ganeti_htools.model.errors import first_names
from ganeti_htools.model.state import State
from ganeti_htools.model.tags import standby
from ganeti_htools.model.types import DiskTemplate

DISKLESS = "has diskless instances, which stay"

_WITHOUT_N1 = "--target-resources=0 gives up N+1"
_LESS = "lower --target-resources may help"
# Options that help against a reason.
_OPTIONS = {
    MIRRORS: "--allow-drbd moves them",
    power_down.ENOUGH: "a larger --max-nodes may help",
    power_group.NO_ROOM: _LESS,
    power_group.TARGET: _LESS,
    power_group.ALONE: _WITHOUT_N1,
    power_group.NOT_REDUNDANT: _WITHOUT_N1,
}
# Templates on a node's own storage, which some option moves.
_OWN = {
    AllowedMoves.POOLS: {DiskTemplate.DRBD, DiskTemplate.PLAIN, DiskTemplate.FILE},
    AllowedMoves.DRBD: {DiskTemplate.PLAIN, DiskTemplate.FILE},
    AllowedMoves.ALL: set[DiskTemplate](),
}


class Reason(NamedTuple):
    """The reason why a node stays: the cause, the instances concerned, and the option that would help."""

    cause: str
    instances: tuple[str, ...] = ()
    option: str = ""

    def __str__(self) -> str:
        names = f": {first_names(self.instances)}" if self.instances else ""
        return f"{self.cause}{names}" + (f"; {self.option}" if self.option else "")


def unchanged_nodes(state: State, plan: PowerPlan, allowed: AllowedMoves) -> dict[str, str]:
    """Return why nodes are not powered down; where nodes are powered up, why other nodes stay off."""
    nodes = state.cluster.nodes
    if plan.action is Action.ONLINE:
        ready = set(candidates.online_candidates(state).tolist())
        return {
            node.name: "is not needed" if row in ready else _unavailable(node)
            for row, node in enumerate(nodes)
            if node.offline and row not in plan.nodes
        }
    return {nodes[row].name: str(reason) for row, reason in _reasons(state, plan, allowed)}


def refusals(state: State, plan: PowerPlan, allowed: AllowedMoves) -> list[str]:
    """Return why no node can be powered down: each cause with its nodes, the instances, and the option."""
    causes: dict[tuple[str, str], tuple[list[str], dict[str, None]]] = {}
    for row, (cause, instances, option) in _reasons(state, plan, allowed):
        nodes, names = causes.setdefault((cause, option), ([], {}))
        nodes.append(state.cluster.nodes[row].name)
        names |= dict.fromkeys(instances)
    return [
        f"{first_names(nodes)}: {Reason(cause, tuple(names), option)}"
        for (cause, option), (nodes, names) in causes.items()
    ]


def _reasons(state: State, plan: PowerPlan, allowed: AllowedMoves) -> Iterator[tuple[int, Reason]]:
    """Yield the nodes that a plan does not power down, with the reasons."""
    causes = (
        dict(plan.obstacles) | _rooted(state, allowed) | candidates.obstacles_to_power_down(state, allowed)
    )
    for row in range(len(state.group)):
        if row not in plan.nodes:
            yield row, _reason(state, row, causes.get(row, "nothing would be gained"), allowed)


def _reason(state: State, row: int, cause: str, allowed: AllowedMoves) -> Reason:
    """Add the instances and the option to a cause."""
    settled, rows = ~state.forthcoming, state.cluster.instances
    here = np.flatnonzero((state.pnode == row) & settled).tolist()
    primaries = [rows[index] for index in here]
    if cause == OWN_STORAGE:
        own = [each for each in primaries if each.template in _OWN[allowed]]
        less = all(each.template is DiskTemplate.DRBD for each in own)
        option = "--allow-drbd" if less else "--allow-all"
        return Reason(cause, tuple(each.name for each in own), f"{option} moves them")
    if cause == DISKLESS:
        names = tuple(each.name for each in primaries if each.template is DiskTemplate.DISKLESS)
        return Reason(cause, names)
    if cause == MIRRORS:
        mirrors = np.flatnonzero((state.snode == row) & settled).tolist()
        return Reason(cause, tuple(rows[index].name for index in mirrors), _OPTIONS[cause])
    if cause not in (power_group.NO_ROOM, power_group.NO_PLACE):
        return Reason(cause, (), _OPTIONS.get(cause, ""))
    for index in here:
        if why := placement_rules.reason_to_stay(state, index, sets=True):
            return Reason(f"instance {rows[index].name} stays: {why}")
    return Reason(cause, tuple(each.name for each in primaries), _OPTIONS.get(cause, ""))


def _unavailable(node: Node) -> str:
    """Return why an offline node is no candidate for powering up."""
    if node.in_maintenance:
        return "is in maintenance"
    return "is drained" if node.drained and standby(node.tags) else "has no standby tag"


def _rooted(state: State, allowed: AllowedMoves) -> dict[int, str]:
    """Return why candidates are never empty. (Debian's hsqueeze takes these nodes for candidates too.)"""
    reasons: dict[int, str] = {}
    for row, instance in zip(state.pnode.tolist(), state.cluster.instances, strict=True):
        if instance.template is DiskTemplate.DISKLESS:
            reasons.setdefault(row, DISKLESS)
        elif instance.template is DiskTemplate.FILE and allowed is not AllowedMoves.ALL:
            reasons[row] = OWN_STORAGE
    return reasons


def least_free(plan: PowerPlan) -> dict[str, int]:
    """Return for each group the least memory (MiB) that any of its online nodes has free after the plan."""
    state, columns = plan.state, plan.state.columns
    free: dict[str, int] = {}
    for row, group in enumerate(state.cluster.groups):
        online = (state.group == row) & ~columns.offline
        if online.any():
            free[group.name] = int(columns.unallocated[online].min())
    return free
