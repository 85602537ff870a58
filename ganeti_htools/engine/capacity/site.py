"""Where new instances may go, and what is known of the redundancy of the whole there."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ganeti_htools.engine.allocation.pairs import on_pairs
from ganeti_htools.engine.allocation.solution import Solution
from ganeti_htools.engine.redundancy.global_n1 import Redundancy, assess
from ganeti_htools.engine.redundancy.loss_simulation import Arrivals
from ganeti_htools.engine.rules import affinity, choice
from ganeti_htools.engine.rules.options import Options
from ganeti_htools.model.columns import Bools, Ints, sorted_unique
from ganeti_htools.model.state import Asked, State


@dataclass(frozen=True, slots=True)
class Site:
    """Where instances may go: rows of online ``nodes``; ``ignored`` nodes may be lost without survival."""

    nodes: Ints
    ignored: Bools
    options: Options
    progress: Callable[[int], object] = lambda placed: None
    arrivals: Arrivals = field(default_factory=Arrivals)

    def guards(self, mirrored: bool) -> bool:
        """Whether the redundancy of the whole is looked at when such an instance is placed."""
        return self.options.capacity and not (mirrored and self.options.accept_existing)

    def redundancy(self, state: State) -> Redundancy:
        """What can be said of the redundancy of all nodes."""
        known = assess(state, np.ones(len(state.group), np.bool_), self.options)
        return replace(known, looked=known.looked & ~self.ignored, arrivals=self.arrivals, doubtful={})


def by_group(state: State, nodes: Ints) -> list[Ints]:
    """Positions of the nodes of each group that has a pair."""
    groups = state.group[nodes]
    return [at for group in sorted_unique(groups) if len(at := np.flatnonzero(groups == group)) > 1]


def on_all_pairs(state: State, asked: Asked, site: Site, redundancy: Redundancy) -> Iterator[Solution]:
    """Redundant places for a mirrored instance, in each group in turn."""
    everyone = np.ones(len(state.group), np.bool_)
    base = choice.base(state, everyone, affinity.crowding(state, everyone))
    for at in by_group(state, site.nodes):
        nodes = site.nodes[at]
        yield on_pairs(state, asked, nodes, nodes, base, site.options, redundancy)
