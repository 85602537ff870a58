from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.model.types import Status
from ganeti_htools.simulator.logical_units import carry_out, world_during
from ganeti_htools.simulator.opcodes import OpcodeError, check
from ganeti_htools.simulator.tags import tags_of_object
from ganeti_htools.simulator.world import World, lose_node
from tests.support.worlds import migrate, move, opcode, replace_disks, role, world


def after(*opcodes: dict[str, Any], start: World | None = None) -> World:
    now = start or world()
    for each in opcodes:
        now, _ = carry_out(now, check(each))
    return now


def place(now: World, name: str) -> tuple[str, str | None, Status]:
    row = now.instance(name)
    assert row is not None
    return row.pnode, row.snode, row.status


def figures(now: World) -> dict[str, tuple[int, int]]:
    return {node.name: (node.f_mem, node.f_dsk) for node in now.cluster.nodes}


def test_failover_swaps_roles_and_moves_memory() -> None:
    for name in ("INSTANCE_MIGRATE", "INSTANCE_FAILOVER"):
        now = after(opcode(name, instance_name="mirrored"))
        assert place(now, "mirrored") == ("two", "one", Status.RUNNING)
        assert figures(now) == figures(world()) | {"one": (2000, 8000), "two": (3000, 8500)}


def test_forthcoming_instance_moves_without_resources() -> None:
    start = world()
    rows = (replace(row, forthcoming=row.name == "mirrored") for row in start.cluster.instances)
    start = replace(start, cluster=replace(start.cluster, instances=tuple(rows)))
    now = after(
        opcode("INSTANCE_FAILOVER", instance_name="mirrored"), replace_disks("mirrored", "three"), start=start
    )
    assert place(now, "mirrored") == ("two", "three", Status.RUNNING)
    assert figures(now) == figures(start)
    with pytest.raises(OpcodeError, match="is forthcoming"):
        after(migrate("mirrored"), start=start)


def test_shared_storage_instance_moves_to_the_target() -> None:
    now = after(migrate("shared", target_node="three"))
    assert place(now, "shared") == ("three", None, Status.RUNNING)
    assert figures(now) == figures(world()) | {"one": (2000, 8000), "three": (3000, 9000)}


def test_new_secondary_takes_the_disk() -> None:
    now = after(replace_disks("mirrored", "three"))
    assert place(now, "mirrored") == ("one", "three", Status.RUNNING)
    assert figures(now) == figures(world()) | {"two": (4000, 9000), "three": (4000, 8500)}


def test_move_stops_copies_and_starts_the_instance() -> None:
    meanwhile = world_during(world(), check(move("stuck", "three")))
    assert place(meanwhile, "stuck") == ("one", None, Status.ERROR_DOWN)
    assert figures(meanwhile) == figures(world()) | {"one": (2000, 8000)}
    now = after(move("stuck", "three"), start=meanwhile)
    assert now == after(move("stuck", "three"))
    assert place(now, "stuck") == ("three", None, Status.RUNNING)
    assert figures(now) == figures(world()) | {"one": (2000, 8500), "three": (3000, 8500)}


@pytest.mark.parametrize(
    ("found", "afterwards"),
    [
        (Status.DOWN, Status.DOWN),
        (Status.OFFLINE, Status.OFFLINE),
        (Status.ERROR_UP, Status.DOWN),
        (Status.ERROR_DOWN, Status.RUNNING),
        (Status.USER_DOWN, Status.RUNNING),
    ],
)
def test_moved_instance_runs_if_it_should(found: Status, afterwards: Status) -> None:
    start = world()
    row = start.instance("stuck")
    assert row is not None
    row = replace(row, status=found)
    used = 1000 if row.uses_memory else 0
    nodes = [replace(node, f_mem=2000 - used) for node in start.cluster.nodes if node.name == "one"]
    now = after(move("stuck", "three"), start=start.with_instance(row).with_nodes(nodes))
    assert place(now, "stuck") == ("three", None, afterwards)
    assert figures(now)["one"] == (2000, 8500)
    assert figures(now)["three"] == (3000 if afterwards is Status.RUNNING else 4000, 8500)


def test_only_a_move_changes_the_world_before_its_end() -> None:
    start = world()
    assert world_during(start, check(migrate("mirrored"))) is start
    with pytest.raises(OpcodeError, match="already on the node one"):
        world_during(world(), check(move("stuck", "one")))


def test_moving_back_restores_the_world() -> None:
    steps = (migrate("mirrored"), replace_disks("mirrored", "three"))
    back = (
        migrate("mirrored"),
        replace_disks("mirrored", "one"),
        migrate("mirrored"),
        replace_disks("mirrored", "two"),
    )
    assert after(*steps, *back) == world()


def test_failover_from_a_lost_primary_works() -> None:
    now = after(migrate("mirrored"), start=lose_node(world(), "one"))
    assert place(now, "mirrored") == ("two", "one", Status.RUNNING)


def test_node_roles_exclude_each_other() -> None:
    now = after(role("one", drained=True), role("one", offline=True))
    assert (now.drained, now.offline) == (frozenset(), frozenset({"one"}))
    now = after(role("one", drained=True), start=now)
    assert (now.drained, now.offline) == (frozenset({"one"}), frozenset())
    assert after(role("one", drained=False), start=now) == world()


def test_out_of_band_programs_switch_power() -> None:
    off = opcode("OOB_COMMAND", node_names=["three"], command="power-off")
    now = after(role("three", offline=True), off)
    assert not now.answers("three")
    on = opcode("OOB_COMMAND", node_names=["three"], command="power-on")
    assert after(on, role("three", offline=False), start=now) == world()
    with pytest.raises(OpcodeError, match="being de-offlined but fails to report its version"):
        after(role("three", offline=False), start=replace(now, unpowered=frozenset({"three"})))


@pytest.mark.parametrize(("how", "state"), [("unpowered", 3), ("stuck", 2)])
def test_failing_out_of_band_programs_are_reported(how: str, state: int) -> None:
    """The opcode succeeds; its result has the failure."""
    off = opcode("OOB_COMMAND", node_names=["two", "three"], command="power-off")
    start = replace(world(), **{how: frozenset({"three"})})  # type: ignore[arg-type]
    start = after(role("two", offline=True), role("three", offline=True), start=start)
    now, result = carry_out(start, off)
    assert result == [[[0, "three"], [state, None]], [[0, "two"], [0, None]]]
    assert now.silent == {"two"}


@pytest.mark.parametrize(
    ("kind", "name"), [("cluster", None), ("node", "one"), ("instance", "stuck"), ("nodegroup", "default")]
)
def test_tags_are_added_and_removed(kind: str, name: str | None) -> None:
    now = after(opcode("TAGS_SET", kind=kind, name=name, tags=["b", "a", "b"]))
    assert tags_of_object(now, kind, name or "") == ("a", "b")
    assert after(opcode("TAGS_DEL", kind=kind, name=name, tags=["a", "b"]), start=now) == world()


@pytest.mark.parametrize(
    ("steps", "why", "code"),
    [
        ((migrate("nobody"),), "Instance 'nobody' not known", "unknown_entity"),
        ((migrate("stuck"),), "does not allow migrations", "wrong_state"),
        ((migrate("mirrored", target_node="three"),), "cannot be migrated to arbitrary nodes", "wrong_input"),
        ((migrate("shared"),), "No target node", "wrong_input"),
        ((migrate("shared", target_node="one"),), "to its primary", "wrong_state"),
        ((migrate("shared", target_node="none"),), "Node 'none' not known", "unknown_entity"),
        ((role("two", offline=True), migrate("mirrored")), "Can't use offline node: two", "wrong_state"),
        ((role("two", drained=True), migrate("mirrored")), "Can't use drained node: two", "wrong_state"),
        ((replace_disks("shared", "three"),), "Can only run replace disks for DRBD8", "wrong_input"),
        ((replace_disks("mirrored", "one"),), "is the primary node", "wrong_input"),
        ((replace_disks("mirrored", "two"),), "is already the secondary node", "wrong_input"),
        ((move("shared", "three"),), "has disk type ext and is not suitable for copying", "wrong_state"),
        ((move("stuck", "one"),), "is already on the node one", "wrong_state"),
        ((role("two", drained=True), move("stuck", "two")), "Can't use drained node: two", "wrong_state"),
        ((role("two", offline=True), move("stuck", "two")), "Can't use offline node: two", "wrong_state"),
        ((role("boss", drained=True),), "only via master-failover", "wrong_input"),
        ((role("one"),), "at least one modification", "wrong_input"),
        ((role("one", offline=True, drained=True),), "more than one state", "wrong_input"),
        (
            (opcode("TAGS_DEL", kind="node", name="one", tags=["x"]),),
            "Tag(s) 'x' not found",
            "unknown_entity",
        ),
        ((opcode("TAGS_SET", kind="node", name="none", tags=["x"]),), "not found", "unknown_entity"),
        ((opcode("TAGS_SET", kind="node", name="one", tags=["a=b"]),), "invalid characters", "wrong_input"),
        ((opcode("TAGS_SET", kind="node", name="one", tags=["x" * 129]),), "Tag too long", "wrong_input"),
        (
            (
                role("three", offline=True),
                opcode("OOB_COMMAND", node_names=["three"], command="power-off"),
                role("three", offline=False),
            ),
            "Node three needs to be turned on before its offline status can be reset",
            "wrong_state",
        ),
        (
            (opcode("OOB_COMMAND", node_names=["one"], command="power-off"),),
            "not marked offline",
            "wrong_state",
        ),
    ],
)
def test_refuses_invalid_opcodes_as_ganeti_does(
    steps: tuple[dict[str, Any], ...], why: str, code: str
) -> None:
    with pytest.raises(OpcodeError) as caught:
        after(*steps)
    kind, (text, told) = caught.value.encoded
    assert (kind, told) == ("OpPrereqError", code)
    assert why in text


def filled(name: str, f_mem: int = 4000, f_dsk: int = 9000) -> World:
    node = world().node(name)
    assert node is not None
    return world().with_nodes([replace(node, f_mem=f_mem, f_dsk=f_dsk)])


def test_refuses_targets_without_memory_or_disk() -> None:
    with pytest.raises(OpcodeError, match="Not enough memory on node two"):
        after(migrate("mirrored"), start=filled("two", f_mem=999))
    after(migrate("mirrored"), start=filled("two", f_mem=1000))
    with pytest.raises(OpcodeError, match="Not enough memory on node three"):
        after(move("stuck", "three"), start=filled("three", f_mem=999))
    for step in (replace_disks("mirrored", "three"), move("stuck", "three")):
        with pytest.raises(OpcodeError, match="no space"):
            after(step, start=filled("three", f_dsk=499))
    after(replace_disks("mirrored", "three"), start=filled("three", f_dsk=500))


def test_refuses_copies_from_a_silent_node() -> None:
    with pytest.raises(OpcodeError, match="OpExecError: Could not shutdown instance stuck on node one"):
        after(move("stuck", "three"), start=lose_node(world(), "one"))
