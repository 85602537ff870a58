"""Balance load between node groups (``hregroup(1)``, balance)."""

from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.groups.loads import GroupLoads, group_loads
from ganeti_htools.engine.groups.outcome import Progress, RegroupingLimits, RegroupingOutcome
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.routes import copied_on_leaving, route_out
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.model.columns import Bools, Ints
from ganeti_htools.model.state import State

# The minimal gain is for clusters of this many instances. On larger ones it is proportionally smaller, since
# an instance is a smaller part of the load.
USUAL = 100

# Smaller gains are rounding errors: nearly even groups have roots of small differences.
LEAST = 1e-6

# Decimals up to which gains count as equal.
CLOSE = 7


def level(
    state: State, rules: RegroupingRules, limits: RegroupingLimits, min_gain: float, progress: Progress
) -> RegroupingOutcome:
    """Move instances off the most loaded groups to where the score drops most, while a move gains enough.

    An instance that would move twice goes straight to its last place, so another run finds nothing.
    """
    start = now = Regrouping(state, rules)
    least = max(LEAST, min_gain * USUAL / max(USUAL, len(state.pnode)))
    while True:
        after = _levelled(start, now, limits, least, progress, again=True)
        if len({each.instance for each in after.moved}) == len(after.moved):
            return RegroupingOutcome(after)
        straight = _straight(start, after)
        if straight is None:
            return RegroupingOutcome(_levelled(start, start, limits, least, progress, again=False))
        now = straight


def _levelled(
    start: Regrouping,
    now: Regrouping,
    limits: RegroupingLimits,
    least: float,
    progress: Progress,
    again: bool,
) -> Regrouping:
    """Return the cluster when no move gains enough. ``again``: a moved instance may move once more."""
    search = _Search(
        start,
        group_loads(start.state, start.rules.groups),
        limits,
        least,
        np.array(
            [start.obstacle(row) is None and len(start.homes(row)) == 1 for row in _rows(start)], np.bool_
        ),
        np.array([copied_on_leaving(start.state, row) for row in _rows(start)], np.int64),
        np.zeros((len(start.state.pnode), len(start.state.cluster.groups)), np.bool_),
    )
    while True:
        after = search.step(now, again)
        if after is None and search.vain.any():
            search.vain[:] = False  # failed moves may have become possible
            after = search.step(now, again)
        if after is None:
            return now
        now = after
        progress(f"{len(now.moved)} moves")


def _rows(now: Regrouping) -> range:
    return range(len(now.state.pnode))


@dataclass(slots=True)
class _Search:
    """A search for moves.

    ``loads`` are those at the start. ``movable`` marks instances, ``copied`` is the MiB that each copies to
    change its group, ``least`` the gain a move needs. ``vain`` marks failed moves (instances by groups).
    """

    start: Regrouping
    loads: GroupLoads
    limits: RegroupingLimits
    least: float
    movable: Bools
    copied: Ints
    vain: Bools

    def step(self, now: Regrouping, again: bool) -> Regrouping | None:
        """Return the cluster after the best move off the most loaded group that has one, or None.

        Of equal gains the move that copies least wins.
        """
        loads, state = self.loads.after(now.state), now.state
        able = self.movable & self._allowed(now)
        if not again:
            able[[each.instance for each in now.moved]] = False
        for source in np.argsort(-loads.overall, kind="stable").tolist():
            group = loads.groups[source]
            rows = np.flatnonzero(able & (state.group[state.pnode] == group))
            gains = np.where(self.vain[rows][:, list(loads.groups)], 0, loads.gains(rows, source))
            enough = np.flatnonzero(gains.ravel() >= self.least)
            copied = self.copied[rows[enough // len(loads.groups)]]
            for at in enough[np.lexsort((copied, -gains.ravel()[enough].round(CLOSE)))].tolist():
                index, target = int(rows[at // len(loads.groups)]), loads.groups[at % len(loads.groups)]
                after = self._after_move(now, index, target)
                if after is not None:
                    self.vain[:, [group, target]] = False
                    return after
                self.vain[index, target] = True
        return None

    def _allowed(self, now: Regrouping) -> Bools:
        """Mark the instances that the limits allow to change their group; a moved instance may move again."""
        before, after = self.start.state, now.state
        away: Bools = before.group[before.pnode] != after.group[after.pnode]
        allowed = np.ones_like(away)
        if self.limits.moves >= 0:
            allowed &= away | (np.count_nonzero(away) < self.limits.moves)
        if self.limits.copy >= 0:
            allowed &= away | (self.copied[away].sum() + self.copied <= self.limits.copy)
        return allowed

    def _after_move(self, now: Regrouping, index: int, group: int) -> Regrouping | None:
        """Return the cluster with an instance in another healthy group and no group worse, or None.

        Groups of the last resort take none, since the instance has a place.
        """
        if group not in now.targets(index) or now.last_resort(group) or not now.diagnosis(group).good:
            return None
        way = now.route_to(index, group)
        return None if way is None else now.after_moving(index, way)


def _straight(start: Regrouping, after: Regrouping) -> Regrouping | None:
    """Return the cluster with each moved instance moved once, to its last place; None if that fails.

    An instance that came back to its group stays where it was.
    """
    now, last = start, reversed([each.instance for each in after.moved])
    left = [row for row in dict.fromkeys(last) if start.group_of(row) != after.group_of(row)][::-1]
    while left:
        stuck = list[int]()
        for index in left:
            made = now.after_moving(index, route_out(start.state, index, after.state.nodes_of(index)))
            now, stuck = (now, [*stuck, index]) if made is None else (made, stuck)
        if stuck == left:
            return None
        left = stuck
    return now
