"""Live migrations off hot nodes: all that the plain rule allows, the best first."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.balancing.balance import candidates
from ganeti_htools.engine.balancing.relief import heat_of, reliefs, worst_hours
from ganeti_htools.engine.moving.traffic import copied
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.relocate import move
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.load import PresentLoad
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.state import State
from ganeti_htools.model.types import MirrorType
from ganeti_htools.planning.view import View, movable
from tests.property import narrow

KINDS = {MirrorType.INTERNAL: MoveKind.FAILOVER, MirrorType.EXTERNAL: MoveKind.FAILOVER_TO}


def plain(
    state: State, node: int, present: PresentLoad, start: float, stop: float
) -> dict[tuple[int, int], tuple[float, ...]]:
    """The rank of each instance and new node, by moves made one at a time and the load summed anew."""
    scope = state.group == state.group[node]
    found = dict[tuple[int, int], tuple[float, ...]]()
    before, level = heat_of(state, present), float(heat_of(state, present).levels[node])
    may = candidates(state, scope, movable(state, View()))
    for index, row in enumerate(state.cluster.instances):
        kind, cores = KINDS.get(row.template.mirror), present.instances.get(row.name, 0.0)
        if not may[index] or state.pnode[index] != node or not row.status.running or not cores or not kind:
            continue
        targets = np.flatnonzero(scope & ~state.columns.offline & (np.arange(len(scope)) != node))
        trial = move(state, state.instance(index), kind, targets if kind.takes_node else None, scope, False)
        for place in np.flatnonzero(trial.codes == FITS).tolist():
            after, only = state.copy(), trial.only(place)
            settling.settle(after, only)
            target, cpus = only.nodes[0], before.carried
            now = max((before.used[target] + cores) / cpus[target], before.pressure[target])
            worst = float(worst_hours(after)[target])
            if max(now, worst) < stop and not state.columns.offline[target]:
                used, pressure = max(before.used[node], cores), before.pressure[node]
                left = max((used - cores) / cpus[node], pressure * (1 - cores / used))
                cool, mib = left <= stop, sum(copied(kind, row))
                found[index, target] = (not cool, mib if cool else left, max(now, worst))
                found[index, NOWHERE] = (level - left,)
    drop = sum(rank[0] for (_, target), rank in found.items() if target == NOWHERE)
    return {key: rank for key, rank in found.items() if key[1] != NOWHERE and level - drop <= start}


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 40))
def test_yields_what_the_plain_rule_allows_best_first(seed: int) -> None:
    rng = Random(seed)
    cluster = narrow.with_profiles(rng, narrow.cluster(rng))
    names = [node.name for node in cluster.nodes]
    present = PresentLoad(
        {row.name: rng.choice((0.0, 0.5, 1.0, 3.0)) for row in cluster.instances if rng.random() < 0.9},
        {name: rng.choice((0.5, 2.0, 7.5)) for name in names if rng.random() < 0.3},
        {name: rng.choice((0.1, 0.9)) for name in names if rng.random() < 0.2},
    )
    state, (stop, start) = derive(cluster), sorted((rng.choice((0.7, 1.5, 5.0)), rng.choice((1.0, 5.0))))
    if state.load is None or "cpu" not in state.load.kinds:
        return
    for node in np.flatnonzero(~state.columns.offline).tolist():
        scope, heat = state.group == state.group[node], heat_of(state, present)
        found = [
            (each.instance, each.nodes[0])
            for each, _ in reliefs(state, scope, movable(state, View()), heat, node, start, stop)
        ]
        expected = plain(state, node, present, start, stop)
        assert {*found} == {*expected}
        assert [np.round(expected[key], 9).tolist() for key in found] == sorted(
            np.round(rank, 9).tolist() for rank in expected.values()
        )
