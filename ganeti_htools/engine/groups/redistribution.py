"""Unhealthy groups repaired with the room of others (``hregroup(1)``, redistribute)."""

from ganeti_htools.engine.groups.health import Health
from ganeti_htools.engine.groups.outcome import Limits, Outcome, Progress
from ganeti_htools.engine.groups.regrouping import Regrouping, Rules
from ganeti_htools.model.columns import sorted_unique
from ganeti_htools.model.state import State


def redistribute(state: State, rules: Rules, limits: Limits, progress: Progress) -> Outcome:
    """Repair each unhealthy group, the worst first; all or nothing for each."""
    now = Regrouping(state, rules)
    found = {
        group: now.health(group) for group in sorted_unique(state.group).tolist() if group in rules.groups
    }
    sick = sorted(
        (group for group, health in found.items() if not health.good), key=lambda g: _worst(found[g])
    )
    done, failed = [], []
    for number, group in enumerate(sick):
        progress(f"{number} of {len(sick)} groups")
        tried = now.copy()
        why = _repair(tried, group, frozenset(sick))
        if why is None and not limits.allow(state.cluster.instances, tried.moved):
            why = "the limits do not allow so many moves"
        if why is None:
            now = tried
            done.append(group)
        else:
            failed.append((group, why))
    return Outcome(now, tuple(done), tuple(failed))


def _worst(health: Health) -> tuple[int, ...]:
    return tuple(-count for count in health.rank)


def _repair(tried: Regrouping, group: int, sick: frozenset[int]) -> str | None:
    """Move instances out of a group until it is healthy; why that is not possible, if it is not."""
    while not (health := tried.health(group)).good:
        why = None
        for index in health.causes:
            why = tried.obstacle(index)
            if why is None and tried.leave(
                index, [each for each in tried.targets(index) if each not in sick]
            ):
                break
            name = tried.state.cluster.instances[index].name
            why = f"instance {name}: {why or 'no other group has room for it'}"
        else:
            return why
    return None
