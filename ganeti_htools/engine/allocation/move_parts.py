"""Parts of a move off nodes: operations of Ganeti, carried out one by one."""

import numpy as np

from ganeti_htools.engine.allocation import shortage
from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.limits import PRIMARY, SECONDARY
from ganeti_htools.engine.rules.node_rules import FAIL, FITS
from ganeti_htools.engine.rules.relocate import move
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import Ints
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.moves import KIND, MovePart, Operation
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State


def fail_over(
    state: State, asked: RequestedInstance, options: PlacementOptions, reporter: Reporter = SILENT
) -> None:
    """Start a mirrored instance on its secondary, in place. Raises RequestFailed if it must not be."""
    target = state.snode[[asked.index]]
    if state.columns.offline[target[0]]:
        reporter.rejecting(target, "takes no instances")
        raise RequestFailed(f"its secondary {state.cluster.nodes[target[0]].name} takes no instances")
    trial = try_operation(state, asked, Operation.FAILOVER, target, options)
    reporter.judged(trial.pnode, trial)
    if trial.codes[0] != FITS:
        why = shortage.explain_move(state, trial, trial.pnode, PRIMARY, options)
        why = why or shortage.explain_move(state, trial, trial.snode, SECONDARY, options)
        raise RequestFailed(FAIL[int(trial.codes[0])].value + (f"; {why}" if why else ""))
    settling.settle(state, trial)


def too_few_nodes(state: State, group: int, number: int) -> str:
    """Describe that a group (row) has only this ``number`` of further nodes that may take an instance."""
    has = "no" if number == 0 else f"only {number}"
    return f"group {state.cluster.groups[group].name} has {has} other node that is online and not evacuated"


def try_part(state: State, asked: RequestedInstance, part: MovePart, options: PlacementOptions) -> Trial:
    return try_operation(state, asked, part.operation, np.array([part.node]), options)


def try_operation(
    state: State, asked: RequestedInstance, operation: Operation, targets: Ints, options: PlacementOptions
) -> Trial:
    """Try an operation on an instance, with each target (rows) if it takes a node."""
    new = targets if operation.takes_node else None
    return move(state, asked, KIND[operation], new, force=options.ignore_soft_errors)


def check_source(
    state: State, asked: RequestedInstance, targets: Ints, prefix: str, reporter: Reporter
) -> None:
    """Check that disks can be copied from the instance's primary to targets. Raises RequestFailed."""
    primary = int(state.pnode[asked.index])
    lacks = shortage.no_source(state, asked, primary)
    if lacks:
        why = f"its primary {state.cluster.nodes[primary].name} {lacks}"
        reporter.rejecting(targets, why)
        raise RequestFailed(f"{prefix}{why}, which Ganeti requires to replace a secondary")


def carry_out(state: State, asked: RequestedInstance, part: MovePart, options: PlacementOptions) -> None:
    """Carry out a part that fits, in place."""
    settling.settle(state, try_part(state, asked, part, options))
