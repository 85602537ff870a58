"""Sets that stay together leave nodes for maintenance as a whole, to the best place of all, and come home."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.allocation.move_parts import try_part
from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.maintenance.emptying import Emptying, concerned, empty_nodes, stays
from ganeti_htools.engine.maintenance.following import follow
from ganeti_htools.engine.maintenance.returning import return_home
from ganeti_htools.engine.rules import placement_rules, settling
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MovePart, Operation
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import MirrorType
from tests.property.test_sets import cases, is_whole, sets_of
from tests.support.placement_rules import TOGETHER, violations

OPTIONS = PlacementOptions()


def mask(number: int, rows: Sequence[int]) -> Bools:
    """Mark some of so many rows."""
    return np.isin(np.arange(number), rows)


def operations(state: State, index: int, leaving: Bools, empty: bool) -> list[Operation] | None:
    """The operations by which an instance leaves; None if it cannot without copying disks."""
    primary, secondary = int(state.pnode[index]), int(state.snode[index])
    if secondary == NOWHERE:
        return [Operation.FAILOVER_TO]
    shut = bool(leaving[secondary] or state.columns.offline[secondary])
    if not leaving[primary]:
        return [Operation.REPLACE_SECONDARY]
    if shut and not empty:
        return None
    first = [Operation.REPLACE_SECONDARY] if shut else []
    return [*first, Operation.FAILOVER, *([Operation.REPLACE_SECONDARY] if empty else [])]


def ways(state: State, index: int, leaving: Bools, empty: bool, exchange: bool) -> Iterator[State]:
    """The states after each way in which one instance leaves, whatever stays together with it.

    ``exchange``: a mirrored instance does not fail over to its secondary, which may remain its secondary.
    """
    needed = operations(state, index, leaving, empty)
    shut, own = leaving | state.columns.offline, {int(state.pnode[index]), int(state.snode[index])}
    group = state.group[state.pnode[index]]
    nodes = [row for row in np.flatnonzero((state.group == group) & ~shut).tolist() if row not in own]
    if exchange and leaving[state.pnode[index]] and (secondary := int(state.snode[index])) != NOWHERE:
        needed = [Operation.REPLACE_SECONDARY, Operation.FAILOVER, Operation.REPLACE_SECONDARY]
        nodes += [] if shut[secondary] else [secondary]
    for chosen in permutations(nodes, sum(each.takes_node for each in needed or ())):
        tried, new = state.copy(), iter(chosen)
        for operation in needed or ():
            part = MovePart(operation, next(new) if operation.takes_node else NOWHERE)
            trial = try_part(placement_rules.without_sets(tried), tried.instance(index), part, OPTIONS)
            if trial.codes[0] != FITS:
                break
            settling.settle(tried, trial)
        else:
            if needed:
                yield tried


def ends(
    state: State, members: Sequence[int], leaving: Bools, empty: bool, exchange: bool = False
) -> Iterator[State]:
    """The states after each way in which all members leave, one after the other."""
    if not members:
        yield state
        return
    for after in ways(state, members[0], leaving, empty, exchange):
        yield from ends(after, members[1:], leaving, empty, exchange)


@settings(max_examples=20, deadline=None)
@given(described=cases, seed=st.integers(0, 1 << 40), empty=st.booleans())
def test_set_leaves_for_the_best_place(described: Cluster, seed: int, empty: bool) -> None:
    """Only one set may move. A single member that is elsewhere joins the others."""
    state, rng = derive(described), Random(seed)
    sets = [each for each in sets_of(described) if len(each) > 1]
    assume(sets)
    members = rng.choice(sets)
    own = sorted({int(state.pnode[members[0]]), *(int(state.snode[row]) for row in members)} - {NOWHERE})
    assume(len({*state.group[own].tolist()}) == 1)  # otherwise a failover leads the set to another group
    leaving = mask(len(state.group), rng.sample(own, rng.randint(1, len(own))))
    rows = [row for row in concerned(state, leaving, empty) if row in members]
    assume(rows)
    assume(is_whole(state, members) or (len(rows) == 1 and leaving[state.pnode[rows[0]]]))
    scope = state.group == state.group[state.pnode[rows[0]]]
    rows.sort(key=lambda row: bool(state.snode[row] == NOWHERE))
    best = None
    for exchange in (False, True)[: 1 + empty]:
        found = ends(state, rows, leaving, empty, exchange)
        scores = [score_of(each, scope) for each in found if is_whole(each, members)]
        best = min(scores, default=None) if best is None else best
    plan = empty_nodes(state, leaving, empty, mask(len(state.pnode), members), OPTIONS)
    kinds = {described.instances[row].template.mirror for row in members}
    if MirrorType.NONE in kinds or placement_rules.fixed(state)[members].any():
        assert not plan.moved
        assert {*rows} <= {row for row, _ in plan.staying}
        return
    assert [each.instance for each in plan.moved] == ([] if best is None else rows)
    assert {row for row, _ in plan.refused} >= (set(rows) if best is None else set())
    if best is not None:
        assert is_whole(plan.state, members)
        assert not set(rows) & {*concerned(plan.state, leaving, empty)}
        assert score_of(opened(plan.state, state), scope) == pytest.approx(best, abs=1e-8)


def reachable(state: State, index: int, leaving: Bools, parts: int = 3) -> bool:
    """Whether some parts bring one instance off the nodes."""
    if index not in concerned(state, leaving, True):
        return True
    choices = [MovePart(Operation.FAILOVER)]
    choices += [MovePart(Operation.REPLACE_SECONDARY, node) for node in range(len(state.group))]
    for part in choices if parts else ():
        tried = state.copy()
        scope = (state.group == state.group[state.pnode[index]]) & ~leaving & ~state.columns.offline
        if follow(tried, index, [part], ~scope, OPTIONS) is None and reachable(
            tried, index, leaving, parts - 1
        ):
            return True
    return False


@settings(max_examples=50, deadline=None)
@given(described=cases, seed=st.integers(0, 1 << 40))
def test_mirrored_instance_leaves_if_any_way_leads_off(described: Cluster, seed: int) -> None:
    state, rng = derive(described), Random(seed)
    alone = [
        row
        for row in np.flatnonzero(state.snode != NOWHERE).tolist()
        if state.group[state.pnode[row]] == state.group[state.snode[row]]
        if not placement_rules.mates(state, row) and stays(state, row) is None
    ]
    assume(alone)
    index = rng.choice(alone)
    leaving = mask(len(state.group), rng.sample(range(len(state.group)), rng.randint(1, 2)))
    assume(index in concerned(state, leaving, True))
    plan = empty_nodes(state, leaving, True, mask(len(state.pnode), [index]), OPTIONS)
    assert bool(plan.moved) == reachable(state, index, leaving)


def opened(after: State, before: State) -> State:
    """A state in which nodes take instances as they did before."""
    columns = after.columns.changed(offline=before.columns.offline)
    return replace(after, columns=columns, cluster=after.to_cluster())


def check_way(state: State, found: Emptying) -> None:
    """Sets are apart only between the moves of their members, and no other rule is broken."""
    now, before = state.copy(), violations(state.cluster)
    whole = [members for members in sets_of(state.cluster) if is_whole(now, members)]
    for move in found.moved:
        now.pnode[move.instance], now.snode[move.instance] = (*move.nodes, NOWHERE)[:2]
        torn = [members for members in whole if not is_whole(now, members)]
        assert all(move.instance in members and move.with_next for members in torn)
        new = violations(now.to_cluster()) - before
        assert all(move.with_next and rule == TOGETHER for rule, *_ in new)
    assert now.pnode.tolist() == found.state.pnode.tolist()
    assert now.snode.tolist() == found.state.snode.tolist()


@settings(max_examples=20, deadline=None)
@given(described=cases, seed=st.integers(0, 1 << 40), empty=st.booleans())
def test_sets_are_apart_only_between_their_own_moves(described: Cluster, seed: int, empty: bool) -> None:
    state, rng = derive(described), Random(seed)
    leaving = mask(len(state.group), rng.sample(range(len(state.group)), rng.randint(1, 2)))
    everybody = np.ones(len(state.pnode), np.bool_)
    found = empty_nodes(state, leaving, empty, everybody, OPTIONS)
    check_way(state, found)
    after = opened(found.state, state)
    homes = {move.instance: (int(state.pnode[move.instance]), NOWHERE) for move in found.moved}
    if empty:
        homes = {row: (home, int(state.snode[row])) for row, (home, _) in homes.items()}
    back = return_home(after, homes, everybody, OPTIONS, safe=rng.random() < 0.5)
    check_way(after, back)
    assert len(back.moved) + len(back.refused) == len(homes)
