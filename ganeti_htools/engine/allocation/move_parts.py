"""What a move off nodes is made of: operations of Ganeti, carried out one by one."""

from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.rules import placements, settling
from ganeti_htools.engine.rules.move_kinds import Operation
from ganeti_htools.engine.rules.node_rules import FAIL, FITS
from ganeti_htools.engine.rules.options import Options
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.state import Asked, State


@dataclass(frozen=True, slots=True)
class MovePart:
    """An operation on the way of an instance; ``node`` is the row of the new node, if it takes one."""

    operation: Operation
    node: int = NOWHERE


def fail_over(state: State, asked: Asked, options: Options, reporter: Reporter = SILENT) -> None:
    """A mirrored instance started on its secondary, in place. Raises RequestFailed if it cannot be."""
    trial = placements.failover(state, asked, np.ones(len(state.group), np.bool_), options.ignore_soft_errors)
    reporter.judged(trial.pnode, trial)
    if trial.codes[0] != FITS:
        raise RequestFailed(FAIL[int(trial.codes[0])].value)
    settling.settle(state, trial)


def tried(state: State, asked: Asked, part: MovePart, options: Options) -> Trial:
    """A part of the way of an instance, tried."""
    scope, force = np.ones(len(state.group), np.bool_), options.ignore_soft_errors
def tried(state: State, asked: Asked, part: MovePart, options: Options) -> Trial:
    """A part of the way of an instance, tried."""
    scope, force = np.ones(len(state.group), np.bool_), options.ignore_soft_errors
    target = np.array([part.node])
    match part.operation:
        case Operation.FAILOVER:
            return placements.failover(state, asked, scope, force)
        case Operation.FAILOVER_TO:
            return placements.failover_to(state, asked, target, scope, force)
        case Operation.REPLACE_SECONDARY:
            return placements.replace_secondary(state, asked, target, force)
        case Operation.MOVE:
            return placements.move_to(state, asked, target, scope, force)


def carry_out(state: State, asked: Asked, part: MovePart, options: Options) -> None:
    """Do a part that has been tried before, so nothing can be against it, in place."""
    settling.settle(state, tried(state, asked, part, options))
