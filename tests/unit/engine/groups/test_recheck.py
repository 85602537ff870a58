"""Plans between node groups that meet another cluster than they were made for."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.groups import regrouping
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.engine.moving.named_moves import remaining_move
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import NamedMove, Operation
from ganeti_htools.model.tags import NO_INTERGROUP
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import instance, node

F, R, FA = Operation.FAILOVER, Operation.REPLACE_SECONDARY, Operation.FAILOVER_TO
MOVES = (
    NamedMove("m", "", ((R, "b0"), (F, None), (R, "b1")), ("a0", "a1"), ("b0", "b1")),
    NamedMove("e", "", ((FA, "b1"),), ("a0",), ("b1",)),
)
SIZES = {"a0": 9000, "a1": 9000, "b0": 9000, "b1": 9000}


def made(m: tuple[str, str] = ("a0", "a1"), e: str = "a0", mem: int = 1000) -> Cluster:
    rows = (
        instance("m", DiskTemplate.DRBD, *m, mem=mem),
        instance("e", DiskTemplate.EXT, e),
    )
    used = {name: sum(row.mem for row in rows if row.pnode == name) for name in SIZES}
    nodes = tuple(node(name, size, used[name], name[0]) for name, size in SIZES.items())
    return Cluster((Group("a", "a"), Group("b", "b")), nodes, rows)


def now(cluster: Cluster, movable: bool = True) -> Regrouping:
    state = derive(cluster)
    return Regrouping(
        state, RegroupingRules(np.full(len(state.pnode), movable), frozenset(state.group.tolist()))
    )


def obstacle(cluster: Cluster, movable: bool = True) -> str | None:
    return regrouping.recheck_moves(now(cluster, movable), MOVES)


def without(cluster: Cluster, name: str) -> Cluster:
    return replace(cluster, instances=tuple(row for row in cluster.instances if row.name != name))


def changed(cluster: Cluster, name: str, **facts: object) -> Cluster:
    nodes = (replace(row, **facts) if row.name == name else row for row in cluster.nodes)  # type: ignore[arg-type]
    return replace(cluster, nodes=tuple(nodes))


@pytest.mark.parametrize("m", [("a0", "a1"), ("a0", "b0"), ("b0", "a0"), ("b0", "b1")])
def test_partly_moved_instance_continues_its_route(m: tuple[str, str]) -> None:
    after = now(made(m))
    assert regrouping.recheck_moves(after, MOVES) is None
    assert after.state.names([after.state.pnode[0], after.state.snode[0]]) == ["b0", "b1"]


@pytest.mark.parametrize(
    ("m", "left"),
    [(("a0", "a1"), 3), (("a0", "b0"), 2), (("b0", "a0"), 1), (("b0", "b1"), 0), (("a1", "a0"), None)],
)
def test_remaining_move_starts_at_current_nodes(m: tuple[str, str], left: int | None) -> None:
    rest = remaining_move(derive(made(m)), 0, MOVES[0])
    if left is None:
        assert rest is None
        return
    assert rest is not None
    assert (rest.parts, rest.was, rest.now) == (MOVES[0].parts[3 - left :], m, MOVES[0].now)


def test_refuses_move_of_removed_instance() -> None:
    assert obstacle(without(made(), "e")) == "instance e is gone"
    gone = made()
    left = tuple(row for row in gone.nodes if row.name != "b1")
    assert obstacle(replace(gone, nodes=left)) == "instance m cannot go to node b1, which is gone"


def test_refuses_move_of_instance_off_its_route() -> None:
    assert obstacle(made(("a1", "a0"))) == "instance m is on a1, a0, not on a0, a1"
    assert obstacle(made(e="a1")) == "instance e is on a1, not on a0"


def test_refuses_move_that_rules_or_tags_forbid() -> None:
    assert obstacle(made(), movable=False) == "instance m must not be moved"
    closed = replace(made(), tags=(NO_INTERGROUP,))
    assert obstacle(closed) == f"instance m cannot go to group b: the cluster has the tag {NO_INTERGROUP}"


def test_refuses_move_to_offline_node() -> None:
    told = obstacle(changed(made(), "b0", offline=True))
    assert told == "instance m cannot go to node b0, which is offline or drained"


def test_refuses_move_that_no_longer_fits() -> None:
    assert obstacle(made(mem=7900)) is None
    assert obstacle(changed(made(), "b0", t_mem=900.0, f_mem=900)) in (
        "instance m does not fit on b0, b1 any more (FailMem)",
        "instance m does not fit on b0, b1 any more (FailN1)",
    )


def test_refuses_move_that_would_end_between_groups() -> None:
    assert obstacle(changed(made(), "b1", group="a")) == "instance m would be between groups b and a"


def test_refuses_moves_that_make_a_group_worse() -> None:
    # Only b0 can take the instances of b1 should that be lost, and m leaves no room for them there.
    cluster = made(mem=3500)
    more = (instance("x", DiskTemplate.EXT, "b1", mem=4400), instance("y", DiskTemplate.EXT, "b0", mem=500))
    crowded = replace(cluster, instances=(*cluster.instances, *more))
    crowded = changed(changed(crowded, "b1", f_mem=4600), "b0", f_mem=8500)
    assert obstacle(crowded) == "e, y would not come back after the loss of b0, b1, unlike now"
