"""All single moves of one instance: why each must not be, or what it would do to the score."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ganeti_htools.engine.balancing.balance import Balancing, allowed
from ganeti_htools.engine.balancing.relocate import crowding_change, muster, nodes_after, relocate
from ganeti_htools.engine.rules import affinity, choice
from ganeti_htools.engine.rules.components import CROWDING
from ganeti_htools.engine.rules.move_kinds import MoveKind
from ganeti_htools.engine.rules.node_rules import FAIL, FITS
from ganeti_htools.engine.rules.score import Statistics, node_values
from ganeti_htools.engine.rules.trial import NodeChange
from ganeti_htools.model.columns import NOWHERE, Bools, Floats
from ganeti_htools.model.state import State
from ganeti_htools.model.types import Fail


@dataclass(frozen=True, slots=True)
class Alternative:
    """A move: rows of the new node (NOWHERE for a failover) and of both nodes afterwards.

    Either ``fail`` says why it must not be, or there is the score with its components (unweighted).
    """

    kind: MoveKind
    node: int
    pnode: int
    snode: int
    fail: Fail | None
    score: float
    components: tuple[float, ...]


def alternatives(state: State, scope: Bools, index: int, options: Balancing) -> list[Alternative]:
    """All moves of an instance that the options allow, to the online nodes in scope, in node order.

    Empty for an instance on local storage without a copy.
    """
    chosen = np.zeros(len(state.pnode), np.bool_)
    chosen[index] = True
    crews, around = muster(state, chosen)
    result: list[Alternative] = []
    targets = np.flatnonzero(scope & ~state.columns.offline)
    targets = targets[(targets != state.pnode[index]) & (targets != state.snode[index])]
    base = choice.base(state, scope, affinity.crowding(state, scope))
    for kind in MoveKind if crews else ():
        if not allowed(around, crews[0], kind, options)[0]:
            continue
        new = None if not kind.takes_node else targets
        crew = crews[0].take(np.zeros(1 if new is None else len(new), np.int64))
        touched, codes = relocate(around, crew, kind, options.ignore_soft_errors, new)
        change = crowding_change(around, crew, kind, new, scope)
        scores, parts = judged(base, touched, change, codes.shape)
        p, s = nodes_after(state, crew, kind, new)
        for i, code in enumerate(codes.tolist()):
            figures = tuple(float(part[i]) for part in parts)
            goal = NOWHERE if new is None else int(new[i])
            fail = None if code == FITS else FAIL[code]
            result.append(Alternative(kind, goal, int(p[i]), int(s[i]), fail, float(scores[i]), figures))
    return sorted(result, key=lambda each: each.node)


def judged(
    base: Statistics, touched: Iterable[NodeChange], crowding: Any, shape: tuple[int, ...]
) -> tuple[Floats, list[Floats]]:
    """Scores, and their components (unweighted), of candidates that touch some of the nodes in ``base``.

    ``crowding`` is the change of the location exclusion score. A component that is no number in ``base``
    stays none.
    """
    sums = list(base.sums)
    sums[CROWDING] = sums[CROWDING] + crowding
    after = replace(base, sums=tuple(sums))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for node in touched:
            old = node_values(node.old)
            after = after.replaced(old, node_values(node.new, (node.old, old)), node.old.offline)
        spreads = zip(after.variances, base.variances, strict=True)
        after = replace(after, variances=tuple(old if np.isnan(old) else new for new, old in spreads))
        parts = [np.broadcast_to(part, shape) for part in after.components()]
        return np.broadcast_to(after.score(), shape), parts
