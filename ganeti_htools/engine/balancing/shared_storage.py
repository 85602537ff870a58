"""Rebalancing to the end on storage that every node sees: the steps of :func:`.balance.rebalance`, sooner.

To find nodes that can be powered down, a cluster is balanced many times. A step of :func:`.balance.rebalance`
has fixed costs; here a state is a small table, and a step a few operations on it. Candidates whose scores lie
too close together are scored afresh, by the same functions. A property test compares all steps and states
with :func:`.balance.rebalance`.

The rules compute what instances change (:mod:`.shared_instances`). Limits and formulas are those that are
declared.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.balancing.shared_instances import COUNTS, PER_LOST, SharedInstances
from ganeti_htools.engine.balancing.step_search import CLOSE
from ganeti_htools.engine.rules import choice, node_rules, settling
from ganeti_htools.engine.rules.components import SPREAD, table
from ganeti_htools.engine.rules.deviation import Deviation
from ganeti_htools.engine.rules.limits import PRIMARY
from ganeti_htools.engine.rules.relocate import relocate
from ganeti_htools.engine.rules.resources import resources
from ganeti_htools.engine.rules.score import node_values
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Floats, Ints
from ganeti_htools.model.moves import Move, MoveKind
from ganeti_htools.model.state import State

# Trial change of a column, to find the change of its spread; a power of 2, so division is exact.
_MUCH = 2.0**20


class SharedTable:
    """The online nodes, and the place of each instance among them, NOWHERE if its node is offline.

    * Of each distinct spread of the score: weight, ``values`` (spreads by nodes), and the ``units`` by which
      values change with a column. ``amounts`` (spreads by instances) are the instances' changes of that
      column.
    * ``room``: the columns that change and ``unallocated`` (``figures`` by nodes); ``needs``: the instances'
      changes of ``room``.
    * ``here``: all columns of the nodes.
    * ``limits`` (without and with force) and ``counts``: declarations, each with the names of its figures.
    """

    def __init__(self, state: State, scope: Bools, instances: SharedInstances) -> None:
        columns, changes = state.columns, instances.changes
        self.state, self.scope, self.instances = state, scope, instances
        self.nodes = np.flatnonzero(scope & ~columns.offline)
        position = np.full(len(columns.offline), NOWHERE)
        position[self.nodes] = np.arange(len(self.nodes))
        self.place = position[state.pnode[instances.rows]]
        here, names = (
            columns.take(self.nodes),
            {name: columns.aliases.get(name, name) for name in columns._fields},
        )
        wants = instances.batch.asked.wants if instances.batch else ()
        figures, weights, self.values, self.units = _spreads(here, list(changes))
        self.weights, self.amounts = np.array(weights), np.array([changes[figure] for figure in figures])
        self.limits = {
            force: dict.fromkeys(
                (limit, names.get(figure, figure)) for limit, figure in limits if not limit.fixed
            )
            for force in (False, True)
            if (limits := node_rules.limits(columns.shape, PRIMARY, False, wants, force))
        }
        moving = {"fail_n1", *changes}
        counts = [(each, [names[figure] for figure in each.figures]) for each in COUNTS]
        self.counts = [(each, figures) for each, figures in counts if moving.intersection(figures)]
        self.figures = list(changes)
        self.room = np.array([getattr(here, figure) for figure in self.figures], np.float64)
        self.needs = np.array(list(changes.values()))
        rows = dict(zip(self.figures, self.room, strict=True))
        del rows["unallocated"]
        self.here = here.with_figures(rows)
        # Steps that the real state still lacks: member, rows of the nodes before and after.
        self.unsettled: list[tuple[int, int, int]] = []
        self._note()

    def _note(self) -> None:
        """Compute the spreads around their means, the counts of each node, and the score of this table."""
        number = len(self.nodes)
        self.heights = self.values - np.add.reduce(self.values, axis=1, keepdims=True) / number
        variances = np.add.reduce(self.heights * self.heights, axis=1) / number
        self.deviation = Deviation(float(number), 0.0, variances[:, np.newaxis, np.newaxis])
        self.counted = self._counted({}, slice(None))
        self.total = float(self.counted.sum())
        self.current = float(self.weights @ np.sqrt(variances)) + self.total

    def _counted(self, after: Mapping[str, Any], at: Any) -> Any:
        """Compute the part of nodes in the score besides spreads, with figures as they are after a move."""
        total: Any = 0.0
        for each, names in self.counts:
            figures = [after[name] if name in after else getattr(self.here, name)[at] for name in names]
            total = total + each.weight * each.formula(None, *figures)
        return total

    def _after(self, room: Any, needs: Any, r_mem: Any) -> dict[str, Any]:
        """Compute the changed figures of nodes with this room and additional needs."""
        after = dict(zip(self.figures, room + needs, strict=True))
        after["fail_n1"] = node_rules.fails_n1(after["unallocated"], r_mem)
        return after

    def scores(self, members: Ints, forced: bool) -> Floats:
        """Compute the table's part of the score for each member on each node; infinite for impossible moves.

        Members that leave an offline node are ``forced``: soft limits do not count, and no other node
        changes.
        """
        amounts, needs = self.amounts[:, members], self.needs[:, members]
        after = self._after(self.room[:, np.newaxis], needs[:, :, np.newaxis], self.here.r_mem)
        change = amounts[:, :, np.newaxis] * self.units[:, np.newaxis]
        square = change * (change + 2 * self.heights[:, np.newaxis])
        counted = self._counted(after, slice(None)) + (self.total - self.counted)
        bad = np.zeros(counted.shape, np.bool_)
        for limit, name in self.limits[forced]:
            figure = after[name] if name in after else getattr(self.here, name)
            bad |= limit.broken(figure, self.here, self.here)
        if self.instances.reach is not None:
            bad |= ~self.instances.reach[members][:, self.nodes]
        if not forced:
            p = self.place[members]
            leave = amounts * self.units[:, p]
            change -= leave[:, :, np.newaxis]
            square += (leave * (leave - 2 * self.heights[:, p]))[:, :, np.newaxis]
            left = self._after(self.room[:, p], -needs, self.here.r_mem[p])
            counted += (self._counted(left, p) - self.counted[p])[:, np.newaxis]
            bad[np.arange(len(p)), p] = True
        variances = self.deviation.after(change, square).variance
        roots = np.sqrt(np.maximum(variances, 0.0, out=variances), out=variances)
        scores: Floats = (self.weights @ roots.reshape(len(roots), -1)).reshape(counted.shape) + counted
        scores[bad] = np.inf
        return scores

    def move(self, member: int, node: int) -> None:
        """Make a step in the table."""
        here, amounts, needs = self.here, self.amounts[:, member], self.needs[:, member]
        free, place = self.room[self.figures.index("unallocated")], int(self.place[member])
        for position, sign in ((place, -1), (node, 1)):
            if position != NOWHERE:
                self.values[:, position] += sign * amounts * self.units[:, position]
                self.room[:, position] += sign * needs
                here.fail_n1[position] = node_rules.fails_n1(free[position], here.r_mem[position])
        lost = self.state.pnode[self.instances.rows[member]]
        source = int(lost if place == NOWHERE else self.nodes[place])
        self.unsettled.append((member, source, int(self.nodes[node])))
        self.place[member] = node
        self._note()

    def score(self) -> float:
        """Compute the part of the score that changes, with the instances on offline nodes."""
        return self.current + PER_LOST * int(np.count_nonzero(self.place == NOWHERE))

    def settled(self) -> State:
        """Return the real state, with all steps so far."""
        state, columns = self.state, self.state.columns
        if not self.unsettled:
            return state
        members, sources, targets = np.array(self.unsettled).T
        self.unsettled.clear()
        nodes, signs = np.stack([sources, targets], axis=1).ravel(), np.array([-1, 1])
        for name, amounts in self.instances.changes.items():
            if name in columns._fields:
                column, change = getattr(columns, name), np.multiply.outer(amounts[members], signs).ravel()
                np.add.at(column, nodes, change.astype(column.dtype))
        settling.set_nodes(state, self.instances.rows[members], targets, np.full_like(targets, NOWHERE))
        here = columns.take(nodes)
        columns.fail_n1[nodes] = node_rules.fails_n1(here.unallocated, here.r_mem)
        for resource in resources(columns.shape):
            if PRIMARY in resource.roles and not resource.is_sum:
                for view in resource.views(columns.shape, forthcoming=False):
                    getattr(columns, view)[nodes] = resource.after(here, getattr(here, view), 0, 1)
        return state


def _spreads(here: Columns, figures: list[str]) -> tuple[list[str], list[float], Floats, Floats]:
    """Find the spreads of the score that change with one of the columns: columns, weights, values, units.

    Components with the same formula of the same column are one spread.
    """
    found: dict[tuple[object, str], int] = {}
    names, weights, values, units = list[str](), list[float](), list[Floats](), list[Floats]()
    for component in table(here.shape).components:
        named = (here.aliases.get(figure, figure) for figure in component.figures)
        concerned = [figure for figure in named if figure in figures]
        if component.aggregate is not SPREAD or not concerned:
            continue
        (figure,) = concerned
        key = component.formula, figure
        if key in found:
            weights[found[key]] += component.weight
            continue
        found[key] = len(names)
        more = here.with_figures({figure: getattr(here, figure) + _MUCH})
        names.append(figure)
        weights.append(component.weight)
        values.append(component.of(here))
        units.append((component.of(more) - values[-1]) / _MUCH)
    return names, weights, np.array(values, np.float64), np.array(units, np.float64)


def rebalance_shared(state: State, scope: Bools, instances: SharedInstances) -> tuple[State, list[Move]]:
    """Balance the nodes in scope to the end; returns the state and the steps (scores to about 1e-9).

    Precondition: the instances are all in scope.
    """
    if not len(instances.rows):
        return state.copy(), []
    table = SharedTable(state.copy(), scope, instances)
    rest = score_of(state, scope) - table.score()  # constant part
    steps = []
    while (found := best_step(table)) is not None:
        table.move(*found)
        row, node = int(instances.rows[found[0]]), int(table.nodes[found[1]])
        steps.append(Move(row, MoveKind.FAILOVER_TO.parts(node), (node,), table.score() + rest))
    return table.settled(), steps


def best_step(table: SharedTable) -> tuple[int, int] | None:
    """Find the instance and the position of the node that leave the lowest score; None if
    no move lowers it.
    """
    lost = np.flatnonzero(table.place == NOWHERE)
    found: list[tuple[Ints, Floats, float]] = []
    if len(lost):
        rows = _unlike(table, lost)
        scores = table.scores(rows, True)
        found.append((rows, scores, -PER_LOST))
    # No gain of evenness equals a lost instance that comes back.
    if not found or not found[0][1].min(initial=np.inf) - PER_LOST + CLOSE < 0:
        rows = _unlike(table, np.flatnonzero(table.place != NOWHERE))
        found.append((rows, table.scores(rows, False), 0.0))
    lowest = min(float(scores.min(initial=np.inf)) + bonus for _, scores, bonus in found)
    if lowest == np.inf:
        return None
    slack = CLOSE * (1.0 + abs(lowest))
    near = [
        (int(rows[i]), int(node))
        for rows, scores, bonus in found
        for i, node in np.argwhere(scores + bonus <= lowest + slack).tolist()
    ]
    clear = abs(lowest - table.current) > slack
    if clear and lowest > table.current:
        return None
    if clear and len(near) == 1:
        return near[0]
    best, score = _exactly(table, near)
    gains = clear or score < score_of(table.state, table.scope)
    return best if gains else None


def _unlike(table: SharedTable, members: Ints) -> Ints:
    """Select the first of equal members in the same place; all offline nodes are one place."""
    keys = table.instances.alike[members] * (len(table.nodes) + 1) + table.place[members]
    return np.sort(members[np.unique(keys, return_index=True)[1]])


def _exactly(table: SharedTable, near: list[tuple[int, int]]) -> tuple[tuple[int, int], float]:
    """Find, of candidates close to the lowest score, the first that is lowest computed
    afresh, and its score.
    """
    state, here, instances = table.settled(), np.flatnonzero(table.scope), table.instances
    assert instances.batch is not None
    pairs = np.array(sorted(near))
    batch, new = instances.batch.take(pairs[:, 0]), table.nodes[pairs[:, 1]]
    facts = replace(instances.facts, state=state)
    changes, _ = relocate(facts, batch, MoveKind.FAILOVER_TO, True, new)
    columns, nobody = state.columns.take(here), np.zeros(len(pairs))
    scores = choice.fresh_scores(changes, here, columns, node_values(columns), nobody)
    best = int(np.argmin(scores))
    return (int(pairs[best, 0]), int(pairs[best, 1])), float(scores[best])
