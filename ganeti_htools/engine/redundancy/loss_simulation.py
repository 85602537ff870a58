"""Whether the instances of a lost node find room, when many placements are tried on one state.

What :func:`.redundancy.flee` does, with the same choices: every refugee goes where the nodes are best
balanced then. But what becomes of a node when an instance comes depends on the node's figures and the
instance's needs only; so it is found out once, by the functions of :mod:`.places` and :mod:`.score`, and
remembered. What is left to do for a refugee is a score for each node, added up in the order of
:mod:`.score`, so that the same nodes tie.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ganeti_htools.engine.rules import affinity, choice, instance_policy, node_rules
from ganeti_htools.engine.rules.components import AGGREGATES, COMPONENTS, CROWDING, LOST, SPREAD, WEIGHTS
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.score import node_values, replaced_spread
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Floats
from ganeti_htools.model.state import Asked, State

_WEIGHTS = np.array(WEIGHTS)
_SPREADS = np.array([aggregate is SPREAD for aggregate in AGGREGATES])
_OFFLINE = np.array([aggregate is LOST for aggregate in AGGREGATES])

# More than so many different nodes, or instances, are not remembered.
ENOUGH = 50_000

# All figures of a node, in the order of Columns.
Figures = tuple[Any, ...]


@dataclass(slots=True, eq=False)
class Known:
    """A node with certain figures, and what it contributes to each component of the score, 0 to those for
    which it does not count.

    ``comes`` tells for what an instance needs and what tags say of both whether it may come, and what the
    node is then; ``goes`` what it is once the instance is gone.
    """

    figures: Figures
    shares: Floats
    comes: dict[Any, "tuple[bool, Known]"] = field(default_factory=dict)
    goes: dict[Any, "Known"] = field(default_factory=dict)


@dataclass(slots=True)
class Memory:
    """What was found out; it holds for all states with the same policies.

    ``needs`` numbers what instances need, ``rows`` has the numbers of those seen before.
    """

    nodes: dict[Figures, Known] = field(default_factory=dict)
    needs: dict[Any, int] = field(default_factory=dict)
    rows: dict[tuple[int, int], tuple[Instance, int]] = field(default_factory=dict)

    def tidy(self) -> None:
        """Forget everything if it is too much."""
        if max(len(self.nodes), len(self.rows)) > ENOUGH:
            self.nodes, self.needs, self.rows = {}, {}, {}

    def need(self, asked: Asked, group: int) -> int:
        """The number of what an instance needs of nodes of a group."""
        row = asked.row
        known = self.rows.get((id(row), group))
        if known is None:
            amounts = asked.mem, asked.record_mem, asked.dsk, asked.vcpus, asked.spindles, asked.spindle_use
            policy = None if row.template.survives_node else group
            number = self.needs.setdefault((amounts, row.load, row.demand, policy), len(self.needs))
            known = self.rows[id(row), group] = row, number  # kept, so that no other has its identity
        return known[1]


# What tags are about: the conflicts that an instance makes on a node, and the locations that it lacks there.
Tagged = tuple[int, int]


def _tags(state: State, asked: Asked) -> list[Tagged]:
    """What tags say of an instance on each node."""
    tagged = len(asked.tags), len(asked.desired) + asked.unknown_desires
    if not any(tagged):
        return [tagged] * len(state.group)
    conflicts, lacks = affinity.tag_conflicts(state, asked), affinity.unmet_locations(state, asked)
    return list(zip(conflicts.tolist(), lacks.tolist(), strict=True))


def _coming(
    memory: Memory,
    state: State,
    asked: Asked,
    need: int,
    rows: Sequence[int],
    nodes: Sequence[Known],
    tagged: Sequence[Tagged],
) -> list[tuple[bool, Known]]:
    """Whether an instance may come to each of some nodes of a group, and what they are then.

    Only what does not exist limits, and the policy unless its disks are there already. ``nodes`` are
    all nodes, of which ``rows`` are looked at, ``tagged`` what tags say of them.
    """
    new = [row for row in rows if (need, tagged[row]) not in nodes[row].comes]
    if new:
        columns = _columns(state, [nodes[row].figures for row in new])
        conflicts, desires = np.array([tagged[row] for row in new]).T
        after, codes = node_rules.add_primary(columns, asked, conflicts, desires, force=True)
        fits = codes == FITS
        if not asked.row.template.survives_node:
            fits &= instance_policy.codes(state, asked, np.array(new)) == FITS
        for row, good, then in zip(new, fits.tolist(), _learnt(memory, after), strict=True):
            nodes[row].comes[need, tagged[row]] = good, then
    return [nodes[row].comes[need, tagged[row]] for row in rows]


def _going(memory: Memory, state: State, asked: Asked, need: int, node: Known, tagged: Tagged) -> Known:
    if (need, tagged) not in node.goes:
        after = node_rules.remove_primary(_columns(state, [node.figures]), asked, *tagged)
        (node.goes[need, tagged],) = _learnt(memory, after)
    return node.goes[need, tagged]


def _columns(state: State, nodes: Sequence[Figures]) -> Columns:
    figures = zip(state.columns, zip(*nodes, strict=True), strict=True)
    return Columns._make([np.array(own, column.dtype) for column, own in figures])


def _learnt(memory: Memory, columns: Columns) -> list[Known]:
    """These nodes, remembered."""
    shares = np.empty((len(COMPONENTS), len(columns.offline)))
    for share, value in zip(shares, node_values(columns), strict=True):
        share[:] = value
    shares[columns.offline != _OFFLINE[:, np.newaxis]] = 0.0
    figures = zip(*(column.tolist() for column in columns), strict=True)
    return [
        memory.nodes.setdefault(each, Known(each, share))
        for each, share in zip(figures, shares.T, strict=True)
    ]


def find_room(
    memory: Memory, state: State, node: int, refugees: Sequence[Asked], scope: Bools
) -> bool | None:
    """Whether the refugees of a lost node find room, in this order; the state is not changed.

    None if this cannot be told because some node has no score.
    """
    memory.tidy()
    if any(len(asked.tags) for asked in refugees):
        counts = state.tag_counts.copy(), state.settled_tag_counts.copy()
        state = replace(state, tag_counts=counts[0], settled_tag_counts=counts[1])
    now = _now(memory, state)
    shares, online = np.array([each.shares for each in now]), ~state.columns.offline
    group, home = scope & (state.group == state.group[node]), int(state.group[node])
    targets = [row for row in np.flatnonzero(group).tolist() if row != node]
    for asked in refugees:
        moves_on, reach = asked.row.template.survives_node, targets
        if not moves_on:  # what is recreated takes nothing off the lost node
            asked = replace(asked, index=NOWHERE)
        elif state.migrates is not None:
            reach = [row for row in targets if state.migrates[node, row]]
        need, tagged = memory.need(asked, home), _tags(state, asked)
        outlooks = _coming(memory, state, asked, need, reach, now, tagged)
        rows = [row for row, (fits, _) in zip(reach, outlooks, strict=True) if fits]
        if not rows:
            return False
        left = _going(memory, state, asked, need, now[node], tagged[node]) if moves_on else now[node]
        best = rows[0]
        if len(rows) > 1:
            counted = group if moves_on else scope
            new = np.array([then.shares for fits, then in outlooks if fits])
            first = (shares[node], left.shares) if moves_on else None
            crowding = affinity.crowding_change(state, asked, np.array(rows), counted)
            scores = _scores(shares[counted], online[counted], first, shares[rows], new, crowding)
            if scores is None:
                return None
            best = rows[int(choice.near_best(scores)[-1])]
        for row, then in ((node, left), (best, outlooks[reach.index(best)][1])):
            now[row], shares[row] = then, then.shares
        for table in (state.tag_counts, state.settled_tag_counts) if len(asked.tags) else ():
            table[asked.tags, best] += 1
            table[asked.tags, node] -= moves_on
    return True


def _now(memory: Memory, state: State) -> list[Known]:
    """The nodes as they are."""
    now: list[Figures] = list(zip(*(column.tolist() for column in state.columns), strict=True))
    unknown = [figures for figures in now if figures not in memory.nodes]
    if unknown:
        _learnt(memory, _columns(state, unknown))
    return [memory.nodes[figures] for figures in now]


def _scores(
    counted: Floats,
    online: Bools,
    first: tuple[Floats, Floats] | None,
    old: Floats,
    new: Floats,
    crowding: Any,
) -> Floats | None:
    """The scores of the nodes counted after each change of one of them, after a first change of another.

    ``crowding`` is what each changes that is no figure of a node. None if some node has no score.
    """
    number = float(np.count_nonzero(online))
    if not number:
        return np.zeros(len(old))
    with np.errstate(invalid="ignore", over="ignore"):
        sums = np.add.accumulate(counted)[-1]
        if not np.isfinite(sums).all():
            return None
        centred = (counted - sums / number) * online[:, np.newaxis]
        figures = sums, np.add.accumulate(centred * centred)[-1] / number
        if first is not None:
            figures = replaced_spread(number, *figures, *first)
        sums, variances = replaced_spread(number, *figures, old, new)
        values = np.where(_SPREADS, np.sqrt(variances), sums) * _WEIGHTS
    scores: Floats = np.add.accumulate(values, axis=1)[:, -1] + WEIGHTS[CROWDING] * crowding
    return scores
