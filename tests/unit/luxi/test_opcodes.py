"""The opcodes that Debian's tools were seen to submit."""

from ganeti_htools.luxi import opcodes
from ganeti_htools.luxi.opcodes import PRIORITIES, Signature
from ganeti_htools.model.moves import Operation


def test_moves_have_the_fields_of_ganetis_htools() -> None:
    assert opcodes.migrate("inst13", "node1") == {
        "OP_ID": "OP_INSTANCE_MIGRATE",
        "instance_name": "inst13",
        "target_node": "node1",
        "allow_runtime_changes": False,
        "ignore_ipolicy": False,
        "cleanup": False,
        "allow_failover": True,
        "ignore_hvversions": True,
    }
    assert "target_node" not in opcodes.migrate("inst13")
    assert opcodes.replace_secondary("inst8", "node3") == {
        "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
        "instance_name": "inst8",
        "early_release": False,
        "ignore_ipolicy": False,
        "mode": "replace_new_secondary",
        "disks": [],
        "remote_node": "node3",
    }


def test_a_move_has_the_fields_of_gnt_instance_move() -> None:
    expected = {
        "OP_ID": "OP_INSTANCE_MOVE",
        "instance_name": "inst1",
        "shutdown_timeout": 120,
        "ignore_ipolicy": False,
        "target_node": "node2",
        "compress": "none",
        "ignore_consistency": False,
    }
    assert opcodes.opcode_of(Operation.MOVE, "inst1", "node2", forthcoming=False) == expected


def test_query_opcodes() -> None:
    assert opcodes.query_storage("lvm-vg", ("node1",)) == {
        "OP_ID": "OP_NODE_QUERY_STORAGE",
        "output_fields": ["node", "name", "size", "free"],
        "storage_type": "lvm-vg",
        "nodes": ["node1"],
    }
    assert opcodes.query_disks(["inst1"])["static"] is True


def test_power_opcodes() -> None:
    assert opcodes.tag_node("node5", ["a"]) == {
        "OP_ID": "OP_TAGS_SET",
        "kind": "node",
        "tags": ["a"],
        "name": "node5",
    }
    assert opcodes.untag_node("node5", ["a"])["OP_ID"] == "OP_TAGS_DEL"
    role = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node5", "force": False}
    assert opcodes.set_node("node5", "offline", True) == {**role, "offline": True, "auto_promote": False}
    drained = opcodes.set_node("node5", "drained", False, auto_promote=True)
    assert drained == {**role, "drained": False, "auto_promote": True}
    common = {"timeout": 60, "ignore_status": False, "power_delay": 2}
    assert opcodes.power(["node5", "node6"], on=False) == {
        "OP_ID": "OP_OOB_COMMAND",
        "node_names": ["node5", "node6"],
        "command": "power-off",
        **common,
    }
    assert opcodes.power(["node5"], on=True)["command"] == "power-on"


def test_signed_opcodes_have_reason_comment_and_priority() -> None:
    signature = Signature("hbal", "because", "rebalancing via us", "beef", PRIORITIES["low"])
    first, second = signature.sign([opcodes.migrate("a"), opcodes.migrate("b")], "2/1", 1795242548842917000)
    assert {**first, "instance_name": "b"} == second
    assert first == {
        **opcodes.migrate("a"),
        "priority": 10,
        "depends": None,
        "comment": "rebalancing via us, run beef, job 2/1",
        "reason": [["hbal", "because", 1795242548842917000]],
    }


def test_repairs_have_the_fields_of_ganetis_harep() -> None:
    assert opcodes.delay(2.0) == {
        "OP_ID": "OP_TEST_DELAY",
        "duration": 2,
        "on_master": True,
        "on_nodes": [],
        "repeat": 0,
        "interruptible": False,
        "no_locks": False,
    }
    assert opcodes.delay(0.5)["duration"] == 0.5
    assert opcodes.replace_secondary_by("inst8", "hail") == {
        "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
        "instance_name": "inst8",
        "early_release": False,
        "ignore_ipolicy": False,
        "mode": "replace_new_secondary",
        "disks": [],
        "iallocator": "hail",
    }
