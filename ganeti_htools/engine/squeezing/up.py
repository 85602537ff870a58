"""Which standby nodes of a group are needed (``hsqueeze(1)``)."""

from ganeti_htools.engine.squeezing.candidates import online_candidates
from ganeti_htools.engine.squeezing.down import power_down
from ganeti_htools.engine.squeezing.power_group import PowerGroup
from ganeti_htools.engine.squeezing.power_plan import Action, Phase, PowerPlan, Progress


def power_up(group: PowerGroup, progress: Progress) -> PowerPlan:
    """As many of the candidates, in order, as it takes; all if that is not enough either.

    Those of them that could be powered down at once again are left out.
    """
    possible = group.of(online_candidates(group.state))
    for count in range(len(possible) + 1):
        progress(count, len(possible) + 1)
        nodes = tuple(possible[:count])
        last = count == len(possible)
        if group.hopeless(nodes, False, group.minimum) and not last:
            continue
        state, steps = group.balanced(nodes, False)
        enough = group.leaves(state, group.minimum)
        if enough or last:
            found = PowerPlan(Action.ONLINE, (Phase(nodes, steps),), state, enough)
            return _without_idle(group, found) if enough else found
    raise AssertionError("the last round returns")


def _without_idle(group: PowerGroup, found: PowerPlan) -> PowerPlan:
    """A plan that powers nodes up, without those that could be powered down again once it is made."""
    idle = power_down(group.then(found.state), lambda _a, _b: None).nodes
    nodes = tuple(node for node in found.nodes if node not in idle)
    if len(nodes) == len(found.nodes):
        return found
    state, steps = group.balanced(nodes, False)
    enough = group.leaves(state, group.minimum)
    return PowerPlan(Action.ONLINE, (Phase(nodes, steps),), state) if enough else found
