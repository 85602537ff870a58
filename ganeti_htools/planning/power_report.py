"""Facts about a plan of ``hsqueeze`` for its report: reasons of nodes that stay, least free memory."""

from ganeti_htools.engine.squeezing import candidates
from ganeti_htools.engine.squeezing.power_plan import Action, AllowedMoves, PowerPlan
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate


def unchanged_nodes(state: State, plan: PowerPlan, allowed: AllowedMoves) -> dict[str, str]:
    """Return why nodes are not powered down; where nodes are powered up, why other nodes stay off."""
    if plan.action is Action.ONLINE:
        standby = candidates.online_candidates(state)
        return {
            node.name: "is not needed" if row in standby else "has no standby tag"
            for row, node in enumerate(state.cluster.nodes)
            if node.offline and row not in plan.nodes
        }
    reasons = (
        dict(plan.obstacles) | _rooted(state, allowed) | candidates.obstacles_to_power_down(state, allowed)
    )
    return {
        node.name: reasons.get(row, "nothing would be gained")
        for row, node in enumerate(state.cluster.nodes)
        if row not in plan.nodes
    }


def _rooted(state: State, allowed: AllowedMoves) -> dict[int, str]:
    """Return why candidates are never empty. (Debian's hsqueeze takes these nodes for candidates too.)"""
    reasons: dict[int, str] = {}
    for row, instance in zip(state.pnode.tolist(), state.cluster.instances, strict=True):
        if instance.template is DiskTemplate.DISKLESS:
            reasons.setdefault(row, "has diskless instances, which stay")
        elif instance.template is DiskTemplate.FILE and allowed is not AllowedMoves.ALL:
            reasons[row] = candidates.OWN_STORAGE
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
