"""Reasons why a node group cannot be repaired, in words."""

from ganeti_htools.engine.groups.causes import causes
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.wording import some
from ganeti_htools.model.columns import NOWHERE, sorted_unique
from ganeti_htools.model.moves import MovePart, Operation


def in_the_way(now: Regrouping, group: int) -> str:
    """Return the reason why no further move helps an unhealthy group."""
    state, found = now.state, now.diagnosis(group)
    first = next(filter(None, causes(now, group)), [])
    verb = "fails" if len(found.failing) == 1 else "fail"
    nodes = "" if found.stranded else f"{some(state.names(found.failing))} {verb} N+1; "
    if not first:
        return f"{nodes}no instance can be moved that would help"
    return nodes + refused(now, min(first, key=lambda each: (each.lack, each.row)).row)


def refused(now: Regrouping, index: int) -> str:
    """Return the reason why no group takes an instance."""
    name, groups = now.state.cluster.instances[index].name, now.state.cluster.groups
    why = obstacle(now, index)
    if why is not None:
        return f"instance {name}: {why}"
    state, secondary = now.state, int(now.state.snode[index])
    if secondary != NOWHERE and state.columns.offline[state.pnode[index]]:
        fail = now.failure(index, [MovePart(Operation.FAILOVER)])
        if fail is not None:
            taker = state.cluster.nodes[secondary].name
            return f"instance {name}: its secondary {taker} cannot take it over ({fail.value})"
    full, ill, others = [groups[home].name for home in now.homes(index)], list[str](), list[str]()
    for group in sorted_unique(now.state.group).tolist():
        if group in now.homes(index) or group not in now.rules.groups:
            continue
        if (why := now.refusal(index, group)) is not None:
            others.append(why)
        else:
            (full if now.diagnosis(group).good else ill).append(groups[group].name)
    reasons = [f"no room in {some(full)}"]
    reasons += [f"{some(ill)} not healthy"] if ill else []
    return f"instance {name}: {'; '.join((*reasons, *dict.fromkeys(others)))}"


def obstacle(now: Regrouping, index: int) -> str | None:
    """Return the reason why an instance must not leave its group; None if it may."""
    if now.rules.groups.issuperset(now.homes(index)):
        return now.obstacle(index)
    return "its other node is in a group that is left out"
