"""One instance leaves its primary, its secondary or both: the parts of the move, or the reason against."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ganeti_htools.engine.allocation.leave import leave
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.moves import MovePart, Operation
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.tags import MAINTENANCE
from ganeti_htools.model.types import DiskTemplate, EvacMode
from tests.support.by_hand import cluster, instance

DRBD, EXT, PLAIN = range(3)
FAILOVER = MovePart(Operation.FAILOVER)


def state_of() -> State:
    """Each kind of instance on a, the mirrored one with its copy on b; c is full, d and e are empty."""
    here = [
        instance("drbd", DiskTemplate.DRBD, "a", "b"),
        instance("ext", DiskTemplate.EXT, "a"),
        instance("plain", DiskTemplate.PLAIN, "a"),
        instance("large", DiskTemplate.PLAIN, "c", mem=9_500),
    ]
    return derive(cluster(dict.fromkeys("abcde", 10_000), here))


def left(
    state: State, index: int, mode: EvacMode, targets: str = "cde"
) -> tuple[list[MovePart], tuple[int, int]]:
    """The parts of the move, and the nodes that the instance has then."""
    rows = np.array([state.nodes[name] for name in targets], np.int64)
    parts = leave(state, state.instance(index), mode, 0, rows, PlacementOptions())
    return parts, (int(state.pnode[index]), int(state.snode[index]))


@pytest.mark.parametrize(
    ("index", "mode", "parts", "nodes"),
    [
        (DRBD, EvacMode.PRIMARY, [FAILOVER], (1, 0)),
        (DRBD, EvacMode.SECONDARY, [MovePart(Operation.REPLACE_SECONDARY, 4)], (0, 4)),
        (EXT, EvacMode.PRIMARY, [MovePart(Operation.FAILOVER_TO, 4)], (4, NOWHERE)),
        (EXT, EvacMode.ALL, [MovePart(Operation.FAILOVER_TO, 4)], (4, NOWHERE)),
    ],
)
def test_operations_of_leaving_instances(
    index: int, mode: EvacMode, parts: list[MovePart], nodes: tuple[int, int]
) -> None:
    """Of the two empty nodes the last is taken."""
    assert left(state_of(), index, mode) == (parts, nodes)


def test_both_nodes_are_left_for_a_pair() -> None:
    parts, nodes = left(state_of(), DRBD, EvacMode.ALL)
    assert set(nodes) == {3, 4}
    assert [part.operation for part in parts].count(Operation.REPLACE_SECONDARY) == 2


def test_only_the_targets_are_taken() -> None:
    assert left(state_of(), EXT, EvacMode.PRIMARY, "d")[1] == (3, NOWHERE)


@pytest.mark.parametrize(
    ("index", "mode", "targets", "why"),
    [
        (PLAIN, EvacMode.PRIMARY, "de", "Instances of type plain cannot be relocated"),
        (
            EXT,
            EvacMode.SECONDARY,
            "de",
            "Instances with disk template 'ext' can't execute change secondary",
        ),
        (
            EXT,
            EvacMode.PRIMARY,
            "",
            "Can't find any good node: group group1 has no other node that is online and not evacuated",
        ),
        (
            EXT,
            EvacMode.PRIMARY,
            "c",
            "Can't find any good node:  Node c failed: FailMem; most missing: memory; closest: c lacks"
            " 501 MiB; counted as FailMem: 1",
        ),
        (
            DRBD,
            EvacMode.SECONDARY,
            "c",
            "Can't find any good node:  Node c failed: FailMem; most missing: memory to be kept free on a"
            " secondary; closest: c lacks 501 MiB; counted as FailMem: 1",
        ),
    ],
)
def test_instance_that_cannot_leave_stays(index: int, mode: EvacMode, targets: str, why: str) -> None:
    state = state_of()
    before = int(state.pnode[index]), int(state.snode[index])
    with pytest.raises(RequestFailed) as failure:
        left(state, index, mode, targets)
    assert str(failure.value) == why
    assert (int(state.pnode[index]), int(state.snode[index])) == before


@pytest.mark.parametrize("change", [{"offline": True}, {"tags": (MAINTENANCE,)}])
@pytest.mark.parametrize(("mode", "closed"), [(EvacMode.PRIMARY, "b"), (EvacMode.ALL, "ab")])
def test_mirrored_instance_stays_when_its_secondary_takes_no_instances(
    change: dict[str, Any], mode: EvacMode, closed: str
) -> None:
    made = state_of().cluster
    nodes = [replace(row, **change) if row.name in closed else row for row in made.nodes]
    with pytest.raises(RequestFailed, match=r"its secondary b takes no instances$"):
        left(derive(replace(made, nodes=tuple(nodes))), DRBD, mode)


def test_a_mirrored_instance_without_a_secondary_cannot_leave() -> None:
    made = state_of().cluster
    bare = replace(made.instances[DRBD], snode=None)
    state = derive(replace(made, instances=(bare, *made.instances[1:])))
    with pytest.raises(RequestFailed, match=r"^Instance has no secondary node$"):
        left(state, DRBD, EvacMode.PRIMARY)


def test_new_secondary_of_an_offline_primary_is_refused_for_the_primary() -> None:
    rows = (instance("a", DiskTemplate.DRBD, "off", "b"),)
    described = cluster({"off": 0, "b": 9000, "c": 9000}, rows)
    off = replace(described.nodes[0], offline=True, f_mem=0, f_dsk=0)
    state = derive(replace(described, nodes=(off, *described.nodes[1:])))
    with pytest.raises(
        RequestFailed, match=r"failed: FailMem; most missing: .*; the primary off is offline;"
    ):
        left(state, 0, EvacMode.SECONDARY, "c")
