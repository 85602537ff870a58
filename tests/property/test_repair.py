"""Moves that repair broken rules against all sequences of such moves."""

from collections.abc import Iterator
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.balancing.balance import allowed, candidates
from ganeti_htools.engine.balancing.repair import repair
from ganeti_htools.engine.moving.traffic import copied
from ganeti_htools.engine.rules import placement_rules, settling
from ganeti_htools.engine.rules.batches import batches_of
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.relocate import try_move
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import KINDS
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State
from tests.property import narrow
from tests.support.placement_rules import AVOID, NODE, ON, violations, with_rules

OPTIONS = BalancingOptions()


def _case(seed: int) -> Cluster:
    """A cluster with few broken rules, so that all sequences can be tried."""
    rng = Random(seed)
    while True:
        found = with_rules(rng, narrow.cluster(rng), most=0.15)
        if 0 < len(violations(found)) <= 5 and len(found.nodes) <= 5:
            return found


def broken(state: State) -> frozenset[tuple[str, ...]]:
    """What is broken, whichever tag forbids the node of an instance."""
    found = violations(state.to_cluster())
    return frozenset(("node", *each[1:]) if each[0] in (ON, NODE, AVOID) else each for each in found)


def moves(state: State) -> Iterator[tuple[State, int]]:
    """All moves that end a breach and begin none: the states afterwards and the data copied."""
    here, everywhere = broken(state), np.ones(len(state.group), np.bool_)
    movable = ~placement_rules.fixed(state)
    batches, facts = batches_of(state, candidates(state, everywhere, movable))
    nodes = np.flatnonzero(~state.columns.offline).tolist()
    for batch in batches:
        for member, index in enumerate(batch.rows.tolist()):
            for kind in KINDS[batch.mirror]:
                if not allowed(facts, batch.take(np.array([member])), kind, OPTIONS)[0]:
                    continue
                for node in nodes if kind.takes_node else [NOWHERE]:
                    if node in (state.pnode[index], state.snode[index]) and node != NOWHERE:
                        continue
                    trial = try_move(facts, batch, member, kind, node, force=False)
                    if trial.codes[0] == FITS:
                        settling.settle(after := state.copy(), trial)
                        if broken(after) < here:
                            yield after, sum(copied(kind, state.cluster.instances[index]))


def best_rank(state: State) -> tuple[int, int, int]:
    """The fewest breaches left, the fewest moves, and the least data of all sequences of moves."""
    reached, ranks = {(state.pnode.tobytes(), state.snode.tobytes()): (state, 0)}, []
    for number in range(6):
        ranks += [(len(broken(each)), number, volume) for each, volume in reached.values()]
        further: dict[tuple[bytes, bytes], tuple[State, int]] = {}
        for each, volume in reached.values():
            for after, more in moves(each):
                key = after.pnode.tobytes(), after.snode.tobytes()
                if key not in further or further[key][1] > volume + more:
                    further[key] = after, volume + more
        reached = further
    return min(ranks)


@settings(max_examples=25, deadline=None)
@given(described=st.builds(_case, st.integers(0, 1 << 40)))
def test_repairs_most_with_fewest_moves_and_least_data(described: Cluster) -> None:
    state = derive(described)
    everywhere, movable = np.ones(len(state.group), np.bool_), ~placement_rules.fixed(state)
    after, steps = repair(state, everywhere, OPTIONS, movable)
    volume = sum(sum(copied(step.kind, described.instances[step.instance])) for step in steps)
    assert (len(broken(after)), len(steps), volume) == best_rank(state)
    assert broken(after) <= broken(state)
