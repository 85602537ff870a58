"""All single moves of one instance: why each must not be, or what it would do to the score.

The search for a balancing step tells nobody of them: its bounds rule most of them out unseen. They are
tried here by the functions that it tries the others by.
"""

from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.balancing.balance import Balancing, allowed
from ganeti_htools.engine.balancing.batches import batches_of
from ganeti_htools.engine.balancing.relocate import crowding_change, nodes_after, relocate
from ganeti_htools.engine.explaining.components import scored
from ganeti_htools.engine.rules import affinity, choice
from ganeti_htools.engine.rules.move_kinds import MoveKind
from ganeti_htools.engine.rules.node_rules import FAIL, FITS
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.state import State
from ganeti_htools.model.types import Fail


@dataclass(frozen=True, slots=True)
class PossibleMove:
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


def possible_moves(state: State, scope: Bools, index: int, options: Balancing) -> list[PossibleMove]:
    """All moves of an instance that the options allow, to the online nodes in scope, in node order.

    Empty for an instance on local storage without a copy.
    """
    chosen = np.zeros(len(state.pnode), np.bool_)
    chosen[index] = True
    batches, facts = batches_of(state, chosen)
    result: list[PossibleMove] = []
    targets = np.flatnonzero(scope & ~state.columns.offline)
    targets = targets[(targets != state.pnode[index]) & (targets != state.snode[index])]
    base = choice.base(state, scope, affinity.crowding(state, scope))
    for kind in MoveKind if batches else ():
        if not allowed(facts, batches[0], kind, options)[0]:
            continue
        new = None if not kind.takes_node else targets
        batch = batches[0].take(np.zeros(1 if new is None else len(new), np.int64))
        touched, codes = relocate(facts, batch, kind, options.ignore_soft_errors, new)
        change = crowding_change(facts, batch, kind, new, scope)
        scores, parts = scored(base, touched, change, codes.shape)
        p, s = nodes_after(state, batch, kind, new)
        for i, code in enumerate(codes.tolist()):
            figures = tuple(float(part[i]) for part in parts)
            goal = NOWHERE if new is None else int(new[i])
            fail = None if code == FITS else FAIL[code]
            result.append(PossibleMove(kind, goal, int(p[i]), int(s[i]), fail, float(scores[i]), figures))
    return sorted(result, key=lambda each: each.node)
