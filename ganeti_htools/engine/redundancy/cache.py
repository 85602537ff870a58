"""Memory between assessments of states with the same nodes and policies."""

from collections.abc import Iterable, Sequence
from typing import Any

from ganeti_htools.engine.redundancy.deltas import (
    PlacementDelta,
    SpreadWeights,
    placement_deltas,
    reserve_delta,
    secondary_deltas,
)
from ganeti_htools.model.columns import Floats
from ganeti_htools.model.state import RequestedInstance, State

# More figures than these are not remembered.
MOST_FIGURES = 1 << 24


class LossCache:
    """The changes that instances make to nodes, by what they need; and suspects.

    Suspects are the nodes whose loss was fatal before, the latest first: where one placement is fatal, the
    next often is for the same reason.
    """

    def __init__(self) -> None:
        self.suspects: list[int] = []
        self._primary: dict[Any, PlacementDelta] = {}
        self._secondary: dict[Any, Floats] = {}
        self._reserve: dict[SpreadWeights, Floats] = {}
        self._instances: dict[int, RequestedInstance] = {}  # by index

    def suspects_first(self, nodes: Iterable[int]) -> list[int]:
        """The nodes, those before all others whose loss was fatal before."""
        nodes = list(nodes)
        likely = [node for node in self.suspects if node in nodes]
        return [*likely, *(node for node in nodes if node not in likely)]

    def suspect(self, node: int) -> None:
        """Remember that the loss of a node was fatal."""
        self.suspects = [node, *(other for other in self.suspects if other != node)]

    def instance(self, state: State, index: int) -> RequestedInstance:
        """The instance of a row, as a placement sees it."""
        row = state.cluster.instances[index]
        known = self._instances.get(index)
        if known is None or (known.row is not row and known.row != row):  # mostly the same object
            known = self._instances[index] = state.instance(index)
        return known

    def primary(
        self, state: State, several: Sequence[RequestedInstance], spreads: SpreadWeights
    ) -> list[PlacementDelta]:
        """The changes by instances that come as primary."""
        return self._deltas(self._primary, placement_deltas, state, several, spreads)

    def secondary(
        self, state: State, several: Sequence[RequestedInstance], spreads: SpreadWeights
    ) -> list[Floats]:
        """The changes by instances that come as secondary, but for reserved memory."""
        return self._deltas(self._secondary, secondary_deltas, state, several, spreads)

    def reserve(self, state: State, spreads: SpreadWeights) -> Floats:
        """The changes for each MiB more that a node keeps free."""
        if spreads not in self._reserve:
            self._reserve[spreads] = reserve_delta(state, spreads)
        return self._reserve[spreads]

    def _deltas(
        self,
        known: dict[Any, Any],
        find: Any,
        state: State,
        several: Sequence[RequestedInstance],
        spreads: SpreadWeights,
    ) -> list[Any]:
        """The deltas of instances; unknown ones are found together, those of each kind in one go."""
        keys = [(_needs(asked), spreads) for asked in several]
        unknown: dict[Any, dict[Any, RequestedInstance]] = {}
        for key, asked in zip(keys, several, strict=True):
            if key not in known:
                unknown.setdefault(_kind(asked), {})[key] = asked
        if unknown and len(known) * len(spreads.rows) * len(state.group) > MOST_FIGURES:
            known.clear()
            return self._deltas(known, find, state, several, spreads)
        for kind in unknown.values():
            known.update(zip(kind, find(state, list(kind.values()), spreads), strict=True))
        return [known[key] for key in keys]


def _needs(asked: RequestedInstance) -> Any:
    """All that decides what an instance changes where it comes to, tags aside."""
    return asked.needs, asked.row.template.survives_node, asked.row.demand


def _kind(asked: RequestedInstance) -> Any:
    """All that instances have in common which differ in amounts only."""
    template, load = asked.row.template, asked.row.load
    return template, load, asked.forthcoming, asked.wants, asked.spindles is None
