"""Whether the instances of a lost node find room, when many placements are tried on one state.

The twin of :func:`.node_loss.recover` for what does not fail over, with the same choices: one instance after
the other goes where the nodes are best balanced then. What an instance changes on a node is the same
whatever else is there (``proportional`` components), so it is found out once, by :mod:`.node_rules`, and
remembered; each step is then a few operations on small arrays. Restated are the hard limits of
``node_rules.add_primary`` and its N+1 rule; a property test compares with :func:`.node_loss.recover`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ganeti_htools.engine.rules import affinity, choice, instance_policy, node_rules
from ganeti_htools.engine.rules.components import (
    AGGREGATES,
    CLUSTER,
    COMPONENTS,
    CROWDING,
    INDEX,
    LOST,
    SPREAD,
    WEIGHTS,
)
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.resources import DISK, MEMORY, SPINDLES, check_hard
from ganeti_htools.engine.rules.score import node_values
from ganeti_htools.model.cluster import MAX_MIB, Instance
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints
from ganeti_htools.model.state import Asked, State

N1, TAGS, LOCATION = INDEX["n1_cnt"], INDEX["pri_tags_score"], INDEX["location_score"]
# What a primary changes in other ways than in proportion; reserved memory it leaves as it is.
_UNKNOWN = [
    each.name
    for which, each in enumerate(COMPONENTS)
    if not each.proportional and which not in (N1, TAGS, LOCATION, CROWDING) and each.figures != ("r_mem",)
]
if _UNKNOWN:
    raise ValueError(f"the simulation of lost nodes does not know what changes {', '.join(_UNKNOWN)}")

# What _Room keeps account of; these are all hard limits there are.
check_hard((MEMORY, DISK, SPINDLES), "the simulation of lost nodes")

# More than so many instances are not remembered.
ENOUGH = 50_000


@dataclass(frozen=True, slots=True)
class Arrival:
    """What an instance changes on each node to which it comes as primary.

    ``spreads`` has a row for each component that is a spread, 0 where the node does not count; ``counts``
    are the weighted changes of the sums. ``allowed`` tells where policies admit it, ``welcome`` whether
    they do everywhere.
    """

    spreads: Floats
    squares: Floats
    counts: Floats
    allowed: Bools
    welcome: bool


@dataclass(slots=True)
class Arrivals:
    """What instances change, by what they need; it holds for all states with the same nodes and policies."""

    needs: dict[Any, Arrival] = field(default_factory=dict)
    rows: dict[int, tuple[Instance, Asked, Any]] = field(default_factory=dict)

    def tidy(self) -> None:
        """Forget everything if it is too much."""
        if max(len(self.needs), len(self.rows)) > ENOUGH:
            self.needs, self.rows = {}, {}

    def asked(self, state: State, index: int) -> tuple[Asked, Any]:
        """The instance of a row, and what it needs."""
        row = state.cluster.instances[index]
        known = self.rows.get(id(row))
        if known is None or known[1].index != index:
            asked = state.instance(index)
            need = asked.needs, row.template.survives_node, row.demand
            known = self.rows[id(row)] = row, asked, need  # kept, so that no other has its identity
        return known[1:]


@dataclass(frozen=True, slots=True)
class _Score:
    """How the score is made up; components that are one object are one row, with the sum of their weights."""

    rows: tuple[int, ...]
    weights: Floats


def _made_up(values: Sequence[Any]) -> _Score:
    weights: dict[int, float] = {}
    first: dict[int, int] = {}
    for which, aggregate in enumerate(AGGREGATES):
        if aggregate is SPREAD:
            row = first.setdefault(id(values[which]), which)
            weights[row] = weights.get(row, 0.0) + WEIGHTS[which]
    return _Score(tuple(weights), np.array(list(weights.values())))


def _spreads(score: _Score, values: Sequence[Any], online: Bools) -> Floats:
    """The nodes' values of the components that are spreads, 0 for offline nodes."""
    table = np.empty((len(score.rows), len(online)))
    for row, which in zip(table, score.rows, strict=True):
        row[:] = values[which]
    table[:, ~online] = 0.0
    return table


def _arrival(state: State, asked: Asked, score: _Score, values: Sequence[Any], online: Bools) -> Arrival:
    columns = state.columns
    new, _ = node_rules.add_primary(columns, asked, 0, 0, force=True)
    then = node_values(new, (columns, values))
    spreads = _spreads(score, then, online) - _spreads(score, values, online)
    counts = np.zeros(len(online))
    for which, (component, aggregate) in enumerate(zip(COMPONENTS, AGGREGATES, strict=True)):
        if component.proportional and aggregate not in (SPREAD, CLUSTER):
            counted = ~online if aggregate is LOST else online
            counts += np.where(counted, WEIGHTS[which] * (then[which] - values[which]), 0.0)
    allowed = np.ones(len(online), np.bool_)
    if not asked.row.template.survives_node:
        allowed = instance_policy.codes(state, asked, np.arange(len(online))) == FITS
    return Arrival(spreads, spreads * spreads, counts, allowed, bool(allowed.all()))


class _Balance:
    """The variances of the components that are spreads, and what each changed value makes of them."""

    def __init__(self, values: Floats, counted: Bools) -> None:
        self.number = number = float(np.count_nonzero(counted))
        self.variances = np.zeros(len(values))
        if number:
            counting = values[:, counted]
            sums = counting.sum(axis=1)
            centred = counting - (sums / number)[:, np.newaxis]
            self.variances = (centred * centred).sum(axis=1) / number
            # A value x that becomes x + d adds d * slope + d * d * bend to the variance.
            self.slopes = 2 / (number * number) * (number * values - sums[:, np.newaxis])
            self.bend = (number - 1) / (number * number)

    def after(self, arrival: Arrival) -> Floats:
        """The variances (components in rows) with the instance on each node."""
        changes: Floats = arrival.spreads * self.slopes
        changes += self.bend * arrival.squares
        changes += self.variances[:, np.newaxis]
        np.maximum(changes, 0.0, out=changes)
        return changes

    def change(self, node: int, change: Floats) -> None:
        """The values of a node change."""
        self.variances = self.variances + change * (self.slopes[:, node] + self.bend * change)
        np.maximum(self.variances, 0.0, out=self.variances)
        self.slopes -= (2 / (self.number * self.number) * change)[:, np.newaxis]
        self.slopes[:, node] += 2 / self.number * change


class _Room:
    """What the nodes have left, of which ``reach`` may be used: the hard limits of ``node_rules``."""

    def __init__(self, state: State, reach: Bools) -> None:
        columns = state.columns
        self.reach = reach
        self.mem, self.disk, self.spindles = (
            columns.unallocated,
            columns.f_dsk.copy(),
            columns.f_spindles.copy(),
        )
        self.exclusive = columns.excl_stor if columns.excl_stor[reach].any() else None

    def takes(self, asked: Asked) -> Bools:
        """The nodes with room for an instance."""
        fits: Bools = self.reach & (self.mem > asked.record_mem)
        if asked.local:
            fits &= self.disk > asked.dsk
            if self.exclusive is not None:
                fits &= ~self.exclusive | (self.spindles >= (asked.spindles or 0))
        return fits

    def place(self, asked: Asked, node: int) -> None:
        """Take what an instance needs off a node."""
        self.mem[node] -= asked.record_mem
        self.disk[node] -= asked.dsk if asked.local else 0
        if self.exclusive is not None and self.exclusive[node]:
            self.spindles[node] -= asked.spindles or 0

    def surely_take(self, number: int, mem: int, disk: int) -> bool:
        """Whether instances, none larger than this, find room wherever they go: each on a node of its own."""
        return int(np.count_nonzero(self.reach & (self.mem > mem) & (self.disk > disk))) >= number


def _largest(instances: Sequence[Asked]) -> list[tuple[int, int]]:
    """For each instance the most memory and disk that it or a later one takes (MiB)."""
    found, mem, disk = [], 0, -MAX_MIB
    for asked in reversed(instances):
        mem, disk = max(mem, asked.record_mem), max(disk, asked.dsk) if asked.local else disk
        found.append((mem, disk))
    return found[::-1]


def find_room(
    known: Arrivals, state: State, node: int, displaced: Sequence[int], scope: Bools
) -> bool | None:
    """Whether these instances of a lost node find room, in this order; the state is not changed.

    None if this cannot be told here: some node has no score, or an instance does not say how many spindles
    it needs and some node counts them. Those on shared storage have to come before all others.
    """
    known.tidy()
    columns, online = state.columns, ~state.columns.offline
    mates = scope & (state.group == state.group[node])
    asked_for = [known.asked(state, index) for index in displaced]
    instances = [asked for asked, _ in asked_for]
    if columns.excl_stor[mates].any() and any(asked.spindles is None for asked in instances):
        return None
    if any(len(asked.tags) for asked in instances):
        counts = state.tag_counts.copy(), state.settled_tag_counts.copy()
        state = replace(state, tag_counts=counts[0], settled_tag_counts=counts[1])
    base = node_values(columns)
    score = _made_up(base)
    values = _spreads(score, base, online)
    if not np.isfinite(values).all():
        return None
    arrivals = []
    for asked, need in asked_for:
        arrival = known.needs.get((need, score.rows))
        if arrival is None:
            arrival = known.needs[need, score.rows] = _arrival(state, asked, score, base, online)
        arrivals.append(arrival)
    reach = mates.copy()
    reach[node] = False
    room, largest = _Room(state, reach), _largest(instances)
    free = state.migrates is None and room.exclusive is None and all(each.welcome for each in arrivals)
    number, failing = columns.primaries + columns.secondaries, base[N1] + 0.0
    balance: _Balance | None = None
    moving: bool | None = None
    for at, (asked, arrival) in enumerate(zip(instances, arrivals, strict=True)):
        if free and room.surely_take(len(instances) - at, *largest[at]):
            return True
        moves_on = asked.row.template.survives_node
        fits = room.takes(asked) & arrival.allowed
        if moves_on and state.migrates is not None:
            fits &= state.migrates[node]
        places = np.flatnonzero(fits)
        if not len(places):
            return False
        counted = mates if moves_on else scope
        if len(places) == 1:  # no score is needed; the balance is computed anew when one is
            balance = None
        elif balance is None or moves_on is not moving:
            balance, moving = _Balance(values, counted & online), moves_on
        if not moves_on:  # what is recreated takes nothing off the lost node
            asked = replace(asked, index=NOWHERE) if len(asked.tags) else asked
        else:
            _shift(balance, values, node, -arrival.spreads[:, node])
        then = _failing(room.mem - asked.record_mem, columns.r_mem, number + 1)
        scores = np.zeros(len(fits))
        if balance is not None and balance.number:
            roots = balance.after(arrival)
            scores = score.weights @ np.sqrt(roots, out=roots)
            scores += arrival.counts
            scores += np.where(online, WEIGHTS[N1] * (then - failing) + _by_tags(state, asked), 0.0)
            if len(asked.tags):
                every = np.arange(len(fits))
                scores += WEIGHTS[CROWDING] * affinity.crowding_change(state, asked, every, counted)
        best = int(choice.near_best(np.where(fits, scores, np.inf))[-1])
        _shift(balance, values, best, arrival.spreads[:, best])
        room.place(asked, best)
        failing[best] = then[best]
        number[best] += 1
        for table in (state.tag_counts, state.settled_tag_counts) if len(asked.tags) else ():
            table[asked.tags, best] += 1
            table[asked.tags, node] -= moves_on
    return True


def _shift(balance: _Balance | None, values: Floats, node: int, change: Floats) -> None:
    if balance is not None and balance.number:
        balance.change(node, change)
    values[:, node] += change


def _failing(left: Ints, reserved: Ints, number: Ints) -> Any:
    """The instances of nodes that fail N+1."""
    return COMPONENTS[N1].formula(None, left <= reserved, number, 0)


def _by_tags(state: State, asked: Asked) -> Any:
    """What tags add to the score, for each node."""
    total: Any = 0.0
    if len(asked.tags):
        total = total + WEIGHTS[TAGS] * affinity.tag_conflicts(state, asked)
    if len(asked.desired) + asked.unknown_desires:
        total = total + WEIGHTS[LOCATION] * affinity.unmet_locations(state, asked)
    return total
