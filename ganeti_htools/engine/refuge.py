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

from ganeti_htools.engine import choice, moves, places
from ganeti_htools.engine.places import FITS
from ganeti_htools.engine.score import CROWDING, KINDS, OFFLINE, SPREAD, WEIGHTS, node_values, replaced_spread
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Floats
from ganeti_htools.model.state import Asked, State

_WEIGHTS = np.array(WEIGHTS)
_SPREADS = np.array([kind is SPREAD for kind in KINDS])
_IS_OFFLINE = Columns._fields.index("offline")
_OFFLINE = np.array([kind is OFFLINE for kind in KINDS])

# More than so many nodes with different figures are not remembered.
ENOUGH = 50_000

# All figures of a node, in the order of Columns.
Figures = tuple[Any, ...]


@dataclass(slots=True)
class Memory:
    """What was found out; it holds for all states with the same policies.

    ``shares`` are what a node contributes to each component of the score, 0 to those for which it does not
    count. ``comes`` tells for what an instance needs, the figures of a node and what tags say of both
    whether it may come, and the figures then; ``goes`` the figures once it is gone.
    """

    shares: dict[Figures, Floats] = field(default_factory=dict)
    comes: dict[Any, dict[Any, tuple[bool, Figures]]] = field(default_factory=dict)
    goes: dict[Any, dict[Any, Figures]] = field(default_factory=dict)

    def tidy(self) -> None:
        """Forget everything if it is too much."""
        if len(self.shares) > ENOUGH:
            self.shares, self.comes, self.goes = {}, {}, {}


# What tags are about: the conflicts that an instance makes on a node, and the locations that it lacks there.
Tagged = tuple[int, int]


def _tags(state: State, asked: Asked) -> list[Tagged]:
    """What tags say of an instance on each node."""
    tagged = len(asked.tags), len(asked.desired) + asked.unknown_desires
    if not any(tagged):
        return [tagged] * len(state.group)
    return list(zip(moves.present(state, asked).tolist(), moves.unmet(state, asked).tolist(), strict=True))


def _coming(
    memory: Memory,
    state: State,
    asked: Asked,
    rows: Sequence[int],
    nodes: Sequence[Figures],
    tagged: Sequence[Tagged],
) -> list[tuple[bool, Figures]]:
    """Whether an instance may come to each of some nodes of a group, and their figures then.

    Only what does not exist limits, and the policy unless its disks are there already. ``nodes`` are
    the figures of all nodes, of which ``rows`` are looked at, ``tagged`` what tags say of them.
    """
    stays = asked.row.template.survives_node
    known = memory.comes.setdefault((_needs(asked), None if stays else int(state.group[rows[0]])), {})
    keys = [(nodes[row], tagged[row]) for row in rows]
    new = {key: row for key, row in zip(keys, rows, strict=True) if key not in known}
    if new:
        figures, tags = zip(*new, strict=True)
        columns = _columns(state, figures)
        conflicts, desires = np.array(tags).T
        after, codes = places.add_primary(columns, asked, conflicts, desires, force=True)
        fits = codes == FITS
        if not stays:
            fits &= moves.policy_codes(state, asked, np.array(list(new.values()))) == FITS
        known.update(zip(new, zip(fits.tolist(), _learnt(memory, after), strict=True), strict=True))
    return [known[key] for key in keys]


def _going(memory: Memory, state: State, asked: Asked, node: Figures, tagged: Tagged) -> Figures:
    known = memory.goes.setdefault(_needs(asked), {})
    if (node, tagged) not in known:
        after = places.remove_primary(_columns(state, [node]), asked, *tagged)
        (known[node, tagged],) = _learnt(memory, after)
    return known[node, tagged]


def _needs(asked: Asked) -> Any:
    amounts = asked.mem, asked.record_mem, asked.dsk, asked.vcpus, asked.spindles, asked.spindle_use
    return amounts, asked.row.load, asked.row.demand


def _columns(state: State, nodes: Sequence[Figures]) -> Columns:
    figures = zip(state.columns, zip(*nodes, strict=True), strict=True)
    return Columns._make([np.array(own, column.dtype) for column, own in figures])


def _learnt(memory: Memory, columns: Columns) -> list[Figures]:
    """The figures of these nodes; their shares are remembered."""
    shares = np.empty((len(KINDS), len(columns.offline)))
    for share, value in zip(shares, node_values(columns), strict=True):
        share[:] = value
    shares[columns.offline != _OFFLINE[:, np.newaxis]] = 0.0
    nodes: list[Figures] = list(zip(*(column.tolist() for column in columns), strict=True))
    memory.shares.update(zip(nodes, shares.T, strict=True))
    return nodes


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
    now: list[Figures] = list(zip(*(column.tolist() for column in state.columns), strict=True))
    group = scope & (state.group == state.group[node])
    unknown = [figures for figures in now if figures not in memory.shares]
    if unknown:
        _learnt(memory, _columns(state, unknown))
    others = group.copy()
    others[node] = False
    mates, everyone, targets = (np.flatnonzero(rows).tolist() for rows in (group, scope, others))
    for asked in refugees:
        moves_on, reach = asked.row.template.survives_node, targets
        if not moves_on:  # what is recreated takes nothing off the lost node
            asked = replace(asked, index=NOWHERE)
        if moves_on and state.migrates is not None:
            reach = [row for row in targets if state.migrates[node, row]]
        tagged = _tags(state, asked)
        outlooks = _coming(memory, state, asked, reach, now, tagged) if reach else []
        fit = [(row, after) for row, (fits, after) in zip(reach, outlooks, strict=True) if fits]
        if not fit:
            return False
        left = _going(memory, state, asked, now[node], tagged[node]) if moves_on else now[node]
        best = 0
        if len(fit) > 1:
            counted = [now[row] for row in (mates if moves_on else everyone)]
            changes = [(now[row], after) for row, after in fit]
            rows = np.array([row for row, _ in fit])
            crowding = moves.crowding_change(state, asked, rows, group if moves_on else scope)
            found = _best(memory, counted, (now[node], left), changes, crowding)
            if found is None:
                return None
            best = found
        now[node], now[fit[best][0]] = left, fit[best][1]
        for table in (state.tag_counts, state.settled_tag_counts) if len(asked.tags) else ():
            table[asked.tags, fit[best][0]] += 1
            table[asked.tags, node] -= moves_on
    return True


def _best(
    memory: Memory,
    counted: Sequence[Figures],
    first: tuple[Figures, Figures],
    changes: Sequence[Any],
    crowding: Any,
) -> int | None:
    """Which change of one node, after a first change of another, leaves those counted best balanced.

    ``crowding`` is what each changes that is no figure of a node. Of those too close to tell the last;
    None if some node has no score.
    """
    now = np.array([memory.shares[node] for node in counted])
    online = np.array([not node[_IS_OFFLINE] for node in counted])
    old, new = (np.array([memory.shares[node] for node in side]) for side in zip(*changes, strict=True))
    number = float(np.count_nonzero(online))
    if not number:
        return len(changes) - 1
    with np.errstate(invalid="ignore", over="ignore"):
        sums = np.add.accumulate(now)[-1]
        if not np.isfinite(sums).all():
            return None
        centred = (now - sums / number) * online[:, np.newaxis]
        figures = sums, np.add.accumulate(centred * centred)[-1] / number
        if first[0] is not first[1]:
            figures = replaced_spread(number, *figures, *(memory.shares[node] for node in first))
        sums, variances = replaced_spread(number, *figures, old, new)
        values = np.where(_SPREADS, np.sqrt(variances), sums) * _WEIGHTS
    scores = np.add.accumulate(values, axis=1)[:, -1] + WEIGHTS[CROWDING] * crowding
    return int(choice.near_best(scores)[-1])
