"""What hbal would do, and what becomes of it when the cluster changes."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning import view
from ganeti_htools.planning.balancing import hbal
from ganeti_htools.planning.balancing.hbal import HbalOptions
from ganeti_htools.planning.balancing.node_groups import NoGroupError, select
from ganeti_htools.planning.jobsets import PlannedMove, copying_seconds, jobsets
from ganeti_htools.planning.plan import Proposal
from ganeti_htools.planning.view import View
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.clusters import Shape
from tests.support.rows import with_master

ROWS = [instance(f"i{row}", DiskTemplate.EXT, "n0") for row in range(4)]
CLUSTER = by_hand.cluster(dict.fromkeys(("n0", "n1", "n2"), 10_000), ROWS)
OPTIONS = HbalOptions(balancing=BalancingOptions(min_gain=0.0))


def ignore(_text: str) -> None:
    """Progress that nobody looks at."""


def test_passes_on_each_move_of_a_group() -> None:
    state = view.state_of(CLUSTER, View())
    heard: list[PlannedMove] = []
    progress: list[str] = []
    plan = hbal.balance_group(state, "group1", np.ones(3, np.bool_), OPTIONS, progress.append, heard.append)
    assert heard == plan.moves
    assert len(heard) > 1
    assert progress[-1].startswith(f"{len(heard)} steps, score ")
    assert (state.pnode == 0).all()
    assert plan.after.pnode.tolist() != state.pnode.tolist()
    assert plan.greedy is None


def test_first_job_group_carries_out_one_jobset() -> None:
    whole = hbal.HBAL.propose(CLUSTER, OPTIONS, ignore)
    first = hbal.HBAL.propose(CLUSTER, replace(OPTIONS, first_job_group=True), ignore)
    assert len(whole.jobs) > 1
    assert [[job.title for job in jobs] for jobs in first.jobs] == [[job.title for job in whole.jobs[0]]]
    assert first.found == whole.found


def test_unknown_group_lists_existing_groups() -> None:
    state = view.state_of(CLUSTER, View())
    (group,) = CLUSTER.groups
    name, scope = select(state, group.uuid)
    assert (name, scope.tolist()) == (group.name, [True] * 3)
    with pytest.raises(NoGroupError) as caught:
        select(state, "nowhere")
    assert caught.value.title == "Node group nowhere not found. Node group list is:"
    assert caught.value.names == (group.name,)


def test_review_accepts_plan_that_fits() -> None:
    proposal = hbal.HBAL.propose(CLUSTER, OPTIONS, ignore)
    said: list[str] = []
    review = proposal.review("replan", said.append)(CLUSTER, proposal.jobs, 0)
    assert (review.obstacle, review.plan, said) == (None, None, [])


def apart(number: int) -> Cluster:
    """The first instances, all on one node, are to be on different ones."""
    rows = [replace(row, tags=("htools:apart:x",)) for row in ROWS[:number]]
    return replace(CLUSTER, instances=(*rows, *ROWS[number:]))


def test_repair_is_restored_and_reviewed() -> None:
    options, cluster = replace(OPTIONS, repair_rules=True), apart(3)
    proposal = hbal.HBAL.propose(cluster, options, ignore)
    assert sum(map(len, proposal.jobs)) == 2
    found = hbal.restore(hbal.state_of(cluster, options), options, proposal.found)
    assert [[job.title for job in jobs] for jobs in found.jobs()] == [
        [job.title for job in jobs] for jobs in proposal.jobs
    ]
    assert proposal.review("stop", ignore)(cluster, proposal.jobs, 0).obstacle is None
    settled = proposal.review("stop", ignore)(apart(0), proposal.jobs, 0)
    assert settled.obstacle == "the remaining moves would not just repair broken rules"


def test_new_plan_keeps_to_what_is_left_of_the_limits() -> None:
    whole = hbal.HBAL.plan(hbal.state_of(CLUSTER, OPTIONS), OPTIONS, ignore)
    moves = [move for part in whole.parts for move in part.moves]
    copied = [move.disk + move.memory for move in moves]
    limits = CopyingOptions(max_copy=sum(copied) + 7, max_moves=len(moves), max_time=1e6)
    plan = replace(whole, options=replace(OPTIONS, copying=limits))
    for rest in range(len(moves) + 1):
        made = sum(copied[: len(moves) - rest])
        left = plan.copying_left(rest)
        assert (left.max_copy, left.max_moves) == (limits.max_copy - made, rest)
        assert left.max_time == pytest.approx(1e6 - made * 8 / 100)
    picked = replace(whole, options=replace(OPTIONS, copying=CopyingOptions(front=3, pick=1)))
    assert picked.copying_left(len(moves)) == CopyingOptions(max_copy=sum(copied))


def test_picked_plan_is_restored_and_planned_anew(short_search: None) -> None:
    options = replace(OPTIONS, copying=CopyingOptions(front=2, pick=1))
    proposal = hbal.HBAL.propose(CLUSTER, options, ignore)
    assert len(proposal.found["front"]) > 1
    found = hbal.restore(hbal.state_of(CLUSTER, options), options, proposal.found)
    assert found.describe() == proposal.found
    assert [[job.title for job in jobs] for jobs in found.jobs()] == [
        [job.title for job in jobs] for jobs in proposal.jobs
    ]
    gone = replace(CLUSTER, instances=CLUSTER.instances[2:])
    assert proposal.review("replan", lambda *_texts: None)(gone, proposal.jobs, 0).obstacle


def test_repair_is_about_no_score() -> None:
    with pytest.raises(DataError, match="expected repair-rules without optimise"):
        HbalOptions(repair_rules=True, optimise=1.0)


def test_review_stops_or_replans_when_instances_are_gone() -> None:
    proposal = hbal.HBAL.propose(CLUSTER, OPTIONS, ignore)
    gone = replace(CLUSTER, instances=CLUSTER.instances[2:])
    stopped = proposal.review("stop", ignore)(gone, proposal.jobs, 0)
    assert stopped.obstacle
    assert stopped.plan is None
    said: list[str] = []
    again = proposal.review("replan", lambda *texts: said.extend(texts))(gone, proposal.jobs, 0)
    assert again.obstacle == stopped.obstacle
    assert again.plan
    assert said == [
        f"The plan does not fit the cluster any more: {stopped.obstacle}",
        "Planning anew...",
        "New plan: rebalancing",
        *(f"  {job.title}" for jobs in again.plan for job in jobs),
    ]


def test_new_plan_counts_moves_already_made() -> None:
    options = replace(OPTIONS, balancing=BalancingOptions(min_gain=0.0, max_length=2))
    proposal = hbal.HBAL.propose(CLUSTER, options, ignore)
    gone = replace(CLUSTER, instances=CLUSTER.instances[2:])
    for made, left in ((0, 2), (1, 1), (2, 0), (3, 0)):
        plan = proposal.review("replan", lambda *_texts: None)(gone, proposal.jobs, made).plan
        assert plan is not None
        assert sum(map(len, plan)) <= left


def groups(**instances: str) -> Cluster:
    """Groups of two nodes each. Of each group the nodes (0 or 1) of its instances are given."""
    parts = [
        by_hand.cluster(
            {f"{name}0": 10_000, f"{name}1": 10_000},
            [instance(f"{name}-{row}", DiskTemplate.EXT, f"{name}{node}") for row, node in enumerate(nodes)],
        )
        for name, nodes in instances.items()
    ]
    return Cluster(
        tuple(
            replace(part.groups[0], name=name, uuid=name) for name, part in zip(instances, parts, strict=True)
        ),
        tuple(
            replace(node, group=name)
            for name, part in zip(instances, parts, strict=True)
            for node in part.nodes
        ),
        tuple(row for part in parts for row in part.instances),
    )


# a is even, b and c are not, c is the worst.
UNEVEN = groups(a="0101", b="0001", c="000000")
ALL, WORST = replace(OPTIONS, all_groups=True), replace(OPTIONS, worst_group=True)


def moved(proposal: Proposal) -> list[str]:
    """The groups of the instances that are moved, in order."""
    names = [job.step.instance[0] for jobs in proposal.jobs for job in jobs if job.step]
    return [name for name, before in zip(names, ["", *names], strict=False) if name != before]


def test_groups_are_ordered_by_falling_score() -> None:
    state = view.state_of(UNEVEN, View())
    selected = hbal.select_groups(state, ALL)
    assert [name for name, _ in selected] == ["c", "b", "a"]
    assert [np.flatnonzero(scope).tolist() for _, scope in selected] == [[4, 5], [2, 3], [0, 1]]
    assert hbal.select_groups(state, WORST)[0][0] == "c"
    with pytest.raises(NoGroupError):
        hbal.select_groups(state, OPTIONS)


def test_group_without_finite_score_comes_last() -> None:
    silent = [replace(node, t_cpu=0.0) if node.name == "c1" else node for node in UNEVEN.nodes]
    state = view.state_of(replace(UNEVEN, nodes=tuple(silent)), View())
    assert [name for name, _ in hbal.select_groups(state, ALL)] == ["b", "a", "c"]


def test_worst_group_is_planned_like_the_group_by_name() -> None:
    proposal = hbal.HBAL.propose(UNEVEN, WORST, ignore)
    alone = hbal.HBAL.propose(UNEVEN, replace(OPTIONS, group="c"), ignore)
    assert (proposal.groups, moved(proposal)) == (("c",), ["c"])
    assert (proposal.jobs, proposal.score, proposal.cost) == (alone.jobs, alone.score, alone.cost)
    assert proposal.found == {"groups": {"c": alone.found}}


def test_worst_group_skips_groups_that_cannot_be_improved() -> None:
    stuck = [replace(row, auto_balance=False) if row.name[0] == "c" else row for row in UNEVEN.instances]
    cluster = replace(UNEVEN, instances=tuple(stuck))
    proposal = hbal.HBAL.propose(cluster, WORST, ignore)
    assert (proposal.groups, moved(proposal)) == (("b",), ["b"])
    assert list(proposal.found["groups"]) == ["c", "b"]
    nothing = replace(UNEVEN, instances=tuple(replace(row, auto_balance=False) for row in stuck))
    worst = hbal.HBAL.propose(nothing, WORST, ignore)
    assert (worst.groups, worst.jobs) == (("c",), [])


def test_all_groups_are_planned_like_each_group_alone() -> None:
    proposal = hbal.HBAL.propose(UNEVEN, ALL, ignore)
    alone = [hbal.HBAL.propose(UNEVEN, replace(OPTIONS, group=name), ignore) for name in "cba"]
    assert (proposal.groups, moved(proposal)) == (("c", "b", "a"), ["c", "b"])
    assert proposal.jobs == [jobs for each in alone for jobs in each.jobs]
    assert proposal.score["after"] == sum(each.score["after"] for each in alone)
    assert proposal.found["groups"] == {name: each.found for name, each in zip("cba", alone, strict=True)}


def test_step_limit_is_for_all_groups_together() -> None:
    whole = hbal.HBAL.propose(UNEVEN, ALL, ignore)
    steps = sum(map(len, whole.jobs))
    options = replace(ALL, balancing=replace(OPTIONS.balancing, max_length=steps - 1))
    assert sum(map(len, hbal.HBAL.propose(UNEVEN, options, ignore).jobs)) == steps - 1


def test_first_job_group_of_all_groups_is_one_jobset() -> None:
    first = hbal.HBAL.propose(UNEVEN, replace(ALL, first_job_group=True), ignore)
    assert first.jobs == hbal.HBAL.propose(UNEVEN, ALL, ignore).jobs[:1]


def test_plan_of_all_groups_is_restored_from_its_description() -> None:
    proposal = hbal.HBAL.propose(UNEVEN, ALL, ignore)
    state = view.state_of(UNEVEN, View())

    assert hbal.restore(state, ALL, proposal.found).jobs() == proposal.jobs
    with pytest.raises(DataError, match=r"^htoolsd has no plan for node group c$"):
        hbal.restore(state, ALL, {"groups": {}})


def test_review_checks_each_group() -> None:
    proposal = hbal.HBAL.propose(UNEVEN, ALL, ignore)
    assert proposal.review("stop", ignore)(UNEVEN, proposal.jobs, 0).obstacle is None
    last = proposal.jobs[-1][0].step
    assert last
    gone = replace(UNEVEN, instances=tuple(row for row in UNEVEN.instances if row.name != last.instance))
    review = proposal.review("replan", lambda *_texts: None)(gone, proposal.jobs, 0)
    assert review.obstacle == f"instance {last.instance} is gone"
    assert review.plan == hbal.HBAL.propose(gone, ALL, ignore).jobs != proposal.jobs
    # Of the first group all has been done.
    rest = [jobs for jobs in proposal.jobs if jobs[0].step and jobs[0].step.instance[0] == "b"]
    done = replace(UNEVEN, instances=tuple(row for row in UNEVEN.instances if row.name[0] != "c"))
    assert proposal.review("stop", ignore)(done, rest, 0).obstacle is None


def test_review_rejects_instance_that_left_its_group() -> None:
    proposal = hbal.HBAL.propose(UNEVEN, ALL, ignore)
    first = proposal.jobs[0][0].step
    assert first
    went = [replace(row, pnode="a0") if row.name == first.instance else row for row in UNEVEN.instances]
    review = proposal.review("stop", ignore)(replace(UNEVEN, instances=tuple(went)), proposal.jobs, 0)
    assert review.obstacle == f"instance {first.instance} is on a0, not on {first.was[0]}"


def test_review_fails_when_a_group_is_gone() -> None:
    proposal = hbal.HBAL.propose(UNEVEN, ALL, ignore)
    gone = replace(
        UNEVEN,
        groups=tuple(group for group in UNEVEN.groups if group.name != "a"),
        nodes=tuple(replace(node, group="b") if node.group == "a" else node for node in UNEVEN.nodes),
    )
    with pytest.raises(HtoolsError, match=r"^node group a is gone$"):
        proposal.review("replan", ignore)(gone, proposal.jobs, 0)


def bound(*names: str) -> Cluster:
    """These instances stay together, in a cluster where each has its own memory."""
    tags = ("htools:together:x",)
    rows = [replace(row, mem=1000 + 10 * number) for number, row in enumerate(ROWS)]
    rows = [replace(row, tags=tags) if row.name in names else row for row in rows]
    return by_hand.cluster(dict.fromkeys(("n0", "n1", "n2"), 10_000), rows)


def test_set_that_stays_together_moves_within_one_jobset() -> None:
    proposal = hbal.HBAL.propose(bound("i1", "i3"), OPTIONS, ignore)
    moved = [[job.step.instance for job in jobs if job.step] for jobs in proposal.jobs]
    assert ["i1", "i3"] in moved
    assert proposal.cost["jobsets"] == len(moved)
    assert proposal.review("stop", ignore)(bound("i1", "i3"), proposal.jobs, 0).obstacle is None
    found = hbal.restore(hbal.state_of(bound("i1", "i3"), OPTIONS), OPTIONS, proposal.found)
    assert found.describe() == proposal.found
    assert [[job.title for job in jobs] for jobs in found.jobs()] == [
        [job.title for job in jobs] for jobs in proposal.jobs
    ]


def test_review_refuses_to_leave_a_new_member_of_a_set_behind() -> None:
    proposal = hbal.HBAL.propose(bound("i1", "i3"), OPTIONS, ignore)
    ahead = [jobs for jobs in proposal.jobs if "i1: n0" in jobs[0].title]
    review = proposal.review("stop", ignore)(bound("i1", "i2", "i3"), ahead, 0)
    assert review.obstacle == "instance i3 would leave instances with which it stays together"


def test_limits_of_copying_leave_sets_where_they_are(short_search: None) -> None:
    options = replace(OPTIONS, copying=CopyingOptions(max_moves=2))
    proposal = hbal.HBAL.propose(bound("i1", "i3"), options, ignore)
    assert {job.step.instance for jobs in proposal.jobs for job in jobs if job.step} == {"i0", "i2"}


def test_step_limit_never_cuts_a_set() -> None:
    cluster = bound("i0", "i1", "i2", "i3")
    for most, moves in ((3, 0), (4, 4)):
        options = replace(OPTIONS, balancing=BalancingOptions(min_gain=0.0, max_length=most))
        lost = replace(cluster, nodes=(replace(cluster.nodes[0], offline=True), *cluster.nodes[1:]))
        assert len(hbal.HBAL.propose(lost, options, ignore).found["steps"]) == moves


def test_a_search_has_a_default_price_unless_the_options_choose(short_search: None) -> None:
    def price(options: HbalOptions) -> float:
        return hbal.plan(view.state_of(CLUSTER, View()), options, ignore).parts[0].price

    limited, even = CopyingOptions(max_moves=2), CopyingOptions(max_moves=2, most_even=True)
    assert price(replace(OPTIONS, copying=limited)) == price(replace(OPTIONS, optimise=0.01)) > 0
    assert price(OPTIONS) == price(replace(OPTIONS, copying=even)) == 0
    assert price(replace(OPTIONS, copying=CopyingOptions(price=1.0), optimise=0.01)) == 0


def test_measured_speeds_count_where_times_do() -> None:
    long = HbalOptions(balancing=BalancingOptions(long_factor=1.0)).at_speeds({"drbd": 10})
    assert long.copying.speed("drbd") == 10
    assert HbalOptions().at_speeds({"drbd": 10}) == HbalOptions()


def test_moves_at_a_time_shorten_the_time_of_a_plan() -> None:
    cluster, options = with_master(2, Shape(nodes=14, instances=42, templates={"ext": 1})), HbalOptions()
    plan = hbal.HBAL.plan(hbal.state_of(cluster, options), options, ignore)

    def seconds(parallel: int) -> float:
        sets = [jobs for part in plan.parts for jobs in jobsets(part.moves)]
        return copying_seconds(plan.state, sets, options.copying, parallel)

    sizes = [len(jobs) for part in plan.parts for jobs in jobsets(part.moves)]
    assert max(sizes) > 2
    assert seconds(0) == seconds(1) > seconds(2) > seconds(max(sizes))
    assert seconds(1) / seconds(2) <= 2
    assert seconds(max(sizes)) == pytest.approx(seconds(10**12))
