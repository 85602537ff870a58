"""Classes of instances that a new node cannot distinguish: the rules read equal figures."""

from typing import Any

import numpy as np
import pytest

from ganeti_htools.engine.balancing.new_nodes import SECONDARY_FIGURES, instance_classes
from ganeti_htools.engine.rules.batches import FIGURES, batches_of
from ganeti_htools.engine.rules.limits import NodeRole
from ganeti_htools.engine.rules.resources import LIMITS, RESOURCES, InstanceOnNode
from ganeti_htools.model.cluster import Load
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance

OF_ALL = {"wants", "mirrored", "forthcoming", "disk"}  # the same for a whole batch
LOADS = {"load.cpu", "load.mem", "load.dsk", "load.net"}


class Watched:
    """An instance that notes what is asked about it."""

    def __init__(self, seen: set[str], prefix: str = "") -> None:
        self._seen, self._prefix = seen, prefix

    def __getattr__(self, name: str) -> Any:
        if name in ("row", "load"):
            return Watched(self._seen, "load." if name == "load" else "")
        self._seen.add(self._prefix + name)
        return (1,) if name == "disk" else 1


@pytest.mark.parametrize(
    ("role", "known"),
    [
        (NodeRole.PRIMARY, OF_ALL | LOADS | set(FIGURES)),
        (NodeRole.SECONDARY, OF_ALL | {"load.dsk"} | set(SECONDARY_FIGURES)),
    ],
)
def test_batches_have_every_figure_that_rules_read(role: NodeRole, known: set[str]) -> None:
    columns = derive(by_hand.cluster({"n0": 1000}, [])).columns
    seen: set[str] = set()
    watched: Any = Watched(seen)
    for resource in RESOURCES:
        if role in resource.roles:
            resource.amount(columns, InstanceOnNode(watched))
    for limit in LIMITS:
        if role in limit.roles:
            limit.bound(columns, columns, watched)
    assert seen
    assert seen <= known


def test_secondaries_have_fewer_classes_than_primaries() -> None:
    made = [
        instance("a", DiskTemplate.DRBD, "n0", "n1", mem=100),
        instance("b", DiskTemplate.DRBD, "n1", "n2", mem=100, load=Load(2, 1, 1, 1)),
        instance("c", DiskTemplate.DRBD, "n2", "n0", mem=100),
        instance("d", DiskTemplate.DRBD, "n0", "n2", mem=200),
    ]
    state = derive(by_hand.cluster({"n0": 9000, "n1": 9000, "n2": 9000}, made))
    (batch,), _ = batches_of(state, np.ones(4, np.bool_))
    primary, first = instance_classes(batch, MoveKind.REPLACE_PRIMARY)
    assert primary.tolist() == [0, 1, 0, 2]
    assert first.tolist() == [0, 1, 3]
    assert instance_classes(batch, MoveKind.REPLACE_SECONDARY)[0].tolist() == [0, 0, 0, 1]
