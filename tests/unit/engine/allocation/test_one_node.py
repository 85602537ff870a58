"""A new instance goes to the node that leaves the lowest score, if the cluster stays redundant."""

import numpy as np

from ganeti_htools.engine.allocation.one_node import on_nodes
from ganeti_htools.engine.redundancy.checks import Check
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import cluster, instance

STATE = derive(cluster({"a": 10_000, "b": 20_000, "c": 500, "d": 20_000}, []))
ASKED = STATE.requested_instance(instance("new", DiskTemplate.PLAIN, ""))
NODES = np.arange(4)
EVERYONE = np.ones(4, np.bool_)


class Only(Check):
    """Takes a cluster to be redundant with an instance on one of some nodes."""

    def __init__(self, *nodes: int) -> None:
        self.nodes = nodes
        self.asked_of: list[int] = []

    def admissible(self, asked: RequestedInstance, primaries: Ints, secondaries: Ints | None) -> Bools:
        return np.ones(len(primaries), np.bool_)

    def fatal_loss(self, asked: RequestedInstance, primary: int, secondary: int = NOWHERE) -> int:
        self.asked_of.append(primary)
        return NOWHERE if primary in self.nodes else primary


def test_of_equally_good_nodes_the_last_wins() -> None:
    found = on_nodes(STATE, ASKED, NODES, EVERYONE, PlacementOptions(), None)
    assert found.nodes == (3,)
    assert found.failures == {Fail.MEM: 1}
    assert found.successes == 3


def test_the_best_first_until_one_is_redundant() -> None:
    check = Only(0)
    found = on_nodes(STATE, ASKED, NODES, EVERYONE, PlacementOptions(), check)
    assert found.nodes == (0,)
    assert check.asked_of == [3, 1, 0]
    assert found.failures == {Fail.MEM: 1, Fail.N1: 2}
    assert found.successes == 1


def test_none_if_none_is_redundant() -> None:
    found = on_nodes(STATE, ASKED, NODES, EVERYONE, PlacementOptions(), Only())
    assert (found.nodes, found.trial, found.metric) == ((), None, None)
    assert found.failures == {Fail.MEM: 1, Fail.N1: 3}
