"""One instance moved off its primary, its secondary or both, to the best place."""

from ganeti_htools.engine.allocation import shortage
from ganeti_htools.engine.allocation.exchange import to_best_pair
from ganeti_htools.engine.allocation.move_parts import check_source, fail_over, too_few_nodes
from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.rules import affinity, choice, settling
from ganeti_htools.engine.rules.limits import PRIMARY, SECONDARY
from ganeti_htools.engine.rules.node_rules import FAIL
from ganeti_htools.engine.rules.relocate import move
from ganeti_htools.model.columns import NOWHERE, Ints
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.moves import KIND, MovePart, Operation
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import EvacMode, MirrorType


def leave(
    state: State,
    asked: RequestedInstance,
    mode: EvacMode,
    group: int,
    targets: Ints,
    options: PlacementOptions,
    reporter: Reporter = SILENT,
) -> list[MovePart]:
    """Move an instance off its nodes, in place; returns the parts of the move. Raises RequestFailed.

    ``mode`` selects the nodes that it leaves, ``targets`` (rows) are the nodes of the group that it may take
    instead.
    """
    operation = _operation(state, asked, mode)
    if operation is Operation.FAILOVER:
        fail_over(state, asked, options, reporter)
        return [MovePart(Operation.FAILOVER)]
    reporter.trying(group, targets)
    if operation is None:
        return to_best_pair(state, asked, group, targets, options, reporter)
    return _to_best_node(state, asked, operation, group, targets, options, reporter)


def _operation(state: State, asked: RequestedInstance, mode: EvacMode) -> Operation | None:
    """Determine the operation that moves an instance, None if it leaves both nodes. Raises RequestFailed."""
    template = asked.row.template
    if not asked.mirrored:
        if template.mirror is MirrorType.NONE:
            raise RequestFailed(f"Instances of type {template.value} cannot be relocated")
        if mode is EvacMode.SECONDARY:
            raise RequestFailed(
                f"Instances with disk template '{template.value}' can't execute change secondary"
            )
        return Operation.FAILOVER_TO
    if state.snode[asked.index] == NOWHERE:
        raise RequestFailed("Instance has no secondary node")
    if mode is EvacMode.PRIMARY:
        return Operation.FAILOVER
    return Operation.REPLACE_SECONDARY if mode is EvacMode.SECONDARY else None


def _to_best_node(
    state: State,
    asked: RequestedInstance,
    operation: Operation,
    group: int,
    targets: Ints,
    options: PlacementOptions,
    reporter: Reporter,
) -> list[MovePart]:
    """Move to the target that leaves the group with the lowest score, in place; returns the parts.

    Raises RequestFailed with the reason against each target if none fits.
    """
    scope, force = state.group == group, options.ignore_soft_errors
    if not len(targets):
        raise RequestFailed(f"Can't find any good node: {too_few_nodes(state, group, 0)}")
    if operation is Operation.REPLACE_SECONDARY:
        check_source(state, asked, targets, "Can't find any good node: ", reporter)
    trial = move(state, asked, KIND[operation], targets, scope, force)
    reporter.judged(targets, trial)
    chosen = choice.best(state, trial, scope, affinity.location_exclusion(state, scope))
    if chosen is None:
        reasons = [
            f" Node {name} failed: {FAIL[code].value};"
            for name, code in zip(state.names(targets.tolist()), trial.codes.tolist(), strict=True)
        ]
        role = PRIMARY if operation is Operation.FAILOVER_TO else SECONDARY
        why = shortage.explain_move(state, trial, targets, role, options)
        raise RequestFailed(f"Can't find any good node: {''.join(reasons)}{f' {why}' if why else ''}")
    settling.settle(state, trial.only(chosen))
    return [MovePart(operation, int(targets[chosen]))]
