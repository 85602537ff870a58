"""Rebalancing to the end where all that moves is on storage that every node sees: the same steps, sooner.

To find which nodes can be powered down, small clusters are balanced many times over, and each of
:func:`.balance.rebalance`'s steps has a price that does not depend on the size of the cluster. Such an
instance changes a node only by adding to, or taking from, a few columns; so here a state is a small table,
and a step a few operations on it. What decides is the same: candidates whose scores are too close to tell
apart are scored afresh, by the same functions.

What instances change follows from :mod:`ganeti_htools.engine.rules.resources`, what that does to the score
from :mod:`ganeti_htools.engine.rules.components`. Only the limits of a primary without disks stand here
again, in :meth:`Table.scores`: their twins are ``LIMITS`` in the former. Tests compare these with the rules,
and all steps and states with :func:`.balance.rebalance`.
"""

from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.balancing.balance import Step, score_of
from ganeti_htools.engine.balancing.batches import Batch, batches_of
from ganeti_htools.engine.rules import node_rules
from ganeti_htools.engine.rules.components import COMPONENTS, COUNT, SPREAD, Aggregate
from ganeti_htools.engine.rules.move_kinds import MoveKind
from ganeti_htools.engine.rules.resources import (
    CPU_RATIO,
    MEMORY,
    PRIMARY,
    RESERVE,
    RESOURCES,
    TAGS,
    Change,
)
from ganeti_htools.engine.rules.score import node_values, variants
from ganeti_htools.model import tags
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Floats, Ints
from ganeti_htools.model.state import State

# The columns that an instance may change for which there are rules here. Conflicts of tags are none of them.
FIGURES = ("i_mem", "u_cpu", "f_mem_forth", "load_cpu", "load_mem", "load_dsk", "load_net", "primaries")
assert {limit for limit, _ in node_rules.limits(PRIMARY, False, False, False)} == {
    MEMORY,
    RESERVE,
    CPU_RATIO,
    TAGS,
}
(_FAILING,) = (
    component
    for component in COMPONENTS
    if component.aggregate is COUNT and {"fail_n1", *FIGURES}.intersection(component.figures)
)
assert (_FAILING.name, _FAILING.weight) == ("n1_cnt", 1.0)

# What an instance on an offline node adds to the score.
LOST: float = sum(
    component.weight * component.formula(None, *(figure == "primaries" for figure in component.figures))
    for component in COMPONENTS
    if component.aggregate is Aggregate.LOST
)
# Scores closer than this are not told apart by the table.
CLOSE = 3e-8
# By so much a column is changed to see what that does to a score. Dividing by it costs no precision.
_MUCH = 2.0**20


@dataclass(frozen=True, slots=True)
class SharedInstances:
    """The instances that move (``rows``), all on storage that every node sees.

    ``changes`` are what each adds to columns of the node it comes to; columns that are one object are there
    once. ``alike`` numbers instances that change the same.
    """

    batch: Batch | None
    rows: Ints
    changes: dict[str, Floats]
    alike: Ints


def shared_instances(state: State, movable: Bools) -> SharedInstances | None:
    """The instances that balancing would move, None if there are rules that this module does not know."""
    columns, cluster = state.columns, state.cluster
    if (
        state.forthcoming.any()
        or columns.excl_stor.any()
        or state.migrates is not None
        or state.tag_rows
        or state.location_rows
        or any(tag.startswith(tags.DESIRED_LOCATION) for tag in cluster.tags)
    ):
        return None
    auto = np.array([instance.auto_balance for instance in cluster.instances], np.bool_)
    batches, _ = batches_of(state, movable & auto)
    if not batches:
        nobody = np.zeros(0, np.int64)
        return SharedInstances(None, nobody, dict.fromkeys(_distinct(columns), np.zeros(0)), nobody)
    batch = batches[0]
    if len(batches) > 1 or (state.snode[batch.rows] != NOWHERE).any():
        return None
    here, change, nothing = (
        columns.take(state.pnode[batch.rows]),
        Change(batch.asked),
        np.zeros(len(batch.rows)),
    )
    added = {
        resource.figure: np.asarray(
            resource.after(here, nothing, resource.amount(here, change), 1), np.float64
        )
        for resource in RESOURCES
        if PRIMARY in resource.roles
    }
    if any(amounts.any() for figure, amounts in added.items() if figure not in FIGURES):
        return None
    changes = {figure: added[figure] for figure in _distinct(columns)}
    alike = np.unique(np.array(list(changes.values())), axis=1, return_inverse=True)[1].ravel()
    return SharedInstances(batch, batch.rows, changes, alike)


def _distinct(columns: Columns) -> list[str]:
    """The first of FIGURES for each column."""
    first: dict[int, str] = {}
    for figure in FIGURES:
        first.setdefault(id(getattr(columns, figure)), figure)
    return list(first.values())


def regular(state: State, scope: Bools) -> bool:
    """Whether all online nodes in scope report figures that can be divided by, and there is one."""
    columns = state.columns
    divisors = {name for component in COMPONENTS for name in component.divisors}
    figures = np.array([getattr(columns, name) for name in divisors])[:, scope & ~columns.offline]
    return bool(figures.size and (figures > 0).all())


def rebalance(state: State, scope: Bools, instances: SharedInstances) -> tuple[State, list[Step]]:
    """The state after balancing the nodes in scope to the end, and the steps (their scores to about 1e-9).

    The instances are all in scope.
    """
    table = Table(state.copy(), scope, instances)
    rest = score_of(state, scope) - table.score()  # does not change
    steps = []
    while (found := table.best()) is not None:
        table.move(*found)
        row, node = int(instances.rows[found[0]]), int(table.nodes[found[1]])
        steps.append(Step(row, MoveKind.FAILOVER_TO, node, node, NOWHERE, table.score() + rest))
    return table.settled(), steps


class Table:
    """The online nodes and the place of each instance among them, NOWHERE if its node is offline.

    Of each spread of the score (components that are the same put together): its weight, its ``values``
    (spreads by nodes), and the ``units`` by which these change with a column; ``amounts`` (spreads by
    instances) are what instances change of that column. What limits look at stands in ``room``: free memory,
    CPUs used and free memory with all instances counted, each by nodes; ``needs`` is what instances change
    of it.
    """

    def __init__(self, state: State, scope: Bools, instances: SharedInstances) -> None:
        columns = state.columns
        self.state, self.scope, self.instances = state, scope, instances
        self.nodes = np.flatnonzero(scope & ~columns.offline)
        position = np.full(len(columns.offline), NOWHERE)
        position[self.nodes] = np.arange(len(self.nodes))
        self.place = position[state.pnode[instances.rows]]
        here = columns.take(self.nodes)
        figures, weights, self.values, self.units = _spreads(here, list(instances.changes))
        changes = instances.changes
        self.weights, self.amounts = np.array(weights), np.array([changes[figure] for figure in figures])
        self.needs = np.array([-changes["i_mem"], changes["u_cpu"], changes["f_mem_forth"]])
        self.room = np.array([here.unallocated, here.u_cpu, here.f_mem_forth], np.float64)
        self.reserved, self.failing = here.r_mem, here.fail_n1
        self.count = here.primaries + here.secondaries
        self.most, self.cpus = here.vcpu_ratio, here.t_cpu
        self.unsettled: list[tuple[int, int]] = []  # steps that the real state lacks
        self._note()

    def _note(self) -> None:
        """The spreads around their means, and the score of this table."""
        number = len(self.nodes)
        heights = self.values - np.add.reduce(self.values, axis=1, keepdims=True) / number
        self.heights = heights
        self.variances = np.add.reduce(heights * heights, axis=1) / number
        self.n1 = np.where(self.failing, self.count, 0)
        self.current = float(self.weights @ np.sqrt(self.variances) + self.n1.sum())

    def best(self) -> tuple[int, int] | None:
        """The instance and the position of the node that leave the lowest score, None if none lowers it."""
        lost = np.flatnonzero(self.place == NOWHERE)
        found: list[tuple[Ints, Floats, float]] = []
        if len(lost):
            rows = self._unlike(lost)
            scores = self.scores(rows, True)
            found.append((rows, scores, -LOST))
        # However even the others might make it all, they do not bring a lost instance back.
        if not found or not found[0][1].min(initial=np.inf) - LOST + CLOSE < 0:
            rows = self._unlike(np.flatnonzero(self.place != NOWHERE))
            found.append((rows, self.scores(rows, False), 0.0))
        lowest = min(float(scores.min(initial=np.inf)) + bonus for _, scores, bonus in found)
        if lowest == np.inf:
            return None
        slack = CLOSE * (1.0 + abs(lowest))
        near = [
            (int(rows[i]), int(node))
            for rows, scores, bonus in found
            for i, node in np.argwhere(scores + bonus <= lowest + slack).tolist()
        ]
        clear = abs(lowest - self.current) > slack
        if clear and lowest > self.current:
            return None
        if clear and len(near) == 1:
            return near[0]
        best, score = self._exactly(near)
        gains = clear or score < score_of(self.state, self.scope)
        return best if gains else None

    def _unlike(self, members: Ints) -> Ints:
        """Of members that are alike and in the same place the first; all offline nodes are one place."""
        keys = self.instances.alike[members] * (len(self.nodes) + 1) + self.place[members]
        return np.sort(members[np.unique(keys, return_index=True)[1]])

    def scores(self, members: Ints, forced: bool) -> Floats:
        """The part of the table in the score for each member on each node; infinite where it must not be.

        The limits are those of :func:`.node_rules.add_primary`: memory above 0 and, unless the member leaves
        an offline node (``forced``), N+1, the ratio of CPUs and memory with all instances counted.
        """
        amounts = self.amounts[:, members]
        memory, vcpus, promised = self.needs[:, members]
        free, used, unpromised = self.room
        change = amounts[:, :, np.newaxis] * self.units[:, np.newaxis]
        square = change * (change + 2 * self.heights[:, np.newaxis])
        kept = memory[:, np.newaxis] + free
        failing = kept <= self.reserved
        n1 = self.n1.sum() + np.where(failing, self.count + 1, 0) - self.n1
        good = kept > 0
        if not forced:
            p = self.place[members]
            leave = amounts * self.units[:, p]
            change -= leave[:, :, np.newaxis]
            square += (leave * (leave - 2 * self.heights[:, p]))[:, :, np.newaxis]
            left = free[p] - memory <= self.reserved[p]
            n1 = n1 + (np.where(left, self.count[p] - 1, 0) - self.n1[p])[:, np.newaxis]
            ratio = (vcpus[:, np.newaxis] + used) / self.cpus
            good &= ~(failing & ~self.failing) & ~((self.most >= 0) & (self.most < ratio))
            good &= promised[:, np.newaxis] + unpromised > 0
            good[np.arange(len(p)), p] = False
        number = len(self.nodes)
        square -= change * change / number
        square /= number
        square += self.variances[:, np.newaxis, np.newaxis]
        np.maximum(square, 0.0, out=square)
        np.sqrt(square, out=square)
        scores: Floats = (self.weights @ square.reshape(len(square), -1)).reshape(n1.shape) + n1
        scores[~good] = np.inf
        return scores

    def _exactly(self, near: list[tuple[int, int]]) -> tuple[tuple[int, int], float]:
        """Of candidates close to the lowest the first that is lowest computed afresh, and its score."""
        state, here = self.settled(), np.flatnonzero(self.scope)
        columns = state.columns.take(here)
        values = node_values(columns)
        pairs = np.array(sorted(near))
        members, targets = pairs[:, 0], np.searchsorted(here, self.nodes[pairs[:, 1]])
        sources = np.searchsorted(here, state.pnode[self.instances.rows[members]])
        assert self.instances.batch is not None
        asked, changes = self.instances.batch.take(members).asked, []
        for rows, sign in ((sources, -1), (targets, 1)):
            old = columns.take(rows)
            if sign > 0:
                new, _ = node_rules.add_primary(old, asked, 0, 0, force=True)
            else:
                new = node_rules.remove_primary(old, asked, 0, 0)
            before = node_values(old)
            changes.append((rows, before, node_values(new, (old, before))))
        scores = variants(values, changes, columns.offline, np.zeros(len(pairs)))
        best = int(np.argmin(scores))
        return (int(pairs[best, 0]), int(pairs[best, 1])), float(scores[best])

    def move(self, member: int, node: int) -> None:
        """Take note of a step."""
        amounts, place = self.amounts[:, member], int(self.place[member])
        for position, sign in ((place, -1), (node, 1)):
            if position != NOWHERE:
                self.values[:, position] += sign * amounts * self.units[:, position]
                self.room[:, position] += sign * self.needs[:, member]
                self.count[position] += sign
                self.failing[position] = self.room[0, position] <= self.reserved[position]
        self.place[member] = node
        self.unsettled.append((member, node))
        self._note()

    def score(self) -> float:
        """What the sums and the instances on offline nodes contribute to the score."""
        return self.current + LOST * int(np.count_nonzero(self.place == NOWHERE))

    def settled(self) -> State:
        """The real state, with all steps so far."""
        state = self.state
        changes = [(getattr(state.columns, name), each) for name, each in self.instances.changes.items()]
        for member, position in self.unsettled:
            row, node = int(self.instances.rows[member]), int(self.nodes[position])
            for place, sign in ((int(state.pnode[row]), -1), (node, 1)):
                for column, amounts in changes:
                    column[place] += sign * amounts[member]
                state.columns.f_spindles[place] = 0  # without exclusive storage they count nothing
                self._check_n1(place)
            state.pnode[row] = node
            state.stamp[row] = state.stamp.max() + 1
        self.unsettled.clear()
        return state

    def _check_n1(self, node: int) -> None:
        """See whether a node fails N+1 now."""
        columns = self.state.columns
        free = int(columns.t_mem[node]) - columns.n_mem[node] - columns.i_mem[node]
        columns.fail_n1[node] = free - max(columns.x_mem[node], 0) <= columns.r_mem[node]


def _spreads(here: Columns, figures: list[str]) -> tuple[list[str], list[float], Floats, Floats]:
    """The spreads of the score that change with one of the columns: which, weights, values, units.

    Components that are the same formula of the same column are one spread.
    """
    found: dict[tuple[object, int], int] = {}
    names, weights, values, units = list[str](), list[float](), list[Floats](), list[Floats]()
    by_column = {id(getattr(here, figure)): figure for figure in figures}
    for component in COMPONENTS:
        concerned = [
            by_column[id(getattr(here, f))] for f in component.figures if id(getattr(here, f)) in by_column
        ]
        if component.aggregate is not SPREAD or not concerned:
            continue
        (figure,) = concerned
        key = component.formula, id(getattr(here, figure))
        if key in found:
            weights[found[key]] += component.weight
            continue
        found[key] = len(names)
        column = getattr(here, figure)
        more = here.changed(
            **{name: column + _MUCH for name in Columns._fields if getattr(here, name) is column}
        )
        names.append(figure)
        weights.append(component.weight)
        values.append(component.of(here))
        units.append((component.of(more) - values[-1]) / _MUCH)
    return names, weights, np.array(values, np.float64), np.array(units, np.float64)
