"""Instances that change their node group, and groups that are emptied and removed."""

from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.simulator.opcodes import OpcodeError
from ganeti_htools.simulator.world import lose_node
from tests.support.worlds import ANY, assign, grouped, migrate, move, opcode, replace_disks, role
from tests.unit.simulator.test_logical_units import after, figures, place

(RANGE,) = DEFAULT_IPOLICY.minmax
LARGE = replace(DEFAULT_IPOLICY, minmax=(replace(RANGE, min=replace(RANGE.min, memory_size=1001)),))
NO_DRBD = replace(ANY, disk_templates=(DiskTemplate.PLAIN, DiskTemplate.EXT))
FAIL_OVER = opcode("INSTANCE_FAILOVER", instance_name="shared", target_node="four")


def test_mirrored_instance_changes_group_in_three_steps() -> None:
    steps = (replace_disks("mirrored", "four"), migrate("mirrored"), replace_disks("mirrored", "five"))
    now = after(*steps, start=grouped())
    assert place(now, "mirrored")[:2] == ("four", "five")
    changed = {"one": (2000, 8500), "two": (4000, 9000), "four": (3000, 8500), "five": (4000, 8500)}
    assert figures(now) == figures(grouped()) | changed


def test_instance_of_a_lost_primary_changes_group_over_its_secondary() -> None:
    steps = (
        migrate("mirrored"),
        replace_disks("mirrored", "four"),
        migrate("mirrored"),
        replace_disks("mirrored", "five"),
    )
    start = lose_node(grouped(), "one")
    with pytest.raises(OpcodeError, match="Can't reach node one, the source of the data"):
        after(steps[1], start=start)
    assert place(after(*steps, start=start), "mirrored")[:2] == ("four", "five")


@pytest.mark.parametrize("step", [migrate("shared", target_node="four"), FAIL_OVER])
def test_shared_storage_instance_moves_to_another_group(step: dict[str, Any]) -> None:
    now = after(step, start=grouped())
    assert place(now, "shared")[:2] == ("four", None)
    assert place(after(migrate("shared", target_node="five"), start=now), "shared")[:2] == ("five", None)


@pytest.mark.parametrize(
    ("policy", "step", "named"),
    [
        (DEFAULT_IPOLICY, migrate("shared", target_node="four"), "disk-size"),
        (LARGE, FAIL_OVER, "memory-size"),
        (LARGE, move("stuck", "five"), "memory-size"),
        (LARGE, replace_disks("mirrored", "four"), "memory-size"),
        (
            NO_DRBD,
            replace_disks("mirrored", "four"),
            "disk-",
        ),
    ],
)
def test_policy_of_another_group_is_checked(policy: Any, step: dict[str, Any], named: str) -> None:
    text = rf"^OpPrereqError: Instance does not meet target node group's \(uuid-2\) instance policy: {named}"
    with pytest.raises(OpcodeError, match=text) as caught:
        after(step, start=grouped(policy))
    assert caught.value.encoded[1][1] == "wrong_input"
    after({**step, "ignore_ipolicy": True}, start=grouped(policy))


def test_policy_of_the_own_group_is_not_checked() -> None:
    start = grouped()
    first, second = start.cluster.groups
    tight = replace(start, cluster=replace(start.cluster, groups=(replace(first, ipolicy=LARGE), second)))
    for step in (
        migrate("shared", target_node="two"),
        replace_disks("mirrored", "three"),
        move("stuck", "two"),
    ):
        after(step, start=tight)


def test_migration_to_a_secondary_in_another_group_checks_its_policy() -> None:
    start = after({**replace_disks("mirrored", "four"), "ignore_ipolicy": True}, start=grouped(LARGE))
    with pytest.raises(OpcodeError, match="memory-size"):
        after(migrate("mirrored"), start=start)


def test_empty_group_is_removed() -> None:
    now = after(assign("second", "boss"), assign("uuid", "four", "five"), start=grouped())
    groups = {node.name: node.group for node in now.cluster.nodes}
    assert groups == {**dict.fromkeys(("one", "two", "three", "four", "five"), "uuid"), "boss": "uuid-2"}
    now = after(assign("default", "boss"), opcode("GROUP_REMOVE", group_name="second"), start=now)
    assert [group.name for group in now.cluster.groups] == ["default"]


@pytest.mark.parametrize(
    ("step", "kind", "text"),
    [
        (opcode("GROUP_REMOVE", group_name="second"), "OpPrereqError", "not empty, has .* nodes: five, four"),
        (opcode("GROUP_REMOVE", group_name="none"), "OpPrereqError", "Target group 'none' not found"),
        (assign("none", "one"), "OpPrereqError", "Target group 'none' not found"),
        (assign("second", "none"), "OpPrereqError", "Node 'none' not known"),
        (assign("second", "one"), "OpExecError", "instances get split .* was not given: mirrored"),
    ],
)
def test_refuses_invalid_group_changes(step: dict[str, Any], kind: str, text: str) -> None:
    with pytest.raises(OpcodeError, match=text) as caught:
        after(step, start=grouped())
    assert caught.value.encoded[0] == kind


def test_last_group_cannot_be_removed() -> None:
    start = grouped()
    alone = replace(start, cluster=replace(start.cluster, groups=start.cluster.groups[:1], nodes=()))
    with pytest.raises(OpcodeError, match="is the only group"):
        after(opcode("GROUP_REMOVE", group_name="default"), start=alone)


def test_force_splits_an_instance_over_groups() -> None:
    now = after(assign("second", "one", force=True), start=grouped())
    after(assign("default", "four"), start=now)
    assert after(assign("second", "one", "two"), start=grouped())  # together


def test_offline_node_can_change_its_group() -> None:
    now = after(role("five", offline=True), assign("default", "five"), start=grouped())
    assert now.node("five")
