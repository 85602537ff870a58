"""Steps of a plan in sets of jobs that can run at the same time (``hbal(1)``, "jobset")."""

from collections.abc import Sequence

from ganeti_htools.engine.balance import Step
from ganeti_htools.model.state import NOWHERE, State


def split(state: State, steps: Sequence[Step]) -> list[list[Step]]:
    """The steps in order, divided so that no two of a set concern the same node.

    ``state`` is that before the first step. As with Ganeti's htools sets are filled from the last step
    to the first, each as far as it goes.
    """
    sets: list[list[Step]] = []
    busy: set[int] = set()
    for step, nodes in reversed(list(zip(steps, _concerned(state, steps), strict=True))):
        if not sets or busy & nodes:
            sets.append([])
            busy = set()
        sets[-1].append(step)
        busy |= nodes
    return [each[::-1] for each in reversed(sets)]


def _concerned(state: State, steps: Sequence[Step]) -> list[set[int]]:
    """For each step the nodes that the instance is on before and after it."""
    placed: dict[int, tuple[int, int]] = {}
    nodes = []
    for step in steps:
        row = step.instance
        before = placed.get(row, (int(state.pnode[row]), int(state.snode[row])))
        placed[row] = step.pnode, step.snode
        nodes.append({*before, *placed[row]} - {NOWHERE})
    return nodes
