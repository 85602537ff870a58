"""Plans between node groups, and the reviews of what is left of them."""

from dataclasses import replace

import pytest

from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.execution.review import Review
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import NamedMove
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.groups import hregroup
from ganeti_htools.planning.groups.hregroup import RegroupOptions, RegroupPlan
from ganeti_htools.planning.plan import OnChange
from tests.support.by_hand import instance, node

DRBD, EXT = DiskTemplate.DRBD, DiskTemplate.EXT


def racks(m: tuple[str, str] = ("a0", "a1"), e: str = "a0") -> Cluster:
    """Node a0 is offline; of its group only a1 is left, which has no room for e."""
    rows = (instance("m", DRBD, *m, mem=500), instance("e", EXT, e, mem=3000))
    sizes = {"a0": 10_000, "a1": 1500, "b0": 10_000, "b1": 10_000}
    used = {name: sum(row.mem for row in rows if row.pnode == name) for name in sizes}
    nodes = (
        replace(node(name, mem, used[name], name[0]), offline=name == "a0") for name, mem in sizes.items()
    )
    return Cluster((Group("a", "a"), Group("b", "b")), tuple(nodes), rows)


@pytest.fixture(name="rest")
def a_plan() -> Jobsets:
    return planned().jobs()


def planned() -> RegroupPlan:
    return hregroup.plan(derive(racks()), RegroupOptions(), lambda _: None)


def review(cluster: Cluster, rest: Jobsets, on_change: OnChange = "stop") -> Review:
    return planned().review(on_change, lambda *_: None)(cluster, rest, 0)


def opcodes(rest: Jobsets) -> dict[str, list[object]]:
    """The kinds of opcodes by the instance that they move."""
    return {
        job.title.split(":")[0]: [opcode["OP_ID"] for opcode in job.opcodes] for jobs in rest for job in jobs
    }


def test_review_accepts_plan_that_fits(rest: Jobsets) -> None:
    assert review(racks(), rest) == Review()


@pytest.mark.parametrize("gone", [1, 2, 3, 4])
def test_review_drops_parts_already_made(rest: Jobsets, gone: int) -> None:
    whole = opcodes(rest)
    assert len(whole["m"]) == 4
    steps = [job.step for jobs in rest for job in jobs]
    (move,) = [step for step in steps if isinstance(step, NamedMove) and step.instance == "m"]
    (primary, secondary) = move.now
    nodes = {1: ("a1", "a0"), 2: ("a1", primary), 3: (primary, "a1"), 4: (primary, secondary)}[gone]
    found = review(racks(nodes), rest)
    assert found.obstacle == "part of the move has already been made: m"
    assert found.plan is not None
    left = {"m": whole["m"][gone:], "e": whole["e"]}
    assert opcodes(found.plan) == {name: ops for name, ops in left.items() if ops}
    assert review(racks(nodes), found.plan) == Review()


def test_review_stops_or_replans_when_an_instance_has_moved(rest: Jobsets) -> None:
    moved = racks(e="b0")
    assert str(review(moved, rest).obstacle).startswith("instance e is on b0")
    assert review(moved, rest).plan is None
    again = review(moved, rest, "replan")
    assert again.plan is not None
    assert list(opcodes(again.plan)) == ["m"]


def test_reported_cluster_has_the_same_free_memory_when_read() -> None:
    state = derive(racks())
    outcome = hregroup.plan(state, RegroupOptions(), lambda _: None).outcome
    after = derive(hregroup.reported(state, outcome.after.state))
    assert after.columns.x_mem.tolist() == state.columns.x_mem.tolist()
    assert after.columns.unallocated.tolist() == outcome.after.state.columns.unallocated.tolist()
