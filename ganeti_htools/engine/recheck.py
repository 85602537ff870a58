"""A plan looked at again: whether its steps can still be made on a cluster that may have changed.

The rules are those by which steps are found (:mod:`.relocate`, :func:`.balance.allowed`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine import moves
from ganeti_htools.engine.balance import Balancing, Step, allowed, candidates
from ganeti_htools.engine.moves import Kind, Trial
from ganeti_htools.engine.places import FAIL, FITS
from ganeti_htools.engine.relocate import muster, nodes_after, relocate
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.state import State


@dataclass(frozen=True, slots=True)
class NamedStep:
    """A step in names, which hold on other states, too: the instance, what is done, the new node if
    there is one, and the nodes before and after, primary first.
    """

    instance: str
    kind: Kind
    node: str | None
    was: tuple[str, ...]
    now: tuple[str, ...]


def named(state: State, steps: Sequence[Step]) -> Iterator[NamedStep]:
    """The steps of a plan that starts from a state."""
    places = {
        row: (int(state.pnode[row]), int(state.snode[row])) for row in {step.instance for step in steps}
    }
    for step in steps:
        was, now = places[step.instance], (step.pnode, step.snode)
        places[step.instance] = now
        yield NamedStep(
            state.cluster.instances[step.instance].name,
            step.kind,
            None if step.node == NOWHERE else state.cluster.nodes[step.node].name,
            _names(state, *was),
            _names(state, *now),
        )


def _names(state: State, *rows: int) -> tuple[str, ...]:
    return tuple(state.names(row for row in rows if row != NOWHERE))


def obstacle(
    state: State, scope: Bools, steps: Sequence[NamedStep], options: Balancing, movable: Bools
) -> str | None:
    """Make steps one after the other, in place; why one cannot be made, which is where it ends."""
    rows = {instance.name: row for row, instance in enumerate(state.cluster.instances)}
    crews, around = muster(state, candidates(state, scope, movable))
    place = {int(row): (crew, index) for crew in crews for index, row in enumerate(crew.rows)}
    for step in steps:
        row = rows.get(step.instance)
        if row is None:
            return f"instance {step.instance} is gone"
        here = _names(state, int(state.pnode[row]), int(state.snode[row]))
        if here != step.was:
            return f"instance {step.instance} is on {', '.join(here)}, not on {', '.join(step.was)}"
        new = None
        if step.node is not None:
            target = state.nodes.get(step.node)
            if target is None:
                return f"node {step.node} is gone"
            if state.columns.offline[target]:
                return f"node {step.node} is offline or drained"
            if not scope[target]:
                return f"node {step.node} is in another group"
            new = np.array([target])
        if row not in place:
            return f"instance {step.instance} must not be moved"
        crew, index = place[row]
        crew = crew.take(np.array([index]))
        if not allowed(around, crew, step.kind, options)[0]:
            return f"instance {step.instance}: {step.kind.value} is not possible, or not wanted any more"
        touched, codes = relocate(around, crew, step.kind, options.ignore_soft_errors, new)
        if codes[0] != FITS:
            nodes = ", ".join(step.now)
            return f"instance {step.instance} does not fit on {nodes} any more ({FAIL[int(codes[0])].value})"
        primary, secondary = nodes_after(state, crew, step.kind, new)
        moves.settle(state, Trial(state.instance(row), codes, primary, secondary, tuple(touched)))
        around.refresh(np.array([int(node.rows[0]) for node in touched]))
    return None
