"""What is told of a plan of ``hsqueeze``: why nodes stay, what is left free, how nodes are switched."""

from ganeti_htools.engine.squeezing import candidates
from ganeti_htools.engine.squeezing.power_plan import Action, Allowed, PowerPlan
from ganeti_htools.model.state import State
from ganeti_htools.model.tags import STANDBY_AUTO
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.hsqueeze import Options


def kept(state: State, plan: PowerPlan, options: Options) -> dict[str, str]:
    """Why nodes are not powered down, by their names; where nodes are powered up, why others stay off."""
    if plan.action is Action.ONLINE:
        asleep = candidates.online_candidates(state)
        return {
            node.name: "is not needed" if row in asleep else "has no standby tag"
            for row, node in enumerate(state.cluster.nodes)
            if node.offline and row not in plan.nodes
        }
    reasons = dict(plan.kept) | _rooted(state, options) | candidates.staying(state, options.allowed)
    return {
        node.name: reasons.get(row, "nothing would be gained")
        for row, node in enumerate(state.cluster.nodes)
        if row not in plan.nodes
    }


def _rooted(state: State, options: Options) -> dict[int, str]:
    """Why candidates are never empty: Debian's hsqueeze counts nodes with such instances as some, too."""
    reasons: dict[int, str] = {}
    for row, instance in zip(state.pnode.tolist(), state.cluster.instances, strict=True):
        if instance.template is DiskTemplate.DISKLESS:
            reasons.setdefault(row, "has diskless instances, which stay")
        elif instance.template is DiskTemplate.FILE and options.allowed is not Allowed.ALL:
            reasons[row] = candidates.OWN_STORAGE
    return reasons


def then_down(state: State, plan: PowerPlan) -> list[str]:
    """Which nodes are powered down once others have been powered up, as lines under a heading; no lines if
    there are none.
    """
    nodes = state.names(plan.replaced)
    return ["'Nodes to offline then, which are not needed any more'", *nodes] if nodes else []


def least_free(plan: PowerPlan) -> dict[str, int]:
    """The memory (MiB) that is free in the end on the online node of each group that has least of it."""
    state, columns = plan.state, plan.state.columns
    free: dict[str, int] = {}
    for row, group in enumerate(state.cluster.groups):
        online = (state.group == row) & ~columns.offline
        if online.any():
            free[group.name] = int(columns.unallocated[online].min())
    return free


def power_command(word: str, node: str) -> str:
    """The shell command that powers a node ``on`` or ``off``."""
    return f"gnt-node power -f {word} {node}"


def tag_command(node: str) -> str:
    """The shell command that marks a node as one that may be powered up again."""
    return f"gnt-node add-tags {node} {STANDBY_AUTO}"
