"""Where the next of many instances goes if scores are equal, or are no numbers."""

import numpy as np

from ganeti_htools.engine.capacity.bulk_one_node import OneNodeSearch
from ganeti_htools.engine.capacity.bulk_pairs import PairSearch
from ganeti_htools.engine.capacity.bulk_search import InstanceNodes
from ganeti_htools.model.cluster import Cluster, Group, Node
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import instance, node

GROUPS = Group("group1", "uuid-1"), Group("group2", "uuid-2")


@np.errstate(divide="ignore", invalid="ignore")
def chosen(kind: type[OneNodeSearch] | type[PairSearch], number: int, *nodes: Node) -> list[InstanceNodes]:
    """Where so many instances go, one after the other."""
    state, places = derive(Cluster(GROUPS, nodes, ())), list[InstanceNodes]()
    template = DiskTemplate.DRBD if kind is PairSearch else DiskTemplate.EXT
    asked = state.requested_instance(instance("new", template, ""))
    found = kind(state, asked, np.flatnonzero(~state.columns.offline))
    while len(places) < number and (best := found.best()) is not None:
        found.settle(best)
        places.append(best)
    return places


def test_of_equal_nodes_the_last_gets_it() -> None:
    places = chosen(OneNodeSearch, 6, node("a"), node("b"), node("c"))
    assert [place.primary for place in places] == [2, 1, 0, 2, 1, 0]


def test_first_node_and_last_pair_where_no_score_is_a_number() -> None:
    """A node reports no memory at all."""
    nodes = node("a"), node("b"), node("c"), node("d", mem=0, group="uuid-2")
    assert chosen(OneNodeSearch, 1, *nodes) == [(0, -1)]
    assert chosen(PairSearch, 1, *nodes) == [(2, 0)]
