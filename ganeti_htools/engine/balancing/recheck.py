"""Check of a plan on a cluster that may have changed, and repetition of a plan on an equal cluster.

The rules are those by which steps are found (:func:`.relocate.relocate`, :func:`.balance.allowed`).
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from ganeti_htools.engine.balancing.balance import allowed, candidates
from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.engine.rules.batches import Batch, NodeFacts, batches_of
from ganeti_htools.engine.rules.node_rules import FAIL, FITS
from ganeti_htools.engine.rules.relocate import settle_and_refresh, try_move
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.moves import Move, NamedMove
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State


def obstacle(
    state: State,
    scope: Bools,
    steps: Iterable[NamedMove],
    options: BalancingOptions,
    movable: Bools,
    after: Callable[[int], str | None] = lambda _row: None,
) -> str | None:
    """Make steps one after the other, in place, up to the first impossible one; returns the reason.

    ``after`` each step, or all steps of a set, it gets the row of an instance, and may object. A set that was
    together must be together whenever all its steps have been made.
    """
    apart = placement_rules.apart(state)
    rows, facts, members = _rows(state), *_members(state, scope, movable, options.unmirrored)
    for step in steps:
        row = rows.get(step.instance)
        if row is None:
            return f"instance {step.instance} is gone"
        here = tuple(state.names(state.nodes_of(row)))
        if here != step.was:
            return f"instance {step.instance} is on {', '.join(here)}, not on {', '.join(step.was)}"
        target = NOWHERE
        if step.node is not None:
            target = state.nodes.get(step.node, NOWHERE)
            if target == NOWHERE:
                return f"node {step.node} is gone"
            if state.columns.offline[target]:
                return f"node {step.node} is offline or drained"
            if not scope[target]:
                return f"node {step.node} is in another group"
        if row not in members:
            return f"instance {step.instance} must not be moved"
        batch, place = members[row]
        if not allowed(facts, batch.take(np.array([place])), step.kind, options)[0]:
            return f"instance {step.instance}: {step.title} is not possible, or not wanted any more"
        trial = try_move(facts, batch, place, step.kind, target, options.ignore_soft_errors)
        if trial.codes[0] != FITS:
            nodes, why = ", ".join(step.now), FAIL[int(trial.codes[0])].value
            return f"instance {step.instance} does not fit on {nodes} any more ({why})"
        settle_and_refresh(facts, trial)
        if not step.with_next and (placement_rules.apart(state) & ~apart)[row]:
            return f"instance {step.instance} would leave instances with which it stays together"
        if not step.with_next and (objection := after(row)):
            return objection
    return None


def retrace(state: State, movable: Bools, steps: Iterable[NamedMove]) -> Iterator[Move]:
    """Make the steps of a plan for an equal state, in place.

    Yields each step once it has been made. Raises DataError if the state differs.
    """
    rows, facts, members = _rows(state), *_members(state, state.everywhere, movable, True)
    for step in steps:
        row = rows.get(step.instance, NOWHERE)
        node = NOWHERE if step.node is None else state.nodes.get(step.node, NOWHERE)
        if row not in members or step.kind.takes_node is (node == NOWHERE):
            raise DataError(f"the plan moves instance {step.instance}, which cannot be moved like that")
        trial = try_move(facts, *members[row], step.kind, node, force=True)
        settle_and_refresh(facts, trial)
        yield Move(row, step.kind.parts(node), trial.nodes, step.score, step.with_next)


def _rows(state: State) -> dict[str, int]:
    return state.rows_by_name()


def _members(
    state: State, scope: Bools, movable: Bools, unmirrored: bool
) -> tuple[NodeFacts, dict[int, tuple[Batch, int]]]:
    """Collect the facts, and the position in its batch of each instance that may be moved."""
    batches, facts = batches_of(state, candidates(state, scope, movable), unmirrored)
    return facts, {int(row): (batch, place) for batch in batches for place, row in enumerate(batch.rows)}
