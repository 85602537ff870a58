"""Rules about nodes in N+1: new instances count, those that could not come back before do not."""

from dataclasses import replace

import pytest

from ganeti_htools.engine.decide import decide
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
    decision = decide(state, Allocate(Placement(new, 2)), PlacementOptions())
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
