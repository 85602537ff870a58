"""No instance goes to a node that is rebooted with its own, or to one that takes no instances."""

import random

import numpy as np
import pytest

from ganeti_htools.engine.maintenance import rolling
from ganeti_htools.engine.maintenance.rolling import Maintenance, RebootGroup
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State
from tests.support.rows import any_cluster
from tests.support.seeds import few


def reboot_groups(seed: int) -> tuple[State, list[RebootGroup]]:
    rng = random.Random(seed)
    state = derive(any_cluster(rng))
    members = np.array([rng.random() < 0.5 for _ in state.group]) & ~state.columns.offline
    graph = rolling.node_graph(state, members, rng.random() < 0.3)
    smallest = min(graph.colourings().values(), key=len)
    maintenance = Maintenance(rng.random() < 0.5, full=True)
    return state, rolling.reboot_groups(state, members, smallest, maintenance)


@pytest.mark.parametrize("seeds", few(range(60), 600))
def test_new_nodes_stay_in_use(seeds: range) -> None:
    moved = 0
    for seed in seeds:
        try:
            state, groups = reboot_groups(seed)
        except HtoolsError:
            continue
        for group in groups:
            for move in group.relocations:
                new = {move.pnode: state.pnode, move.snode: state.snode}
                nodes = [node for node, old in new.items() if NOWHERE != node != old[move.instance]]
                assert not {*nodes} & {*group.nodes}, (seed, move)
                assert not state.columns.offline[nodes].any(), (seed, move)
                moved += 1
    assert moved > len(seeds)
