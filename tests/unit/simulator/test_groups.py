"""Instances that change their node group, and groups that are emptied and removed."""

from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.simulator.logical_units import carry_out
from ganeti_htools.simulator.opcodes import OpcodeError, check
from ganeti_htools.simulator.world import World, lose_node
from tests.support.worlds import ANY, assign, grouped, migrate, move, opcode, replace_disks, role

(RANGE,) = DEFAULT_IPOLICY.minmax
LARGE = replace(DEFAULT_IPOLICY, minmax=(replace(RANGE, min=replace(RANGE.min, memory_size=1001)),))
NO_DRBD = replace(ANY, disk_templates=(DiskTemplate.PLAIN, DiskTemplate.EXT))
FAIL_OVER = opcode("INSTANCE_FAILOVER", instance_name="shared", target_node="four")


def after(start: World, *opcodes: dict[str, Any]) -> World:
    now = start
    for each in opcodes:
        now, _ = carry_out(now, check(each))
    return now


def place(now: World, name: str) -> tuple[str, str | None]:
    row = now.instance(name)
    assert row is not None
    return row.pnode, row.snode


def test_mirrored_instance_changes_group_in_three_steps() -> None:
    steps = (replace_disks("mirrored", "four"), migrate("mirrored"), replace_disks("mirrored", "five"))
    now = after(grouped(), *steps)
    assert place(now, "mirrored") == ("four", "five")
    figures = {node.name: (node.f_mem, node.f_dsk) for node in now.cluster.nodes}
    assert figures["one"] == (2000, 8500)
    assert figures["two"] == (4000, 9000)
    assert figures["four"] == (3000, 8500)
    assert figures["five"] == (4000, 8500)


def test_instance_of_a_lost_primary_changes_group_over_its_secondary() -> None:
    steps = (
        migrate("mirrored"),
        replace_disks("mirrored", "four"),
        migrate("mirrored"),
        replace_disks("mirrored", "five"),
    )
    start = lose_node(grouped(), "one")
    with pytest.raises(OpcodeError, match="Can't reach node one, the source of the data"):
        after(start, steps[1])
    assert place(after(start, *steps), "mirrored") == ("four", "five")


@pytest.mark.parametrize("step", [migrate("shared", target_node="four"), FAIL_OVER])
def test_shared_storage_instance_moves_to_another_group(step: dict[str, Any]) -> None:
    now = after(grouped(), step)
    assert place(now, "shared") == ("four", None)
    assert place(after(now, migrate("shared", target_node="five")), "shared") == ("five", None)


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
        after(grouped(policy), step)
    assert caught.value.encoded[1][1] == "wrong_input"
    after(grouped(policy), {**step, "ignore_ipolicy": True})


def test_policy_of_the_own_group_is_not_checked() -> None:
    start = grouped()
    first, second = start.cluster.groups
    tight = replace(start, cluster=replace(start.cluster, groups=(replace(first, ipolicy=LARGE), second)))
    for step in (
        migrate("shared", target_node="two"),
        replace_disks("mirrored", "three"),
        move("stuck", "two"),
    ):
        after(tight, step)


def test_migration_to_a_secondary_in_another_group_checks_its_policy() -> None:
    start = after(grouped(LARGE), {**replace_disks("mirrored", "four"), "ignore_ipolicy": True})
    with pytest.raises(OpcodeError, match="memory-size"):
        after(start, migrate("mirrored"))


def test_empty_group_is_removed() -> None:
    now = after(grouped(), assign("second", "boss"), assign("uuid", "four", "five"))
    groups = {node.name: node.group for node in now.cluster.nodes}
    assert groups == {**dict.fromkeys(("one", "two", "three", "four", "five"), "uuid"), "boss": "uuid-2"}
    now = after(now, assign("default", "boss"), opcode("GROUP_REMOVE", group_name="second"))
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
        after(grouped(), step)
    assert caught.value.encoded[0] == kind


def test_last_group_cannot_be_removed() -> None:
    start = grouped()
    alone = replace(start, cluster=replace(start.cluster, groups=start.cluster.groups[:1], nodes=()))
    with pytest.raises(OpcodeError, match="is the only group"):
        after(alone, opcode("GROUP_REMOVE", group_name="default"))


def test_force_splits_an_instance_over_groups() -> None:
    now = after(grouped(), assign("second", "one", force=True))
    after(now, assign("default", "four"))
    assert after(grouped(), assign("second", "one", "two"))  # together


def test_offline_node_can_change_its_group() -> None:
    now = after(grouped(), role("five", offline=True), assign("default", "five"))
    assert now.node("five")
