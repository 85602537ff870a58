"""Rebalancing to the end where all that moves is on storage that every node sees: the same steps, sooner.

To find which nodes can be powered down, small clusters are balanced many times over, and each of
:func:`.balance.rebalance`'s steps has a price that does not depend on the size of the cluster. Such an
instance changes a node only by adding to, or taking from, a few sums; so here a state is a small table
of sums, and a step a few operations on it. What decides is the same: candidates whose scores are too
close to tell apart are scored afresh, by the same functions.

The rules for instances without disks and secondary are those of :mod:`ganeti_htools.engine.places`;
tests hold them to be the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ganeti_htools.engine.balancing.balance import Step, score_of
from ganeti_htools.engine.rules.components import COMPONENTS, INDEX
from ganeti_htools.engine.rules.move_kinds import MoveKind
from ganeti_htools.engine.rules.score import node_values, variants
from ganeti_htools.model import tags
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Floats, Ints
from ganeti_htools.model.figures import TEMPLATE_CODE
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Mirror

WEIGHT = {component.name: component.weight for component in COMPONENTS}
# What an instance on an offline node adds to the score.
LOST = WEIGHT["offline_all_cnt"] + WEIGHT["offline_pri_cnt"]
_LOADS = ("load_cpu", "load_mem", "load_dsk", "load_net")
_LOAD_WEIGHT = WEIGHT["cpu_load_cv"]
assert all(WEIGHT[name] == _LOAD_WEIGHT for name in ("mem_load_cv", "disk_load_cv", "net_load_cv"))
# Scores closer than this are not told apart by sums.
CLOSE = 3e-8

_MOVES = np.array(
    [
        template.mirror is Mirror.EXTERNAL and template is not DiskTemplate.DISKLESS
        for template in DiskTemplate
    ]
)
_DRBD = TEMPLATE_CODE[DiskTemplate.DRBD]


@dataclass(frozen=True, slots=True)
class Floating:
    """The instances that move, by row: what each adds to the sums of a node (sums by instances).

    The sums are memory taken from what is free, virtual CPUs, memory taken from what is free counting
    all instances, and the kinds of load that differ. ``kind`` numbers instances that are alike.
    """

    rows: Ints
    amounts: Floats
    kind: Ints


def floating(state: State, movable: Bools) -> Floating | None:
    """The instances that balancing would move, None if there are rules that this module does not know."""
    columns, cluster = state.columns, state.cluster
    auto = np.array([instance.auto_balance for instance in cluster.instances], np.bool_)
    mirrored = (state.template == _DRBD) & (state.snode != NOWHERE)
    rows = np.flatnonzero(movable & auto & (_MOVES[state.template] | mirrored))
    if (
        (state.snode[rows] != NOWHERE).any()
        or state.forthcoming.any()
        or columns.excl_stor.any()
        or state.migrates is not None
        or state.tag_rows
        or state.location_rows
        or any(tag.startswith(tags.DESIRED_LOCATION) for tag in cluster.tags)
    ):
        return None
    values = state.figures.values[rows]
    kinds = [_LOADS.index(name) for name in _loads(state)]
    figures = [-values["record_mem"], values["vcpus"], -values["mem"], *values["load"].T[kinds]]
    amounts = np.array(figures, np.float64)
    kind = np.unique(amounts, axis=1, return_inverse=True)[1].ravel()
    return Floating(rows, amounts, kind)


def regular(state: State, scope: Bools) -> bool:
    """Whether all online nodes in scope report figures that can be divided by, and there is one."""
    columns = state.columns
    divisors = {name for component in COMPONENTS for name in component.divisors}
    figures = np.array([getattr(columns, name) for name in divisors])[:, scope & ~columns.offline]
    return bool(figures.size and (figures > 0).all())


def _loads(state: State) -> dict[str, float]:
    """The kinds of load that are different columns, with the weight of all that are the same."""
    names: dict[int, str] = {}
    weights: dict[str, float] = {}
    for name in _LOADS:
        first = names.setdefault(id(getattr(state.columns, name)), name)
        weights[first] = weights.get(first, 0.0) + _LOAD_WEIGHT
    return weights


def rebalance(state: State, scope: Bools, instances: Floating) -> tuple[State, list[Step]]:
    """The state after balancing the nodes in scope to the end, and the steps (their scores to about 1e-9).

    The instances are all in scope.
    """
    run = _Run(state.copy(), scope, instances)
    rest = score_of(state, scope) - run.score()  # does not change
    steps = []
    while (found := run.best()) is not None:
        run.move(*found)
        row, node = int(instances.rows[found[0]]), int(run.nodes[found[1]])
        steps.append(Step(row, MoveKind.FAILOVER_TO, node, node, NOWHERE, run.score() + rest))
    return run.settled(), steps


class _Run:
    """A table of sums (sums by online nodes), and the place of each instance in it, NOWHERE if offline."""

    def __init__(self, state: State, scope: Bools, instances: Floating) -> None:
        columns = state.columns
        self.state, self.scope, self.instances = state, scope, instances
        self.nodes = np.flatnonzero(scope & ~columns.offline)
        position = np.full(len(columns.offline), NOWHERE)
        position[self.nodes] = np.arange(len(self.nodes))
        self.place = position[state.pnode[instances.rows]]
        self.loads = _loads(state)
        here = columns.take(self.nodes)
        memory, cpus = 1 / here.t_mem, 1 / here.t_cpu / here.cpu_speed
        ones = np.ones(len(self.nodes))
        self.scale = np.array([memory, cpus, memory, *(ones for _ in self.loads)])
        self.sums = np.array(
            [here.unallocated, here.u_cpu, here.f_mem_forth, *(getattr(here, name) for name in self.loads)],
            np.float64,
        )
        vcpus = WEIGHT["vcpu_ratio_cv"] + WEIGHT["vcpu_ratio_cv_forth"]
        memories = WEIGHT["free_mem_cv"], WEIGHT["free_mem_cv_forth"]
        self.weights = np.array([memories[0], vcpus, memories[1], *self.loads.values()])
        self.reserved, self.failing = here.r_mem, here.fail_n1
        self.count = here.primaries + here.secondaries
        self.most, self.cpus = here.vcpu_ratio, here.t_cpu
        self.unsettled: list[tuple[int, int]] = []  # steps that the real state lacks
        self._note()

    def _note(self) -> None:
        """The spreads around their means, and the score of this table."""
        number = len(self.nodes)
        heights = self.sums * self.scale
        heights -= np.add.reduce(heights, axis=1, keepdims=True) / number
        self.heights = heights
        self.variances = np.add.reduce(heights * heights, axis=1) / number
        self.n1 = np.where(self.failing, self.count, 0)
        self.current = float(self.weights @ np.sqrt(self.variances) + self.n1.sum())

    def best(self) -> tuple[int, int] | None:
        """The instance and the position of the node that leave the lowest score, None if none lowers it."""
        lost = np.flatnonzero(self.place == NOWHERE)
        found: list[tuple[Ints, Floats, float]] = []
        if len(lost):
            rows = self._distinct(lost)
            scores = self._scores(rows, True)
            found.append((rows, scores, -LOST))
        # However even the others might make it all, they do not bring a lost instance back.
        if not found or not found[0][1].min(initial=np.inf) - LOST + CLOSE < 0:
            rows = self._distinct(np.flatnonzero(self.place != NOWHERE))
            found.append((rows, self._scores(rows, False), 0.0))
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

    def _distinct(self, members: Ints) -> Ints:
        """Of members that are alike and in the same place the first; offline nodes are all one place."""
        keys = self.instances.kind[members] * (len(self.nodes) + 1) + self.place[members]
        return np.sort(members[np.unique(keys, return_index=True)[1]])

    def _scores(self, members: Ints, forced: bool) -> Floats:
        """The part of the table in the score for each member on each node; infinite where it must not be."""
        amounts = self.instances.amounts[:, members]
        change = amounts[:, :, np.newaxis] * self.scale[:, np.newaxis]
        square = change * (change + 2 * self.heights[:, np.newaxis])
        free = amounts[0][:, np.newaxis] + self.sums[0]
        failing = free <= self.reserved
        n1 = self.n1.sum() + np.where(failing, self.count + 1, 0) - self.n1
        good = free > 0
        if not forced:
            p = self.place[members]
            leave = amounts * self.scale[:, p]
            change -= leave[:, :, np.newaxis]
            square += (leave * (leave - 2 * self.heights[:, p]))[:, :, np.newaxis]
            left = self.sums[0, p] - amounts[0] <= self.reserved[p]
            n1 = n1 + (np.where(left, self.count[p] - 1, 0) - self.n1[p])[:, np.newaxis]
            ratio = (amounts[1][:, np.newaxis] + self.sums[1]) / self.cpus
            good &= ~(failing & ~self.failing) & ~((self.most >= 0) & (self.most < ratio))
            good &= amounts[2][:, np.newaxis] + self.sums[2] > 0
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
        changes = [
            (rows, values, self._values(columns, values, members, rows, sign))
            for rows, sign in ((sources, -1), (targets, 1))
        ]
        scores = variants(values, changes, columns.offline, np.zeros(len(pairs)))
        best = int(np.argmin(scores))
        return (int(pairs[best, 0]), int(pairs[best, 1])), float(scores[best])

    def _values(
        self, columns: Columns, values: Sequence[Any], members: Ints, rows: Ints, sign: int
    ) -> list[Any]:
        """What nodes contribute to the score once members came (1) or left (-1), as in node_values."""
        here = columns.take(rows)
        taken, vcpus, promised, *loads = sign * self.instances.amounts[:, members]
        count, new = here.primaries + here.secondaries + sign, list(values)
        free = here.unallocated + taken
        with np.errstate(divide="ignore", invalid="ignore"):  # offline nodes report nothing
            ratio = (here.u_cpu + vcpus) / here.t_cpu / here.cpu_speed
            changed = {
                "free_mem_cv": free / here.t_mem,
                "free_mem_cv_forth": (here.f_mem_forth + promised) / here.t_mem,
                "vcpu_ratio_cv": ratio,
                "vcpu_ratio_cv_forth": ratio,
                "n1_cnt": np.where(free <= here.r_mem, count, 0),
                "offline_all_cnt": count,
                "offline_pri_cnt": here.primaries + sign,
            }
        for name, value in changed.items():
            new[INDEX[name]] = value
        for name, load in zip(self.loads, loads, strict=True):
            old, value = getattr(columns, name), getattr(here, name) + load
            new = [value if each is old else each for each in new]
        return new

    def move(self, member: int, node: int) -> None:
        """Take note of a step."""
        amounts, place = self.instances.amounts[:, member], int(self.place[member])
        for position, sign in ((place, -1), (node, 1)):
            if position != NOWHERE:
                self.sums[:, position] += sign * amounts
                self.count[position] += sign
                self.failing[position] = self.sums[0, position] <= self.reserved[position]
        self.place[member] = node
        self.unsettled.append((member, node))
        self._note()

    def score(self) -> float:
        """What the sums and the instances on offline nodes contribute to the score."""
        return self.current + LOST * int(np.count_nonzero(self.place == NOWHERE))

    def settled(self) -> State:
        """The real state, with all steps so far."""
        state = self.state
        for member, position in self.unsettled:
            row, node = int(self.instances.rows[member]), int(self.nodes[position])
            amounts = self.instances.amounts[:, member].tolist()
            self._settle(int(state.pnode[row]), amounts, -1)
            self._settle(node, amounts, 1)
            state.pnode[row] = node
            state.stamp[row] = state.stamp.max() + 1
        self.unsettled.clear()
        return state

    def _settle(self, node: int, amounts: list[float], sign: int) -> None:
        """Let an instance come to a node, or leave it."""
        columns = self.state.columns
        taken, vcpus, promised, *loads = amounts
        columns.i_mem[node] -= sign * int(taken)
        columns.u_cpu[node] += sign * int(vcpus)
        columns.f_mem_forth[node] += sign * int(promised)
        for name, load in zip(self.loads, loads, strict=True):
            getattr(columns, name)[node] += sign * load
        columns.primaries[node] += sign
        columns.f_spindles[node] = 0
        free = int(columns.t_mem[node]) - columns.n_mem[node] - columns.i_mem[node]
        columns.fail_n1[node] = free - max(columns.x_mem[node], 0) <= columns.r_mem[node]
