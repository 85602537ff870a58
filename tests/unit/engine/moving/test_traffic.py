from dataclasses import replace

import pytest

from ganeti_htools.engine.moving.traffic import bandwidths, copied, copied_by, seconds
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind, Operation
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Status
from tests.support import by_hand
from tests.support.by_hand import instance


@pytest.mark.parametrize(
    ("kind", "disks", "memory"),
    [
        (MoveKind.FAILOVER, 0, 1000),
        (MoveKind.FAILOVER_TO, 0, 1000),
        (MoveKind.REPLACE_SECONDARY, 1024, 0),
        (MoveKind.REPLACE_AND_FAILOVER, 1024, 1000),
        (MoveKind.REPLACE_PRIMARY, 1024, 2000),
        (MoveKind.FAILOVER_AND_REPLACE, 1024, 1000),
    ],
)
def test_a_running_instance_is_migrated(kind: MoveKind, disks: int, memory: int) -> None:
    row = instance("a", DiskTemplate.DRBD, "n0", "n1")
    assert copied(kind, row) == (disks, memory)
    stopped = instance("a", DiskTemplate.DRBD, "n0", "n1", status=Status.DOWN)
    assert copied(kind, stopped) == (disks, 0)


def test_an_instance_that_is_stopped_and_copied_takes_no_memory_along() -> None:
    row = instance("a", DiskTemplate.PLAIN, "n0")
    assert copied_by([Operation.MOVE], row) == (1024, 0)
    assert copied_by([], row) == (0, 0)


def networks() -> State:
    """Nodes n0 and n1 are fast, n2 is what its group is, n3 has no class that is known."""
    described = by_hand.cluster(
        {f"n{i}": 10_000 for i in range(4)},
        [instance("a", DiskTemplate.DRBD, "n0", "n1"), instance("b", DiskTemplate.EXT, "n0")],
    )
    own = (("nic:fast",), ("nic:fast",), (), ("nic:odd",))
    return derive(
        replace(
            described,
            groups=(replace(described.groups[0], tags=("nic:slow",)),),
            nodes=tuple(replace(node, tags=tags) for node, tags in zip(described.nodes, own, strict=True)),
            tags=(
                "htools:bandwidth:nic",
                "nic:unused",
                "htools:bandwidth:nic:fast::nic:fast::1000",
                "htools:bandwidth:nic:fast::nic:slow::50",
                "htools:bandwidth:nic:slow::nic:slow::200",
            ),
        )
    )


def test_bandwidths() -> None:
    assert bandwidths(networks()).tolist() == [
        [1000, 1000, 50, 100],
        [1000, 1000, 50, 100],
        [50, 50, 200, 100],
        [100, 100, 100, 100],
    ]


def test_the_least_of_several_counts() -> None:
    state = networks()
    nodes = (replace(state.cluster.nodes[0], tags=("nic:fast", "nic:slow")), *state.cluster.nodes[1:])
    assert bandwidths(derive(replace(state.cluster, nodes=nodes)))[1].tolist() == [50, 1000, 50, 100]


@pytest.mark.parametrize(
    ("index", "kind", "node", "expected"),
    [
        (0, MoveKind.FAILOVER, -1, 8 * 1000 / 1000),
        (0, MoveKind.REPLACE_SECONDARY, 2, 8 * 1024 / 50),
        (0, MoveKind.REPLACE_AND_FAILOVER, 2, 8 * 1024 / 50 + 8 * 1000 / 50),
        (0, MoveKind.REPLACE_PRIMARY, 2, 8 * 1000 / 1000 + 8 * 1024 / 50 + 8 * 1000 / 50),
        (0, MoveKind.FAILOVER_AND_REPLACE, 3, 8 * 1000 / 1000 + 8 * 1024 / 100),
        (1, MoveKind.FAILOVER_TO, 3, 8 * 1000 / 100),
    ],
)
def test_seconds(index: int, kind: MoveKind, node: int, expected: float) -> None:
    state = networks()
    row, place = state.cluster.instances[index], (int(state.pnode[index]), int(state.snode[index]))
    assert seconds(row, bandwidths(state), place, kind.parts(node)) == pytest.approx(expected)
    assert seconds(row, bandwidths(state, 0), place, kind.parts(node), 100) == pytest.approx(expected)
