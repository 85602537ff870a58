"""Putting equal instances on nodes, one after the other, each to the best place then.

This is what ``allocation.allocate`` does for one instance, done until no place is left. Between two
placements only the chosen nodes change. The scores of all candidates follow in a few array operations, for
pairs one score for all equal ones.
Additions are made in the order in which Ganeti's htools make them: the same candidates tie then, and of
these the last is chosen.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ganeti_htools.engine.capacity.bulk_one_node import OneNodeSearch
from ganeti_htools.engine.capacity.bulk_pairs import PairSearch
from ganeti_htools.engine.capacity.bulk_search import InstanceNodes
from ganeti_htools.engine.redundancy.assessment import Assessment
from ganeti_htools.engine.rules import settling
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import Ints
from ganeti_htools.model.state import State
from ganeti_htools.model.types import Fail


@dataclass(frozen=True, slots=True)
class Filled:
    """The number of instances placed, and how many candidates each reason rules out for one more.

    ``assessment`` is that of the state with all instances, if there is one.
    """

    placed: int
    failures: dict[Fail, int]
    assessment: Assessment | None = None


def fill(
    state: State,
    row: Instance,
    nodes: Ints,
    first: int = 0,
    limit: int | None = None,
    progress: Callable[[int], object] = lambda placed: None,
) -> Filled:
    """Place instances like ``row``, in place, on ``nodes``, until none fits or ``limit`` is reached.

    They have no tags but those of demands and the usual load, and get numbers from ``first`` on appended to
    their name. Mirrored ones go on pairs within a group. ``nodes`` are rows in order, all online; scores are
    those of all nodes. Only the reserve of each node is checked. ``progress`` is called with the number
    placed.
    """
    asked = state.requested_instance(row)
    placed: list[InstanceNodes] = []
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        search = (PairSearch if asked.mirrored else OneNodeSearch)(state, asked, nodes)
        while limit is None or len(placed) < limit:
            best = search.best()
            if best is None:
                break
            search.settle(best)
            placed.append(best)
            progress(len(placed))
        failures = search.failures()
    rows = [replace(row, name=f"{row.name}-{first + number}") for number in range(len(placed))]
    settling.add_rows(state, asked, rows, placed)
    return Filled(len(placed), failures)
