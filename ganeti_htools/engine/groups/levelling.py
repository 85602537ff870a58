"""Load balanced between node groups (``hregroup(1)``, balance)."""

from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.groups.loads import group_loads
from ganeti_htools.engine.groups.outcome import Progress, RegroupingLimits, RegroupingOutcome
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.routes import copied_on_leaving, nodes_after, route_out
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.model.columns import Bools, Ints
from ganeti_htools.model.state import State

# What a move has to gain is asked on clusters of so many instances; on larger ones proportionally less, for
# there an instance is less of the load.
USUAL = 100

# Less is rounding: where the groups are nearly even, roots of small differences are taken.
LEAST = 1e-6

# Gains are the same if so many decimals are.
CLOSE = 7


def level(
    state: State, rules: RegroupingRules, limits: RegroupingLimits, min_gain: float, progress: Progress
) -> RegroupingOutcome:
    """Move instances from the most loaded groups to where the score drops most, while one gains enough.

    An instance that is to go on from where it went goes there at once; so another run would find nothing.
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
    """The cluster once no move gains enough; ``again``: what has moved since the start may move on."""
    search = _Search(
        start,
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
            search.vain[:] = False  # what was in vain may have become possible
            after = search.step(now, again)
        if after is None:
            return now
        now = after
        progress(f"{len(now.moved)} moves")


def _rows(now: Regrouping) -> range:
    return range(len(now.state.pnode))


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for moves.

    ``movable`` are instances (a mask), ``copied`` is what each copies to change its group (MiB), ``least``
    what a move has to gain. ``vain`` are moves that were tried in vain (instances by groups).
    """

    start: Regrouping
    limits: RegroupingLimits
    least: float
    movable: Bools
    copied: Ints
    vain: Bools

    def step(self, now: Regrouping, again: bool) -> Regrouping | None:
        """The cluster after the move that gains most of those from the most loaded group that has any.

        Of those that gain the same it is what copies least.
        """
        loads, state = group_loads(now.state, now.rules.groups), now.state
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
                after = self._made(now, index, target)
                if after is not None:
                    self.vain[:, [group, target]] = False
                    return after
                self.vain[index, target] = True
        return None

    def _allowed(self, now: Regrouping) -> Bools:
        """Which instances may change their group within the limits; what has done so may do it again."""
        before, after = self.start.state, now.state
        away: Bools = before.group[before.pnode] != after.group[after.pnode]
        allowed = np.ones_like(away)
        if self.limits.moves >= 0:
            allowed &= away | (np.count_nonzero(away) < self.limits.moves)
        if self.limits.copy >= 0:
            allowed &= away | (self.copied[away].sum() + self.copied <= self.limits.copy)
        return allowed

    def _made(self, now: Regrouping, index: int, group: int) -> Regrouping | None:
        """The cluster with an instance in another group that is healthy, and no group worse; else None.

        Groups of the last resort take none: it has a place where it is.
        """
        if group not in now.targets(index) or now.last_resort(group) or not now.diagnosis(group).good:
            return None
        way = now.route_to(index, group)
        return None if way is None else now.after_moving(index, way)


def _straight(start: Regrouping, after: Regrouping) -> Regrouping | None:
    """The cluster with each instance straight where it is in the end; None if they cannot all go so.

    What has come back to its group stays where it was.
    """
    now, last = start, reversed([each.instance for each in after.moved])
    left = [row for row in dict.fromkeys(last) if start.group_of(row) != after.group_of(row)][::-1]
    while left:
        stuck = list[int]()
        for index in left:
            made = now.after_moving(index, route_out(start.state, index, nodes_after(after.state, index)))
            now, stuck = (now, [*stuck, index]) if made is None else (made, stuck)
        if stuck == left:
            return None
        left = stuck
    return now
