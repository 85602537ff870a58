"""Rules about nodes in N+1: new instances count, those that could not come back before do not."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.decide import decide
from ganeti_htools.engine.redundancy.assessment import assess
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import Allocate, Placement
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance


def apart(name: str, pnode: str = "", snode: str | None = None) -> Instance:
    return replace(instance(name, DiskTemplate.DRBD, pnode, snode), tags=("htools:apart:db",))


def chosen(new: Instance, rows: list[Instance], *nodes: str, **sizes: int) -> list[str]:
    state = derive(cluster(dict.fromkeys(nodes, 10_000) | sizes, rows), (new,))
    decision = decide(state, Allocate(Placement(new, new.template.required_nodes)), PlacementOptions())
    assert isinstance(decision.result, tuple)
    return decision.state.names(decision.result[0].nodes)


def test_new_instance_can_fail_over_within_its_rules() -> None:
    """Its secondary is not the primary of another member, and its primary no member's secondary."""
    primary, secondary = chosen(apart("new"), [apart("one", "a", "b")], "a", "b", "c", "d")
    assert primary in ("c", "d")
    assert secondary != "a"


def test_no_place_if_a_member_could_not_fail_over_any_more() -> None:
    """The third node would be allowed, but is too small."""
    with pytest.raises(RequestFailed, match="FailN1"):
        chosen(apart("new"), [apart("one", "a", "b")], "a", "b", c=500)


def test_members_that_could_not_fail_over_before_are_in_nobodys_way() -> None:
    rows = [apart("one", "a", "b"), apart("two", "b", "a")]
    assert chosen(instance("new", DiskTemplate.DRBD, ""), rows, "a", "b", "c")


def test_as_many_members_as_nodes() -> None:
    rows = [apart("one", "a", "b"), apart("two", "b", "a")]
    assert chosen(apart("new"), rows, "a", "b", "c")[0] == "c"


def tagged(name: str, pnode: str, *tags: str, mem: int = 1000) -> Instance:
    return replace(instance(name, DiskTemplate.EXT, pnode, mem=mem), tags=tags)


SHARED = instance("new", DiskTemplate.EXT, "", mem=500)


@pytest.mark.parametrize(
    "rows",
    [
        [tagged("one", "a", "htools:node:a", "htools:node:full")],
        [tagged("one", "a", "htools:together:x"), tagged("two", "full", "htools:together:x", mem=10)],
        [tagged("one", "a", "htools:apart:x"), tagged("two", "b", "htools:apart:x", mem=10)],
    ],
)
def test_loss_that_tags_made_fatal_before_refuses_nobody(rows: list[Instance]) -> None:
    rows.append(tagged("other", "full", mem=800))
    bare = [replace(row, tags=()) for row in rows]
    assert chosen(SHARED, rows, "a", "b", full=1000) == chosen(SHARED, bare, "a", "b", full=1000)


def test_request_that_takes_the_only_place_is_refused_and_the_tag_named() -> None:
    rows = [tagged("one", "a", "htools:node:a", "htools:node:c")]
    state = derive(cluster({"a": 1400, "b": 900, "c": 1400}, rows), (SHARED,))
    assert not assess(state, np.ones(3, np.bool_), PlacementOptions()).fragile().any()
    assert chosen(SHARED, rows, a=1400, b=900, c=1400) == ["b"]
    new = replace(SHARED, tags=rows[0].tags)
    with pytest.raises(RequestFailed, match=r"one \(htools:node:a or htools:node:c\) would not come back"):
        chosen(new, rows, a=1600, b=9000, c=1400)


@pytest.mark.parametrize("kind", ["apart", "together"])
def test_many_common_tags_are_one_rule(kind: str) -> None:
    tags = [f"htools:{kind}:{number}" for number in range(4000)]
    rows = [tagged("one", "a", *tags), tagged("two", "b", *tags), tagged("three", "c", tags[0])]
    rules = derive(cluster(dict.fromkeys("abc", 10_000), rows)).rules
    assert rules is not None
    assert {len(rules.crowds), len(rules.primaries)} == {1, 3}


@pytest.mark.parametrize(
    "rows",
    [
        [tagged("one", "a", "htools:apart:x")],
        [tagged("one", "a", "htools:apart:x"), tagged("two", "b", "htools:apart:x")],
        [tagged("one", "a", "htools:on:nvme"), tagged("two", "a", "htools:node:a")],
        [tagged("one", "a", "htools:together:x"), tagged("two", "a", "htools:together:x")],
        [apart("one", "a", "b"), apart("two", "a", "c")],
    ],
)
def test_rules_leave_proofs_of_redundancy_to_instances_without_rules(rows: list[Instance]) -> None:
    state = derive(cluster(dict.fromkeys("abc", 10_000), rows, tags=("nvme",)))
    assert assess(state, np.ones(3, np.bool_), PlacementOptions()).bounds.proves_all
