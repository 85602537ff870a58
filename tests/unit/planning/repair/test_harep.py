"""Plans of repairs: one job each, with its record."""

from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.engine.repair.authorisation import Allowed
from ganeti_htools.engine.repair.records import RepairType, parse
from ganeti_htools.engine.repair.states import Condition, initial_state
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.model.tags import AUTOREPAIR
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.repair import harep
from ganeti_htools.planning.repair.harep import HAREP, RepairOptions, RepairPlan
from ganeti_htools.planning.view import View
from tests.support.worlds import ANY, instance, world

NOW = RepairOptions(now=1000)
REINSTALL = f"{AUTOREPAIR}reinstall"


def broken(*tags: str, cluster_tags: tuple[str, ...] = (REINSTALL,), **node: Any) -> Cluster:
    """The world with the first node offline, these tags on the mirrored instance, and a secondary lost."""
    rows = world().cluster
    changes = {"offline": True} | node
    return replace(
        rows,
        groups=(Group("default", "uuid", ipolicy=ANY),),
        tags=cluster_tags,
        iallocator="chooser",
        nodes=tuple(replace(row, **changes) if row.name == "one" else row for row in rows.nodes),
        instances=(
            instance("halved", DiskTemplate.DRBD, "three", "one"),
            *(replace(row, tags=tags) if row.name == "mirrored" else row for row in rows.instances),
        ),
    )


def planned(cluster: Cluster, options: RepairOptions = NOW) -> RepairPlan:
    return harep.plan(harep.state_of(cluster, options), options)


def titles(plan: RepairPlan) -> list[str]:
    return [job.title for jobs in plan.jobs() for job in jobs]


def test_plans_failovers_first() -> None:
    plan = planned(broken())
    assert titles(plan) == ["mirrored: failover", "halved: fix-storage", "stuck: reinstall"]
    assert plan.cost() == {
        "moves": {"failover": 1, "fix-storage": 1, "reinstall": 1},
        "disk_mib": 500,
        "memory_mib": 0,
        "jobsets": 3,
    }
    assert titles(planned(broken(), replace(NOW, most=1))) == ["mirrored: failover"]
    assert titles(planned(broken(), replace(NOW, group="default", shared=True)))[1] == "shared: failover"
    with pytest.raises(HtoolsError, match="unknown node group"):
        planned(broken(), replace(NOW, group="nowhere"))


def test_job_records_a_failure_until_the_repair_has_succeeded() -> None:
    old = f"{AUTOREPAIR}result:failover:old:1:success:7"
    [[job], *_] = planned(broken(old)).jobs()
    names = [opcode["OP_ID"] for opcode in job.opcodes]
    assert names == ["OP_TAGS_SET", "OP_INSTANCE_FAILOVER", "OP_TAGS_DEL", "OP_TAGS_SET"]
    [failed], removed, [succeeded] = (job.opcodes[at]["tags"] for at in (0, 2, 3))
    assert removed == [failed, old]
    assert initial_state("mirrored", [old, failed]).condition is Condition.FAILED
    state = initial_state("mirrored", [succeeded])
    assert (state.condition, state.repair) == (Condition.HEALTHY, parse(succeeded))
    assert state.repair is not None
    assert (state.repair.type, state.repair.time) == (RepairType.FAILOVER, 1000)
    assert planned(broken(old)).jobs() == planned(broken(old)).jobs()
    assert [each.split()[1] for each in job.commands] == ["add-tags", "failover", "remove-tags", "add-tags"]


def test_clusters_iallocator_chooses_nodes() -> None:
    [_, [fixed], [installed]] = planned(broken()).jobs()
    assert fixed.opcodes[1]["iallocator"] == installed.opcodes[1]["iallocator"] == "chooser"
    assert fixed.commands[1] == "gnt-instance replace-disks -I chooser halved"
    [_, [fixed], _] = planned(replace(broken(), iallocator="")).jobs()
    assert fixed.opcodes[1]["iallocator"] == "hail"


@pytest.mark.parametrize(
    ("tag", "why"),
    [
        (f"{AUTOREPAIR}suspend", "tags suspend its repairs"),
        (f"{AUTOREPAIR}suspend:1001", "tags suspend its repairs"),
        (f"{AUTOREPAIR}suspend:1000", None),
        (f"{AUTOREPAIR}fix-storage", "it needs failover, and tags allow repairs up to fix-storage"),
        (f"{AUTOREPAIR}failover", None),
        (f"{AUTOREPAIR}pending:failover:x:1:7", "the next run of harep records the end of its last repair"),
        (f"{AUTOREPAIR}result:failover:x:1:failure:7", "a repair has failed, or goes on"),
        (f"{AUTOREPAIR}result:failover:x:1:enoperm:", None),
        ("htools:fixed", "it has the tag htools:fixed"),
    ],
)
def test_refuses_what_tags_do_not_allow(tag: str, why: str | None) -> None:
    plan = planned(broken(tag))
    assert ("mirrored: failover" in titles(plan)) is (why is None)
    assert plan.refused.get("mirrored", "").startswith(why or "")


def test_leaves_nodes_in_maintenance_and_excluded_instances_alone() -> None:
    plan = planned(broken(tags=("htools:maintenance",)))
    assert titles(plan) == []
    assert set(plan.refused.values()) == {"node one is in maintenance"}
    assert planned(broken(), replace(NOW, view=View(exclude_instances=("halved",)))).refused == {
        "halved": "it is excluded"
    }
    nobody = planned(broken(cluster_tags=()))
    assert nobody.refused["mirrored"] == "no tag allows failover"


@pytest.mark.parametrize("up_to", RepairType)
@pytest.mark.parametrize("kind", RepairType)
def test_who_allows_a_repair_allows_less_destructive_ones(up_to: RepairType, kind: RepairType) -> None:
    order = ["fix-storage", "migrate", "failover", "reinstall"]
    assert Allowed(up_to).permits(kind) is (order.index(kind.value) <= order.index(up_to.value))


def reviewed(cluster: Cluster, first: int = 0) -> str | None:
    """The obstacle that a plan for the broken cluster meets before one of its jobs."""
    plan = planned(broken())
    return plan.review("stop", lambda *_lines: None)(cluster, plan.jobs()[first:], first).obstacle


def test_review_stops_repairs_that_are_not_the_next_ones_any_more() -> None:
    assert reviewed(broken()) is None
    assert reviewed(broken(offline=False)) == "mirrored: failover is not needed any more"
    assert reviewed(broken(cluster_tags=())) == "mirrored: failover: no tag allows failover"
    # Of a job that moved somebody else nothing is to be seen; a new loss goes first.
    assert reviewed(broken("htools:fixed"), 1) is None
    assert reviewed(broken(), 1) == "failover of mirrored is more urgent"


def test_replans_if_wanted() -> None:
    plan, said = planned(broken()), list[str]()
    now = broken(f"{AUTOREPAIR}suspend")
    found = plan.review("replan", lambda *lines: said.extend(lines))(now, plan.jobs(), 0)
    assert found.plan is not None
    assert [job.title for [job] in found.plan] == ["halved: fix-storage", "stuck: reinstall"]
    assert "New plan: repairs" in said


@pytest.mark.parametrize("pool", [DiskTemplate.DRBD, DiskTemplate.EXT])
def test_refuses_repairs_for_which_no_node_is_left(pool: DiskTemplate) -> None:
    rows = broken()
    place = ("three", "one") if pool is DiskTemplate.DRBD else ("one",)
    tied = replace(instance("halved", pool, *place), tags=tuple(f"htools:node:{each}" for each in place))
    plan = planned(replace(rows, instances=(*rows.instances[1:], tied)), replace(NOW, shared=True))
    assert "mirrored: failover" in titles(plan)
    kind = "fix-storage" if pool is DiskTemplate.DRBD else "failover"
    assert plan.refused["halved"].startswith(f"{kind} finds no node: ")


def test_stopping_review_leaves_out_only_repairs_that_are_not_possible_any_more() -> None:
    plan = planned(broken())
    now = broken(f"{AUTOREPAIR}suspend")
    found = plan.review("stop", lambda *_lines: None)(now, plan.jobs(), 0)
    assert found.obstacle == "mirrored: failover: tags suspend its repairs"
    assert found.plan is not None
    assert [job.title for [job] in found.plan] == ["halved: fix-storage", "stuck: reinstall"]
    found = plan.review("stop", lambda *_lines: None)(broken(cluster_tags=()), plan.jobs(), 0)
    assert found.plan == []


def test_restored_plan_is_the_same_or_refused() -> None:
    state, plan = harep.state_of(broken(), NOW), planned(broken())
    assert HAREP.restore(state, NOW, plan.describe()).jobs() == plan.jobs()
    with pytest.raises(DataError):
        HAREP.restore(state, replace(NOW, most=1), plan.describe())
