import pytest

from ganeti_htools.model.errors import DataError
from ganeti_htools.simulator.opcodes import check, seconds, subjects, summary
from tests.support.worlds import assign, delay, migrate, opcode, role, world


def test_refuses_what_luxid_refuses() -> None:
    for bad, why in (
        (5, "JSObject"),
        ({"OP_ID": "OP_TEST_DELAY"}, "key 'reason' not found, object contains only [\"OP_ID\"]"),
        (opcode("NOSUCH"), "Unknown opcode OP_NOSUCH"),
        (opcode("INSTANCE_MIGRATE"), "key 'instance_name' not found"),
        (opcode("INSTANCE_MIGRATE", instance_name=5), "key 'instance_name'"),
        (opcode("TAGS_SET", kind="node", tags=[1]), "key 'tags'"),
        (opcode("OOB_COMMAND", command="health", node_names=[[]]), "key 'node_names'"),
        (opcode("INSTANCE_MOVE", instance_name="web"), "key 'target_node' not found"),
        (assign("", 1), "key 'nodes'"),  # type: ignore[arg-type]
        (role("one", offline="yes"), "key 'offline'"),  # type: ignore[arg-type]
        (delay(-1), "key 'duration'"),
    ):
        with pytest.raises(DataError) as caught:
            check(bad)
        assert why in str(caught.value)


def test_summaries_are_like_in_job_lists() -> None:
    assert summary(migrate("web")) == "INSTANCE_MIGRATE(web)"
    assert summary(role("one", offline=True)) == "NODE_SET_PARAMS(one)"
    assert summary(assign("default", "one")) == "GROUP_ASSIGN_NODES(default)"
    assert summary(opcode("TAGS_SET", kind="cluster", tags=[])) == "TAGS_SET"


def test_only_delays_have_a_duration_of_their_own() -> None:
    assert seconds(delay(3), usual=1.0) == 3.0
    assert seconds(migrate("web"), usual=1.0) == 1.0


def test_subjects_are_the_instances_and_nodes_of_an_opcode() -> None:
    assert subjects(world(), migrate("mirrored")) == {"mirrored"}
    on_one = {row.name for row in world().cluster.instances if row.pnode == "one"}
    assert on_one
    assert subjects(world(), role("one", drained=True)) == {"one", *on_one}
    assert subjects(world(), assign("default", "two")) == {"two", "mirrored"}
    assert subjects(world(), delay(1)) == frozenset()
