"""What hsqueeze would do: the order of its jobs, and what becomes of it when the cluster changes."""

from dataclasses import replace

import pytest

from ganeti_htools.engine.squeezing.power_plan import Action, Phase, PowerPlan
from ganeti_htools.execution.record import RunRecord, record
from ganeti_htools.execution.run import Ending, Run
from ganeti_htools.luxi.opcodes import Signature
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.types import DiskTemplate, Status
from ganeti_htools.planning.plan import Execution
from ganeti_htools.planning.squeezing import hsqueeze
from ganeti_htools.planning.squeezing.hsqueeze import SqueezeOptions, SqueezePlan
from ganeti_htools.planning.squeezing.power_report import unchanged_nodes
from ganeti_htools.records import JSON
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.clusters import Shape
from tests.support.rows import with_master
from tests.support.squeezing import OUTGROWN, outgrown


def ignore(_text: str) -> None:
    """Progress that nobody looks at."""


@pytest.fixture(scope="module")
def spacious() -> Cluster:
    made = with_master(4, Shape(nodes=6, instances=12, templates={"ext": 1}, fill=0.05, down=0))
    return replace(made, nodes=tuple(replace(node, powered=True) for node in made.nodes))


def test_nodes_are_emptied_and_tagged_before_they_are_powered_down(spacious: Cluster) -> None:
    proposal = hsqueeze.HSQUEEZE.propose(spacious, SqueezeOptions(), ignore)
    nodes = proposal.found["nodes"]
    assert proposal.purpose == f"condensing by {len(nodes)} nodes"
    jobs = [job for jobs in proposal.jobs for job in jobs]
    moves = [job for job in jobs if job.step is not None]
    assert moves
    assert [job.title for job in jobs if job not in moves] == [
        *(f"drain {node}" for node in nodes),
        *(f"tag {node}" for node in nodes),
        *(f"mark {node} offline" for node in nodes),
        f"power off {', '.join(nodes)}",
        *(f"untag {node}" for node in nodes),
    ]
    assert jobs[len(nodes) : len(nodes) + len(moves)] == moves
    sizes = [len(jobs) for jobs in (proposal.jobs[0], *proposal.jobs[-4:])]
    assert sizes == [len(nodes)] * 3 + [1, len(nodes)]
    assert proposal.jobs[-2][0].commands == tuple(f"gnt-node power -f off {node}" for node in nodes)


def test_silent_node_holds_up_only_its_own_group() -> None:
    sizes = {f"{group}{number}": 10_000 for group in "ab" for number in range(4)}
    made = by_hand.cluster(
        sizes, [instance("x", DiskTemplate.EXT, "a0"), instance("y", DiskTemplate.EXT, "b0")]
    )
    nodes = [
        replace(row, group=row.name[0], silent=row.name == "a3", offline=row.name == "a3")
        for row in made.nodes
    ]
    rows = replace(made, groups=(Group("a", "a"), Group("b", "b")), nodes=tuple(nodes))
    options = SqueezeOptions(minimal_resources=0.0, target_resources=0.0)
    plan = hsqueeze.plan(hsqueeze.state_of(rows, options), options, ignore)
    assert plan.groups == ("b",)
    assert {name[0] for name in plan.state.names(plan.power.nodes)} == {"b"}
    assert plan.unchanged == {"a": "nodes that are in use do not report: a3"}
    waiting = replace(options, execution=Execution(wait_for_nodes=True))
    assert hsqueeze.plan(plan.state, waiting, ignore).groups == ("a", "b")


def with_mirror() -> Cluster:
    """Four nodes, n0 the master; a mirrored instance on n2 and n3, another one on n3."""
    rows = [instance("drbd", DiskTemplate.DRBD, "n2", "n3"), instance("a", DiskTemplate.EXT, "n3")]
    made = by_hand.cluster(dict.fromkeys(("n0", "n1", "n2", "n3"), 10_000), rows)
    first, *others = made.nodes
    return replace(made, nodes=(replace(first, master=True), *others))


MIRRORS = SqueezeOptions(minimal_resources=0.0, target_resources=1.0, allow_drbd=True)


def test_mirror_is_drained_after_its_instance_has_left() -> None:
    """With both its nodes drained at once the mirrored instance could not fail over."""
    options = replace(MIRRORS, never=("n1",))
    state = hsqueeze.state_of(with_mirror(), options)
    proposal = hsqueeze.HSQUEEZE.propose(with_mirror(), options, ignore)
    assert set(proposal.found["nodes"]) == {"n2", "n3"}
    titles = [job.title for jobs in proposal.jobs for job in jobs]
    moves = [title for title in titles if title.startswith("drbd")]
    drained = [titles.index(f"drain {node}") for node in ("n2", "n3")]
    assert titles.index(moves[-1]) < max(drained) < titles.index("tag n2")
    assert [title for title in titles if "n2" in title or "n3" in title][-1].startswith("untag")
    assert proposal.review("stop", ignore)(with_mirror(), proposal.jobs, 0).obstacle is None
    again = hsqueeze.restore(state, options, proposal.found).jobs()
    assert [job.title for jobs in again for job in jobs] == titles


def test_says_why_a_node_has_to_stay_up() -> None:
    options = replace(MIRRORS, never=("n2",)).sparing({"n3": ["web1", "db1"], "gone": ["web1"]})
    assert hsqueeze.HSQUEEZE.propose(with_mirror(), options, ignore).found["kept"] == {
        "n2": "is in --never",
        "n3": "has resources claimed by db1, web1",
    }


@pytest.mark.parametrize(("node", "late"), [("n3", True), ("n2", False)])
def test_only_the_mirror_is_drained_late(node: str, late: bool) -> None:
    """Nothing fails over to a drained node, as long as the mirror of an instance on another one is there."""
    options = replace(MIRRORS, never=tuple({"n1", "n2", "n3"} - {node}))
    proposal = hsqueeze.HSQUEEZE.propose(with_mirror(), options, ignore)
    assert proposal.found["nodes"] == [node]
    jobs = [job for jobs in proposal.jobs for job in jobs]
    mirrored = [row for row, job in enumerate(jobs) if job.step and job.step.instance == "drbd"]
    assert ([job.title for job in jobs].index(f"drain {node}") > mirrored[-1]) is late


def test_phases_come_one_after_the_other() -> None:
    """The nodes of the second are in use until those of the first are powered down: one takes what leaves."""
    state = hsqueeze.state_of(with_mirror(), MIRRORS)
    first = hsqueeze.plan(state, replace(MIRRORS, never=("n1", "n2")), ignore).power
    then = hsqueeze.plan(first.state, replace(MIRRORS, never=("n2",)), ignore).power
    assert [state.names(plan.nodes) for plan in (first, then)] == [["n3"], ["n1"]]
    both = replace(then, phases=(*first.phases, *then.phases))
    assert both.nodes == (1, 3)
    proposal = SqueezePlan(state, MIRRORS, both).proposal()
    titles = [job.title for jobs in proposal.jobs for job in jobs if job.step is None]
    assert titles == [
        f"{job}{node}{where}"
        for node in ("n3", "n1")
        for job, where in (("drain ", ""), ("tag ", ""), ("mark ", " offline"), ("untag ", ""))
    ]
    again = hsqueeze.restore(state, MIRRORS, proposal.found).power
    assert (again.phases, again.nodes) == (both.phases, both.nodes)
    assert again.state.pnode.tolist() == both.state.pnode.tolist()
    halfway = 1 + next(row for row, jobs in enumerate(proposal.jobs) if jobs[0].title == "untag n3")
    nodes = (replace(node, offline=node.name == "n3") for node in with_mirror().nodes)
    now = replace(with_mirror(), nodes=tuple(nodes), instances=first.state.to_cluster().instances)
    review = proposal.review("stop", ignore)
    assert review(with_mirror(), proposal.jobs, 0).obstacle is None
    assert review(now, proposal.jobs[halfway:], halfway).obstacle is None
    assert "is on" in str(review(with_mirror(), proposal.jobs[halfway:], halfway).obstacle)


def test_replaced_nodes_go_down_after_new_ones_are_up() -> None:
    proposal = hsqueeze.HSQUEEZE.propose(outgrown(), OUTGROWN, ignore)
    assert proposal.purpose == "expanding by 1 nodes, then condensing by 1"
    assert (proposal.found["action"], proposal.found["nodes"]) == ("online", ["large"])
    up, down = proposal.found["phases"]
    assert [(phase["action"], phase["nodes"]) for phase in (up, down)] == [
        ("online", ["large"]),
        ("offline", ["small"]),
    ]
    titles = [job.title for jobs in proposal.jobs for job in jobs]
    drained = titles.index("drain small")
    assert titles.index("mark large online") < drained - up["steps"]
    assert titles[-down["steps"] - 3 : -3] == titles[drained + 1 :][: down["steps"]]
    state = hsqueeze.state_of(outgrown(), OUTGROWN)
    again = hsqueeze.restore(state, OUTGROWN, proposal.found).power
    assert again.phases == hsqueeze.plan(state, OUTGROWN, ignore).power.phases
    assert again.state.columns.offline.tolist() == [False, True, False]
    assert proposal.review("stop", ignore)(outgrown(), proposal.jobs, 0).obstacle is None


def test_node_powered_up_may_go_down_in_a_later_phase() -> None:
    """It is tagged and powered off as any other node then."""
    state = hsqueeze.state_of(outgrown(), OUTGROWN)
    there = replace(state.cluster, nodes=tuple(replace(node, powered=False) for node in state.cluster.nodes))
    up, down = (Phase(action, (2,), ()) for action in (Action.ONLINE, Action.OFFLINE))
    jobs = SqueezePlan(replace(state, cluster=there), OUTGROWN, PowerPlan((up, down), state)).jobs()
    assert [job.title for jobset in jobs for job in jobset] == [
        *("power on large", "mark large online", "untag large"),
        *("drain large", "tag large", "mark large offline", "power off large", "untag large"),
    ]


def test_nothing_to_do_makes_no_jobs(spacious: Cluster) -> None:
    proposal = hsqueeze.HSQUEEZE.propose(
        spacious, SqueezeOptions(target_resources=1e6, minimal_resources=0.0), ignore
    )
    assert (proposal.found["action"], proposal.jobs) == ("nothing", [])


def test_review_stops_or_replans_when_a_node_is_gone(spacious: Cluster) -> None:
    proposal = hsqueeze.HSQUEEZE.propose(spacious, SqueezeOptions(), ignore)
    gone = proposal.found["nodes"][0]
    left = replace(
        spacious,
        nodes=tuple(node for node in spacious.nodes if node.name != gone),
        instances=tuple(row for row in spacious.instances if gone not in (row.pnode, row.snode)),
    )
    assert proposal.review("stop", ignore)(spacious, proposal.jobs, 0).obstacle is None
    assert proposal.review("stop", ignore)(left, proposal.jobs, 0).obstacle == f"node {gone} is gone"
    said: list[str] = []
    review = proposal.review("replan", lambda *texts: said.extend(texts))(left, proposal.jobs, 0)
    assert review.obstacle == f"node {gone} is gone"
    assert review.plan is not None
    assert said[1] == "Planning anew..."
    assert said[2].startswith(("New plan: condensing by ", "New plan: nothing to do"))


def test_each_group_keeps_its_own_standard_instance_free() -> None:
    """A group whose standard instance is too large for its nodes stays, the other does not."""
    std = DEFAULT_IPOLICY.std
    large = replace(DEFAULT_IPOLICY, std=replace(std, memory_size=9000))
    rows = [instance(f"i{row}", DiskTemplate.EXT, f"n{row % 6}") for row in range(12)]
    made = by_hand.cluster({f"n{row}": 10_000 for row in range(6)}, rows)
    first, *others = made.nodes
    far = [replace(node, group="uuid-2") for node in others[2:]]
    groups = made.groups[0], Group("group2", "uuid-2")
    for policies, freed in (
        ((large, DEFAULT_IPOLICY), {"n3", "n4", "n5"}),
        ((DEFAULT_IPOLICY, large), {"n1", "n2"}),
    ):
        cluster = replace(
            made,
            groups=tuple(replace(group, ipolicy=each) for group, each in zip(groups, policies, strict=True)),
            nodes=(replace(first, master=True), *others[:2], *far),
        )
        found = hsqueeze.HSQUEEZE.propose(
            cluster, SqueezeOptions(minimal_resources=0.0, target_resources=1.0), ignore
        ).found
        assert found["nodes"]
        assert set(found["nodes"]) <= freed


def test_drained_node_with_standby_tag_is_not_said_to_lack_the_tag() -> None:
    made = outgrown()
    boss, small, large = made.nodes
    tagged = replace(large, name="tagged", drained=True)
    bare = replace(large, name="bare", tags=())
    spare = replace(large, name="spare")
    state = hsqueeze.state_of(replace(made, nodes=(boss, small, large, tagged, bare, spare)), OUTGROWN)
    found = hsqueeze.plan(state, OUTGROWN, ignore)
    assert found.power.action is Action.ONLINE
    assert unchanged_nodes(state, found.power, OUTGROWN.allowed) == {
        "tagged": "is drained",
        "bare": "has no standby tag",
        "spare": "is not needed",
    }


def with_pair(mem: int = 100) -> Cluster:
    """The same with two instances on n1 that stay together."""
    made = with_mirror()
    pair = [instance(name, DiskTemplate.EXT, "n1", tags=("htools:together:x",), mem=mem) for name in "bc"]
    return replace(made, instances=(*made.instances, *pair))


def test_set_leaves_its_node_in_one_jobset() -> None:
    """Also as part of a plan that is made again from its description."""
    options = replace(MIRRORS, prefer=("n1",), max_nodes=1)
    state = hsqueeze.state_of(with_pair(), options)
    proposal = hsqueeze.HSQUEEZE.propose(with_pair(), options, ignore)
    assert proposal.found["nodes"] == ["n1"]
    again = hsqueeze.restore(state, options, proposal.found)
    assert again.describe() == proposal.found
    moves = [[job.step.instance for job in jobs if job.step] for jobs in proposal.jobs]
    assert [sorted({*names} & {*"bc"}) for names in moves if {*names} & {*"bc"}] == [["b", "c"]]
    check = proposal.review("stop", ignore)
    assert check(with_pair(), proposal.jobs, 0).obstacle is None


def test_node_stays_for_a_set_without_a_place() -> None:
    """Each of its members has one."""
    made, options = with_pair(mem=6000), replace(MIRRORS, target_resources=0.0, never=("n2", "n3"))
    first, full, *others = made.nodes
    full = replace(full, t_mem=13_000.0, f_mem=1000)
    state = hsqueeze.state_of(replace(made, nodes=(first, full, *others)), options)
    kept = unchanged_nodes(state, hsqueeze.plan(state, options, ignore).power, options.allowed)
    assert kept["n1"] == "its instances find no place: b, c"


def test_cost_and_record_call_live_migrations_by_their_name() -> None:
    rows = (replace(row, status=Status.DOWN) if row.name == "i0" else row for row in outgrown().instances)
    made = replace(outgrown(), instances=tuple(rows))
    state = hsqueeze.state_of(made, OUTGROWN)
    found = hsqueeze.plan(state, OUTGROWN, ignore)
    moves = [move for part in found.sets() for jobs in part for move in jobs]
    live = sum("migrate" in move.commands[0] for move in moves)
    counted = found.cost()["moves"]
    assert 0 < live == counted["migrations to any node"]
    assert counted.get("failovers to any node", 0) == len(moves) - live
    done = record(Run(Signature("hsqueeze", "", "", "beef"), found.jobs(), ending=Ending.DONE))
    words = {job["move"]: job["commands"] for jobs in done["not_submitted"] for job in jobs if job["move"]}
    assert all(("migrate" in words[name][0]) == name.startswith("migration") for name in words)
    JSON.read(RunRecord, "", done)
