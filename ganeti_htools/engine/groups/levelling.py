"""Balance load between node groups (``hregroup(1)``, balance)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ganeti_htools.engine.groups.outcome import Progress, RegroupingLimits, RegroupingOutcome
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.routes import copied_on_leaving, route_out
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.model.cluster import Load
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints
from ganeti_htools.model.hour_sums import MeasuredLoads
from ganeti_htools.model.state import State

# Distance from the mean at which a relative load is an outlier.
OUTLYING = 0.2

DYNAMIC: tuple[str, ...] = ("cpu", "mem", "dsk", "net")
STATIC: tuple[str, ...] = ("vcpus", "memory")

# By component, the weight of an instance with two nodes.
DISKS_TWICE = np.array([[1], [1], [2], [1]])


def has_dynamic_load(state: State) -> bool:
    """Whether any load differs from the default or was measured."""
    if state.load is not None:
        return True
    usual = Load()
    differing = (state.figures.values["load"] != (usual.cpu, usual.mem, usual.dsk, usual.net)).any()
    return bool(differing) or any(node.cpu_load is not None for node in state.cluster.nodes)


@dataclass(frozen=True)
class GroupLoads:
    """Loads of groups with online nodes (rows), components by groups, and each instance's contribution.

    ``mine`` is by components and instances. Capacities are CPUs times their speed, MiB, and 1 for each
    node.
    """

    names: tuple[str, ...]
    groups: tuple[int, ...]
    loads: Floats
    capacities: Floats
    mine: Floats

    @cached_property
    def means(self) -> Floats:
        """The load of all groups over their capacity, by component; 0 without capacity."""
        loads, capacities = self.loads.sum(axis=1), self.capacities.sum(axis=1)
        means: Floats = np.divide(loads, capacities, out=np.zeros_like(loads), where=capacities > 0)
        return means

    @cached_property
    def counted(self) -> Floats:
        """The weight of each component in the score: 1 over the number of components with load, or 0."""
        loaded: Floats = (self.means > 0).astype(np.float64)
        loaded /= max(1.0, float(loaded.sum()))
        return loaded

    @cached_property
    def weights(self) -> Floats:
        """Each group's share of the capacity (components by groups)."""
        total = self.capacities.sum(axis=1, keepdims=True)
        weights: Floats = np.divide(
            self.capacities, total, out=np.zeros_like(self.capacities), where=total > 0
        )
        return weights

    @cached_property
    def scale(self) -> Floats:
        """The relative load that a load of 1 adds to each group (components by groups)."""
        usual = self.capacities * self.means[:, np.newaxis]
        scale: Floats = np.divide(1.0, usual, out=np.zeros_like(usual), where=usual > 0)
        return scale

    @cached_property
    def relative(self) -> Floats:
        """The relative load of each group (components by groups); 1 without any capacity or load."""
        relative: Floats = np.where(self.scale > 0, self.loads * self.scale, 1.0)
        return relative

    @property
    def overall(self) -> Floats:
        """The mean relative load of each group."""
        overall: Floats = self.counted @ self.relative
        return overall

    @property
    def _variances(self) -> Floats:
        spread: Floats = (self.weights * (self.relative - 1) ** 2).sum(axis=1)
        return spread

    @property
    def score(self) -> float:
        """The unevenness: mean spread of the components."""
        return float(self.counted @ np.sqrt(self._variances))

    def gains(self, instances: Ints, source: int) -> Floats:
        """Compute the drop of the score if an instance leaves a group (by position) for each other one.

        Instances by groups, 0 for its own group; exact but for the last place of rounding.
        """
        added = self.mine[:, instances, np.newaxis]
        away, here = self.relative - 1, self.relative[:, source, np.newaxis, np.newaxis] - 1
        less = self.weights[:, source, np.newaxis, np.newaxis] * _change(
            here, -added * self.scale[:, source, np.newaxis, np.newaxis]
        )
        more = self.weights[:, np.newaxis] * _change(away[:, np.newaxis], added * self.scale[:, np.newaxis])
        after = np.sqrt(np.maximum(self._variances[:, np.newaxis, np.newaxis] + less + more, 0))
        gains: Floats = self.score - np.tensordot(self.counted, after, axes=1)
        gains[:, source] = 0
        return gains

    def after(self, state: State) -> "GroupLoads":
        """Compute the loads of a later state, in which instances have moved."""
        return replace(self, loads=_loads(state, self.names, self.mine, self.groups))

    @property
    def outliers(self) -> list[tuple[int, str]]:
        """Groups (rows), each with a component in which its relative load is far from the mean."""
        return [
            (group, name)
            for name, loads in zip(self.names, self.relative.tolist(), strict=True)
            for group, load in zip(self.groups, loads, strict=True)
            if abs(load - 1) > OUTLYING
        ]


def _change(deviation: Floats, change: Floats) -> Floats:
    """Return the change of a deviation's square."""
    return change * (2 * deviation + change)


def group_loads(state: State, groups: frozenset[int]) -> GroupLoads:
    """Compute the loads of groups (rows): dynamic ones if any is known, else virtual CPUs and memory."""
    columns, up, values = state.columns, ~state.columns.offline, state.figures.values
    rows = tuple(group for group in sorted(groups) if (up & (state.group == group)).any())
    capacities = [columns.t_cpu * columns.cpu_speed, columns.t_mem, up, up]
    if state.load is not None:
        names, mine = DYNAMIC, _measured(state.load) * np.where(state.snode == NOWHERE, 1, DISKS_TWICE)
    elif has_dynamic_load(state):
        names, mine = DYNAMIC, values["load"].T * np.where(state.snode == NOWHERE, 1, DISKS_TWICE)
    else:
        names, mine = STATIC, np.array([values["vcpus"], values["record_mem"]], np.float64)
    mine = mine * ~values["forthcoming"]
    capacity = _by_group(state, [each * up for each in capacities[: len(names)]], rows)
    return GroupLoads(names, rows, _loads(state, names, mine, rows), capacity, mine)


def _measured(load: MeasuredLoads) -> Floats:
    """Return the mean over the hours of each instance's load (kinds by instances)."""
    found = np.zeros((len(DYNAMIC), load.hours.shape[1]))
    found[[DYNAMIC.index(kind) for kind in load.kinds]] = load.hours.mean(axis=-1)
    return found


def _loads(state: State, names: tuple[str, ...], mine: Floats, rows: tuple[int, ...]) -> Floats:
    columns = state.columns
    if names is DYNAMIC and state.load is None:
        loads = [columns.load_cpu, columns.load_mem, columns.load_dsk, columns.load_net]
    else:
        loads = [np.bincount(state.pnode, amounts, len(state.group)).astype(np.float64) for amounts in mine]
    return _by_group(state, loads, rows)


def _by_group(state: State, figures: Sequence[Any], rows: tuple[int, ...]) -> Floats:
    """Sum figures of nodes by group (figures by groups)."""
    size, some = len(state.cluster.groups), list(rows)
    return np.array([np.bincount(state.group, figure, size)[some] for figure in figures])


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
