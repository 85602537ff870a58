"""Load balanced between node groups (``hregroup(1)``, balance)."""

import numpy as np

from ganeti_htools.engine.groups.outcome import Limits, Outcome, Progress
from ganeti_htools.engine.groups.regrouping import Regrouping, Rules
from ganeti_htools.model.columns import Floats
from ganeti_htools.model.state import State


def loads(state: State, groups: list[int]) -> Floats:
    """The load of groups over their capacity (components by groups): CPU, memory, disk, network."""
    columns, up = state.columns, ~state.columns.offline
    capacities = (columns.t_cpu * columns.cpu_speed, columns.t_mem, np.ones(len(up)), np.ones(len(up)))
    sums = [
        [(load[state.group == group].sum(), capacity[up & (state.group == group)].sum()) for group in groups]
        for load, capacity in zip(
            (columns.load_cpu, columns.load_mem, columns.load_dsk, columns.load_net), capacities, strict=True
        )
    ]
    return np.array([[load / capacity if capacity else 0.0 for load, capacity in row] for row in sums])


def unevenness(shares: Floats) -> float:
    """The standard deviations over groups, each over the mean, added up; 0 is perfectly even."""
    means = shares.mean(axis=1)
    return float(np.divide(shares.std(axis=1), means, out=np.zeros_like(means), where=means > 0).sum())


def level(state: State, rules: Rules, limits: Limits, min_gain: float, progress: Progress) -> Outcome:
    """Move instances from the most loaded group to where the score drops most, while one gains enough."""
    now = Regrouping(state, rules)
    groups = sorted(rules.groups)
    while True:
        score = unevenness(loads(now.state, groups))
        progress(f"{len(now.moved)} moves, score {score:.8f}")
        best = None
        worst = groups[int(loads(now.state, groups).sum(axis=0).argmax())]
        moved = {each.instance for each in now.moved}
        here = np.flatnonzero(now.state.group[now.state.pnode] == worst).tolist()
        for index in here:
            if index in moved or now.obstacle(index) is not None:
                continue
            for place in now.places(index, now.targets(index)):
                tried = now.copy()
                if tried.make(index, place.parts) and limits.allow(state.cluster.instances, tried.moved):
                    after = unevenness(loads(tried.state, groups))
                    if score - after >= min_gain and (best is None or after < best[0]):
                        best = after, tried
        if best is None:
            return Outcome(now)
        now = best[1]
