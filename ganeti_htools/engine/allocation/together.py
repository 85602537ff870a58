"""Instances that stay together (``htools:together``) leave their nodes together, or not at all."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np

from ganeti_htools.engine.rules.placement_rules import eligible, mates
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.state import State
from ganeti_htools.model.types import EvacMode

_TRIED = 32  # nodes, those with most free memory, of which one or two are tried for a whole set

# Moves an instance (row) to some nodes (a mask), in place on a state; raises RequestFailed.
Move = Callable[[State, int, Bools], object]


def in_order(state: State, instances: Sequence[int]) -> list[int]:
    """Sort instances (rows) so that members of a set follow its first member."""
    ordered: dict[int, None] = {}
    for index in instances:
        if index not in ordered:
            ordered |= dict.fromkeys(each for each in (index, *mates(state, index)) if each in instances)
    return list(ordered)


class SetMoves:
    """The moves of one request: ``instances`` (rows) leave nodes, by ``move``.

    ``scope`` marks the nodes that the request allows an instance (row).
    """

    def __init__(
        self,
        state: State,
        instances: Sequence[int],
        move: Move,
        mode: EvacMode,
        scope: Callable[[int], Bools],
    ) -> None:
        self.state, self.instances, self.move, self.mode, self.scope = state, instances, move, mode, scope
        self._found: dict[int, Bools | str] = {}

    def targets(self, index: int) -> Bools:
        """Return the nodes among which the instance finds a place that all its mates find too.

        Raises RequestFailed if there are none.
        """
        if index not in self._found:
            others = mates(self.state, index)
            members = [index, *(each for each in others if each in self.instances)]
            left = [each for each in others if each not in members and self._shares_node(index, each)]
            self._found |= dict.fromkeys(members, self._common(members, left))
        found = self._found[index]
        if isinstance(found, str):
            raise RequestFailed(found)
        return found

    def _shares_node(self, index: int, other: int) -> bool:
        """Whether an instance would leave a node on which another one stays."""
        hosts = self.state.snode if self.mode is EvacMode.SECONDARY else self.state.pnode
        return bool(hosts[index] == hosts[other] != NOWHERE)

    def _common(self, members: Sequence[int], left: Sequence[int]) -> Bools | str:
        """Return the nodes for these members of a set, or the reason against all nodes."""
        everywhere = self.scope(members[0])
        if left:
            return f"it stays together with {self._names(left)}, which the request does not move"
        if len(members) == 1:
            return everywhere
        why = ""
        for nodes in self._choices(members[0], everywhere):
            tried = self.state.copy()
            try:
                for index in members:
                    self.move(tried, index, nodes)
            except RequestFailed as failure:
                why = why or str(failure)
            else:
                return nodes
        return f"no place for all of {self._names(members)}, which stay together: {why}"

    def _names(self, rows: Sequence[int]) -> str:
        return ", ".join(self.state.cluster.instances[row].name for row in rows)

    def _choices(self, index: int, everywhere: Bools) -> Iterator[Bools]:
        """Yield sets of nodes to try for the mates of an instance (row): all, and then one or two of them."""
        yield everywhere
        rows = np.flatnonzero(everywhere & eligible(self.state, self.state.instance(index)))
        roomy = rows[np.argsort(-self.state.columns.unallocated[rows], kind="stable")][:_TRIED]
        for some in combinations(roomy.tolist(), 2 if self.mode is EvacMode.ALL else 1):
            nodes = np.zeros_like(everywhere)
            nodes[list(some)] = True
            yield nodes
