"""Where the next of many mirrored instances goes."""

from dataclasses import replace

import numpy as np

from ganeti_htools.engine.allocation.solution import last_lowest
from ganeti_htools.engine.capacity.bulk_pairs import PairSearch
from ganeti_htools.engine.rules import choice, placements
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.cluster import Cluster, Group, Node
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import instance, node

NEW = instance("new", DiskTemplate.DRBD, "")
GROUPS = Group("group1", "uuid-1"), Group("group2", "uuid-2")


def search(*nodes: Node, tags: tuple[str, ...] = (), mem: int = 1000) -> PairSearch:
    state = derive(Cluster(GROUPS, nodes, (), tags))
    asked = state.requested_instance(replace(NEW, mem=mem))
    with np.errstate(divide="ignore", invalid="ignore"):
        return PairSearch(state, asked, np.flatnonzero(~state.columns.offline))


def chosen(found: PairSearch, number: int) -> list[tuple[int, ...]]:
    """Where so many instances go, one after the other."""
    places: list[tuple[int, ...]] = []
    with np.errstate(divide="ignore", invalid="ignore"):
        while len(places) < number and (best := found.best()) is not None:
            found.settle(best)
            places.append(tuple(best))
    return places


def test_pairs_are_of_one_group() -> None:
    nodes = node("a"), node("b", group="uuid-2"), node("c"), node("d", group="uuid-2")
    places = chosen(search(*nodes), 4)
    assert {tuple(sorted(place)) for place in places} == {(0, 2), (1, 3)}
    assert places[0] == (3, 1)  # of equal pairs the last


def test_a_group_of_one_node_has_no_place_and_no_failures() -> None:
    found = search(node("a"), node("b", group="uuid-2"))
    assert found.best() is None
    assert not any(found.failures().values())


def test_both_nodes_change() -> None:
    found = search(node("a"), node("b", mem=5_000))
    ((primary, secondary),) = chosen(found, 1)
    columns = found.state.columns
    assert columns.i_mem[[primary, secondary]].tolist() == [1000, 0]
    assert columns.r_mem[[primary, secondary]].tolist() == [0, 1000]
    assert columns.f_dsk.tolist() == [900_000 - 1024] * 2
    assert found.state.peers[primary, secondary] == 1000
    assert (columns.primaries[primary], columns.secondaries[secondary]) == (1, 1)


def test_a_secondary_keeps_free_what_its_worst_primary_needs() -> None:
    """Not what all its primaries need: no two of them are lost at once."""
    found = search(node("a"), node("b"), node("c", mem=2_100))
    places = chosen(found, 40)
    assert len(places) > 8
    assert (found.state.columns.r_mem == found.state.peers.max(axis=0)).all()
    assert not found.state.columns.fail_n1.any()


def test_reasons_are_counted_by_pairs() -> None:
    """Node c can be neither: it rules out two pairs as primary and two as secondary."""
    found = search(node("a"), node("b"), node("c", mem=900))
    assert {fail: number for fail, number in found.failures().items() if number} == {Fail.MEM: 4}
    (scores,) = found.scores()
    assert np.isfinite(scores).tolist() == [[False, True, False], [True, False, False], [False] * 3]


def test_pairs_that_share_no_location_are_better() -> None:
    nodes = node("a", tags=("rack:1",)), node("b", tags=("rack:1",)), node("c", tags=("rack:2",))
    found = search(*nodes, tags=("htools:nlocation:rack",))
    places = chosen(found, 3)
    assert not {(0, 1), (1, 0)}.intersection(places)
    assert found.state.columns.location.tolist() == [0, 0, 0]
    together = search(*nodes[:2], tags=("htools:nlocation:rack",))
    ((primary, _),) = chosen(together, 1)
    assert together.state.columns.location.tolist() == [int(primary == row) for row in range(2)]


def test_where_no_score_is_a_number_the_last_primary_and_its_first_secondary() -> None:
    """One online node reports no memory."""
    nodes = node("a"), node("b"), node("c"), node("d", mem=0, group="uuid-2")
    assert chosen(search(*nodes), 1) == [(2, 0)]


def test_another_amount_is_kept_free_for_each_primary() -> None:
    found = search(*(node(f"n{row}", mem=20_000) for row in range(5)))
    found.state.peers[:] = np.arange(5)[:, np.newaxis] * 10
    found.state.columns.r_mem[:] = found.state.peers.max()
    with np.errstate(divide="ignore", invalid="ignore"):
        again = PairSearch(found.state, found.asked, found.nodes)
    ((primary, secondary),) = chosen(again, 1)
    assert found.state.peers[primary, secondary] == 1000 + 10 * primary


def test_the_same_as_for_one_alone() -> None:
    """By the plain rules, which score each pair by itself."""
    nodes = node("a", mem=9_000), node("b", t_dsk=500_000.0), node("c", t_cpu=32.0), node("d", mem=6_000)
    found, every = search(*nodes), np.arange(4)
    p, s = np.nonzero(every[:, np.newaxis] != every)
    for _ in range(8):
        state = found.state
        trial = placements.allocate_pairs(state, found.asked, p, s, state.peers[p, s])
        scores = np.where(trial.codes == FITS, trial.scores(choice.base(state, every >= 0)), np.inf)
        best = last_lowest(scores)
        assert chosen(found, 1) == [(p[best], s[best])]
