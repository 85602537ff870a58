"""Whether a plan to power nodes down or up can still be carried out."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.moving.named_moves import named
from ganeti_htools.engine.squeezing import candidates, power_group, reserve, squeeze
from ganeti_htools.engine.squeezing.candidates import candidate_pool_for
from ganeti_htools.engine.squeezing.power_plan import ANY, Action, AllowedMoves, PowerPlan, Wishes
from ganeti_htools.engine.squeezing.squeeze import NamedPhase
from ganeti_htools.model.cluster import Cluster, Group, Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind, NamedMove
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance

SMALL = Instance("small", 100, 0, (), 1, auto_balance=False, template=DiskTemplate.EXT)
NOTHING = replace(SMALL, mem=0, vcpus=0)
HUGE = replace(SMALL, mem=9500)
AWAY = NamedMove.of("a", MoveKind.FAILOVER_TO, "n0", ("n2",), ("n0",))


def described(**changes: object) -> Cluster:
    """Three nodes, n0 the master; one instance on n2, whose place or node may be changed."""
    rows = [instance("a", DiskTemplate.EXT, "n2"), instance("b", DiskTemplate.EXT, "n1")]
    made = by_hand.cluster(dict.fromkeys(("n0", "n1", "n2"), 10_000), rows)
    first, *others, last = made.nodes
    return replace(made, nodes=(replace(first, master=True), *others, replace(last, **changes)))  # type: ignore[arg-type]


def obstacle(
    cluster: Cluster,
    action: Action = Action.OFFLINE,
    nodes: tuple[str, ...] = ("n2",),
    steps: tuple[NamedMove, ...] = (AWAY,),
    target: Instance = SMALL,
    soon: int = 9,
) -> str | None:
    state, movable = derive(cluster), np.ones(len(cluster.instances), np.bool_)
    phases, promised = [NamedPhase(action, nodes, steps)], [target] * 2 if action is Action.ONLINE else None
    return squeeze.recheck_phases(state, phases, promised, [target] * 2, movable, soon)


def test_accepts_plan_when_node_will_be_empty() -> None:
    assert obstacle(described()) is None


def test_refuses_plan_when_instance_stays_on_node() -> None:
    left = "instance a would be left on a node that is powered down"
    assert obstacle(described(), steps=()) == left
    more = instance("c", DiskTemplate.DRBD, "n1", "n2")
    cluster = described()
    cluster = replace(cluster, instances=(*cluster.instances, more))
    assert obstacle(cluster) == left.replace("instance a", "instance c")


def test_node_with_only_forthcoming_instances_is_empty() -> None:
    cluster = described()
    rows = tuple(replace(row, forthcoming=row.name == "a") for row in cluster.instances)
    assert obstacle(replace(cluster, instances=rows), steps=()) is None


@pytest.mark.parametrize(
    ("changes", "nodes", "expected"),
    [
        ({"master": True}, ("n2",), "node n2 is the master"),
        ({"offline": True}, ("n2",), "node n2 is offline or drained"),
        ({}, ("n2", "n3"), "node n3 is gone"),
    ],
)
def test_refuses_plan_when_node_is_master_or_offline(
    changes: dict[str, object], nodes: tuple[str, ...], expected: str
) -> None:
    assert obstacle(described(**changes), nodes=nodes) == expected


def test_refuses_plan_when_target_room_is_gone() -> None:
    assert obstacle(described(), target=HUGE) == "nodes would not keep the target resources free"


def test_refuses_step_into_another_group() -> None:
    cluster = described()
    first, *others = cluster.nodes
    parted = replace(
        cluster,
        groups=(*cluster.groups, Group("group2", "uuid-2")),
        nodes=(replace(first, group="uuid-2"), *others),
    )
    assert obstacle(parted) == "instance a would leave its group"


@pytest.mark.parametrize("others", [[], [instance("drbd", DiskTemplate.DRBD, "n0", "n1")]])
def test_no_instance_leaves_its_group(others: list[Instance]) -> None:
    """Nor where DRBD instances are balanced as well: n0 and n1 are both in use, so they would like to."""
    rows = [instance(f"{node}-{row}", DiskTemplate.EXT, node) for row in range(2) for node in ("n2", "n3")]
    rows += [instance(f"a{row}", DiskTemplate.EXT, "n0") for row in range(6)] + others
    made = by_hand.cluster(dict.fromkeys(("n0", "n1", "n2", "n3"), 10_000), rows)
    far = tuple(replace(node, group="uuid-2") for node in made.nodes[2:])
    groups = (*made.groups, Group("group2", "uuid-2"))
    state = derive(replace(made, groups=groups, nodes=(*made.nodes[:2], *far)))
    plan = squeeze.plan(state, [NOTHING] * 2, [NOTHING] * 2, np.ones(len(state.pnode), np.bool_))
    assert plan.action is Action.OFFLINE
    assert plan.steps
    assert np.array_equal(state.group[plan.state.pnode], state.group[state.pnode])
    assert np.array_equal(state.group[plan.state.snode], state.group[state.snode])


@pytest.mark.parametrize(
    ("target", "nodes"),
    [
        # 2 CPUs are 8 virtual ones by the policy's ratio: one for the node, 6 for instances, one is left.
        ({"vcpus": 1}, (2,)),
        ({"vcpus": 2}, ()),
        # 6 instances take 9000 of 10,000 MiB, and a node must not become full.
        ({"mem": 999}, (2,)),
        ({"mem": 1000}, ()),
    ],
)
def test_nodes_are_powered_down_to_the_last_bit_of_room(
    target: dict[str, int], nodes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """12 instances on three nodes, which two of them can share evenly, N+1 aside."""
    monkeypatch.setattr(reserve, "is_empty", lambda _wanted: True)
    rows = [instance(f"i{row}", DiskTemplate.EXT, f"n{row % 3}", mem=1500) for row in range(12)]
    made = by_hand.cluster(dict.fromkeys(("n0", "n1", "n2"), 10_000), rows, t_cpu=2.0)
    n0, n1, n2 = made.nodes
    state = derive(replace(made, nodes=(replace(n0, master=True), replace(n1, master=True), n2)))
    nothing = replace(SMALL, mem=0, vcpus=0)
    wanted = replace(nothing, **target)  # type: ignore[arg-type]
    assert squeeze.plan(state, [nothing], [wanted], np.ones(12, np.bool_)).nodes == nodes


def test_groups_that_have_enough_wait_for_those_that_lack() -> None:
    made = by_hand.cluster(dict.fromkeys(("n0", "n1", "n2", "n3"), 10_000), [])
    asleep = {"group": "uuid-2", "offline": True, "tags": ("htools:standby:auto",)}
    n0, n1, n2, n3 = made.nodes
    nodes = n0, n1, replace(n2, group="uuid-2", f_mem=50), replace(n3, **asleep)  # type: ignore[arg-type]
    state = derive(replace(made, groups=(*made.groups, Group("group2", "uuid-2")), nodes=nodes))
    plan = squeeze.plan(state, [SMALL] * 2, [SMALL] * 2, np.ones(0, np.bool_))
    assert (plan.action, plan.nodes, plan.enough) == (Action.ONLINE, (3,), False)


def test_recheck_of_powering_up() -> None:
    asleep = described(offline=True, tags=("htools:standby:auto",))
    back = NamedMove.of("b", MoveKind.FAILOVER_TO, "n2", ("n1",), ("n2",))
    assert obstacle(asleep, Action.ONLINE, steps=(back,)) is None
    for other in (described(offline=True), described(tags=("htools:standby:auto",))):
        assert obstacle(other, Action.ONLINE, steps=()) == "node n2 is not offline with a standby tag"
    assert obstacle(asleep, Action.ONLINE, nodes=(), steps=(back,)) == "node n2 is offline or drained"
    assert obstacle(described(), Action.ONLINE, nodes=(), steps=(back,)) is None


def spread(nodes: int, mem: int, **changes: object) -> State:
    """Nodes of 10,000 MiB, each with two instances of ``mem``; the first is the master."""
    names = [f"n{row}" for row in range(nodes)]
    rows = [instance(f"{name}-{row}", DiskTemplate.EXT, name, mem=mem) for name in names for row in range(2)]
    made = by_hand.cluster(dict.fromkeys(names, 10_000), rows)
    first, *others = made.nodes
    return derive(replace(made, nodes=(replace(first, master=True), *others), **changes))  # type: ignore[arg-type]


def powered_down(state: State, target: Instance) -> int:
    groups = len(state.policies)
    everyone = np.ones(len(state.pnode), np.bool_)
    found = squeeze.plan(state, [NOTHING] * groups, [target] * groups, everyone)
    assert found.action is (Action.OFFLINE if found.nodes else Action.NOTHING)
    return len(found.nodes)


def test_any_node_that_remains_can_be_lost() -> None:
    """8 instances of 3000 MiB fit on 3 nodes with room for a small one; should one be lost, they do not."""
    assert powered_down(spread(4, 3000), NOTHING) == 1
    assert powered_down(spread(4, 3000), SMALL) == 0
    assert powered_down(spread(5, 900), SMALL) == 3


def test_no_node_is_left_alone() -> None:
    assert powered_down(spread(4, 10), SMALL) == 2
    assert powered_down(spread(2, 10), SMALL) == 0
    assert powered_down(spread(2, 10), NOTHING) == 1


def test_a_group_that_cannot_lose_a_node_stays() -> None:
    """A plain instance would come back nowhere; what moves could all be moved."""
    state = spread(4, 1000)
    large = instance("large", DiskTemplate.PLAIN, "n0", mem=7500)
    first, *rest = state.cluster.nodes
    nodes = (replace(first, f_mem=500), *(replace(node, t_mem=12000.0, f_mem=10_000) for node in rest))
    more = (*state.cluster.instances, large)
    assert powered_down(derive(replace(state.cluster, nodes=nodes, instances=more)), SMALL) > 0
    others = tuple(replace(node, t_mem=6000.0, f_mem=4000) for node in nodes[1:])
    tight = derive(replace(state.cluster, nodes=(nodes[0], *others), instances=more))
    assert powered_down(tight, SMALL) == 0
    assert powered_down(tight, NOTHING) > 0


def test_obstacle_of_redundancy() -> None:
    """n1 has room for what is wanted, but not for what would have to come from n0."""
    cluster = described()
    tight = (cluster.nodes[0], replace(cluster.nodes[1], t_mem=1600.0, f_mem=600), cluster.nodes[2])
    assert obstacle(replace(cluster, nodes=tight)) == "a would not come back after the loss of n0, unlike now"
    assert obstacle(replace(cluster, nodes=tight), target=NOTHING) is None


def test_redundancy_is_checked_after_each_of_the_next_steps_and_in_the_end() -> None:
    """Only n1 could take a from n0, once b is on n0 as well; then n3 takes b."""
    rows = instance("b", DiskTemplate.EXT, "n1", mem=600), instance("a", DiskTemplate.EXT, "n2")
    made = by_hand.cluster({"n0": 10_000, "n1": 1200, "n2": 10_000, "n3": 650}, rows)
    cluster = replace(made, nodes=(replace(made.nodes[0], master=True), *made.nodes[1:]))
    too = NamedMove.of("b", MoveKind.FAILOVER_TO, "n0", ("n1",), ("n0",))
    lost = "a would not come back after the loss of n0, unlike now"
    assert obstacle(cluster, steps=(AWAY, too), soon=0) is None
    assert obstacle(cluster, steps=(AWAY, too), soon=1) == lost
    assert obstacle(cluster, steps=(AWAY,), soon=0) == lost
    last = replace(cluster.nodes[3], offline=True)
    assert obstacle(replace(cluster, nodes=(*cluster.nodes[:3], last)), steps=(AWAY, too), soon=0) == (
        "b would not come back after the loss of n0, unlike now"
    )


@pytest.mark.parametrize("large", [power_group.LARGE, 0])
def test_plan_follows_wishes(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power_group, "LARGE", large)
    state, everyone = spread(6, 100), np.ones(12, np.bool_)

    def found(wishes: Wishes) -> PowerPlan:
        return squeeze.plan(state, [NOTHING], [SMALL], everyone, wishes=wishes)

    assert set(found(ANY).nodes) == {2, 3, 4, 5}
    assert set(found(Wishes(prefer=frozenset({1}))).nodes) > {1}
    assert set(found(Wishes(never=dict.fromkeys((4, 5), "stays"))).nodes) == {1, 2, 3}
    few = found(Wishes(prefer=frozenset({2}), most=2))
    assert len(few.nodes) == 2
    assert 2 in few.nodes
    assert set(few.obstacles.values()) == {"as many nodes as may be are powered down"}
    assert found(Wishes(most=0)).action is Action.NOTHING


def test_obstacles_name_why_nodes_stay() -> None:
    everyone = np.ones(8, np.bool_)
    tight = squeeze.plan(spread(4, 3000), [NOTHING], [SMALL], everyone)
    assert tight.obstacles == dict.fromkeys((1, 2, 3), "the group would not hold N+1")
    full = squeeze.plan(spread(4, 4900), [NOTHING], [NOTHING], everyone)
    assert set(full.obstacles.values()) == {
        "the others have no room for its instances and the target resources"
    }
    lone = squeeze.plan(spread(2, 10), [NOTHING], [SMALL], np.ones(4, np.bool_))
    assert lone.obstacles == {1: "a node would be left alone"}
    rows = [
        instance("plain", DiskTemplate.PLAIN, "n1"),
        instance("drbd", DiskTemplate.DRBD, "n2", "n3"),
    ]
    made = by_hand.cluster(dict.fromkeys(("n0", "n1", "n2", "n3", "n4", "n5"), 10_000), rows)
    first, *others, off, last = made.nodes
    nodes = (replace(first, master=True), *others, replace(off, offline=True), last)
    assert candidates.obstacles_to_power_down(derive(replace(made, nodes=nodes))) == {
        0: "is the master",
        1: "has instances on its own storage",
        2: "has instances on its own storage",
        3: "is secondary node of instances",
        4: "is offline or drained",
    }


def local(template: DiskTemplate, **changes: object) -> State:
    """Four nodes, n0 the master, each with an instance of that template; n3 may be changed."""
    names = [f"n{row}" for row in range(4)]
    rows = [instance(f"{template.value}-{name}", template, name, mem=100) for name in names]
    made = by_hand.cluster(dict.fromkeys(names, 10_000), rows)
    first, *others, last = made.nodes
    nodes = replace(first, master=True), *others, replace(last, **changes)  # type: ignore[arg-type]
    return derive(replace(made, nodes=nodes))


@pytest.mark.parametrize("template", [DiskTemplate.PLAIN, DiskTemplate.FILE])
def test_instances_without_a_mirror_leave_only_if_all_may(template: DiskTemplate) -> None:
    state, everyone = local(template), np.ones(4, np.bool_)
    for allowed in AllowedMoves:
        found = squeeze.plan(state, [NOTHING], [NOTHING], everyone, wishes=Wishes(allowed=allowed))
        assert len(found.nodes) == (3 if allowed is AllowedMoves.ALL else 0)
        assert {step.kind for step in found.steps} <= {MoveKind.MOVE}
        assert {state.pnode[step.instance] for step in found.steps} == set(found.nodes)


def test_what_is_on_a_node_that_is_off_cannot_be_copied() -> None:
    wishes = Wishes(allowed=AllowedMoves.ALL)
    for off in ({"offline": True}, {}):
        state = local(DiskTemplate.PLAIN, **off)
        found = squeeze.plan(state, [NOTHING], [NOTHING], np.ones(4, np.bool_), wishes=wishes)
        assert bool(found.nodes) is not bool(off)


def test_a_plan_that_copies_holds_as_long_as_its_nodes_do() -> None:
    state, everyone = local(DiskTemplate.PLAIN), np.ones(4, np.bool_)
    found = squeeze.plan(state, [NOTHING], [SMALL], everyone, wishes=Wishes(allowed=AllowedMoves.ALL))
    assert found.action is Action.NOTHING  # plain instances come back nowhere should their node be lost
    found = squeeze.plan(state, [NOTHING], [NOTHING], everyone, wishes=Wishes(allowed=AllowedMoves.ALL))
    phases = [NamedPhase(found.action, state.names(found.nodes), list(named(state, found.steps)))]
    assert squeeze.recheck_phases(state, phases, None, [NOTHING], everyone, 0) is None
    less = [replace(node, t_dsk=1.0, f_dsk=0) if node.master else node for node in state.cluster.nodes]
    full = derive(replace(state.cluster, nodes=tuple(less)))
    assert "does not fit" in str(squeeze.recheck_phases(full, phases, None, [NOTHING], everyone, 0))


def in_pool(pool: int | None, capable: str) -> State:
    """A node for each letter, n0 the master: y may be a master candidate, o too but is offline, n may not."""
    state = spread(len(capable), 10)
    nodes = [
        replace(node, master_capable=letter != "n", offline=letter == "o")
        for node, letter in zip(state.cluster.nodes, capable, strict=True)
    ]
    return derive(replace(state.cluster, nodes=tuple(nodes), instances=(), candidate_pool=pool))


@pytest.mark.parametrize(
    ("pool", "capable", "down"),
    [
        (None, "yyyyyy", 5),
        (3, "yyyyyy", 3),
        (6, "yyyyyy", 0),
        (1, "yyyyyy", 5),
        (10, "yyyyyy", 4),  # a pool that is never full: two stay
        (3, "yyynnn", 3),
        (3, "ynnnnn", 5),  # the master itself
        (3, "yyyooo", 0),
    ],
)
def test_the_last_master_candidates_stay(pool: int | None, capable: str, down: int) -> None:
    state = in_pool(pool, capable)
    found = squeeze.plan(state, [NOTHING], [NOTHING], np.ones(0, np.bool_))
    assert len(found.nodes) == down
    others = {row for row, letter in enumerate(capable) if letter == "y"} - {0, *found.nodes}
    assert {found.obstacles[row] for row in others} <= {"is one of the last master candidates"}


def test_master_candidates_that_have_gone_meanwhile() -> None:
    before = in_pool(3, "yyyyyy")
    nodes = before.names(squeeze.plan(before, [NOTHING], [NOTHING], np.ones(0, np.bool_)).nodes)
    for now, why in (
        (before, None),
        (in_pool(4, "yyyyyy"), "too few nodes would be left that can be master candidates"),
    ):
        phases = [NamedPhase(Action.OFFLINE, nodes, [])]
        found = squeeze.recheck_phases(now, phases, None, [NOTHING], np.ones(0, np.bool_), 0)
        assert found == why


def test_candidate_pool_of_a_part_of_the_nodes() -> None:
    """Three of six nodes: what the others are counts, unless they may not be candidates or are offline."""
    for pool, capable, left in ((None, "yyyyyy", None), (4, "yyyyyy", 1), (2, "yyyyyy", 0), (4, "yyynno", 4)):
        cluster = in_pool(pool, capable).cluster
        assert candidate_pool_for(cluster, cluster.nodes[:3]) == left
        assert candidate_pool_for(cluster, cluster.nodes) == pool
