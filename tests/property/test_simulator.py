"""The simulator answers all requests, and its world stays consistent."""

from typing import Any

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from ganeti_htools.luxi.framing import END, decode, encode
from ganeti_htools.model.cluster import Cluster, check
from ganeti_htools.simulator.jobs import JobBehaviour, Jobs
from ganeti_htools.simulator.luxid import Luxid
from tests.support.worlds import assign, delay, grouped, migrate, move, opcode, replace_disks, role

NODES = ["one", "two", "three", "boss", "four"]
WORDS = st.sampled_from(
    [
        "node",
        "instance",
        "group",
        "job",
        "cluster",
        "name",
        "status",
        "id",
        "=",
        "|",
        "!",
        "one",
        "x",
        "mfree",
    ]
)
SCALARS = st.none() | st.booleans() | st.integers(-3, 9) | st.floats(-1, 1e3) | WORDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
METHODS = {
    "Query": 3,
    "QueryFields": 2,
    "QueryNodes": 3,
    "QueryInstances": 3,
    "QueryGroups": 3,
    "QueryNetworks": 3,
    "QueryJobs": 2,
    "QueryTags": 2,
    "QueryClusterInfo": 0,
    "QueryConfigValues": 1,
    "SubmitJob": 1,
    "SubmitManyJobs": 1,
    "WaitForJobChange": 5,
    "CancelJob": 2,
    "ArchiveJob": 1,
    "SetWatcherPause": 1,
    "SetDrainFlag": 1,
}
REQUESTS = st.sampled_from(sorted(METHODS)).flatmap(
    lambda name: st.tuples(st.just(name), st.lists(VALUES, min_size=METHODS[name], max_size=METHODS[name]))
)

INSTANCES = st.sampled_from(["mirrored", "shared", "stuck"])
OPCODES = st.one_of(
    st.builds(lambda name, node: migrate(name, target_node=node), INSTANCES, st.sampled_from([None, *NODES])),
    st.builds(replace_disks, INSTANCES, st.sampled_from(NODES)),
    st.builds(move, INSTANCES, st.sampled_from(NODES)),
    st.builds(lambda node: assign("second", node), st.sampled_from(NODES)),
    st.just(opcode("GROUP_REMOVE", group_name="second")),
    st.builds(lambda name, off: role(name, offline=off), st.sampled_from(NODES), st.booleans()),
    st.builds(lambda name, off: role(name, drained=off), st.sampled_from(NODES), st.booleans()),
    st.builds(
        lambda name, command: opcode("OOB_COMMAND", node_names=[name], command=command),
        st.sampled_from(NODES),
        st.sampled_from(["power-on", "power-off", "health"]),
    ),
)
DAMAGED = st.builds(
    lambda good, key, value: {**good, key: value}, OPCODES, WORDS | st.just("depends"), VALUES
)


def answers(*requests: tuple[str, list[Any]]) -> tuple[list[dict[str, Any]], Jobs]:
    """Return the answers to the requests, and the jobs after all have ended."""

    async def talk() -> tuple[list[dict[str, Any]], Jobs]:
        said = []
        async with trio.open_nursery() as nursery:
            jobs = Jobs(nursery, grouped(), JobBehaviour(1))
            for name, args in requests:
                answer, _ = await Luxid(jobs).answer(encode({"method": name, "args": args}).removesuffix(END))
                value = decode(answer.removesuffix(END))
                assert isinstance(value, dict)
                said.append(value)
            await trio.sleep(1e5)
            nursery.cancel_scope.cancel()
        return said, jobs

    return trio.run(talk, clock=MockClock(autojump_threshold=0))


@given(st.lists(REQUESTS, max_size=4))
def test_every_request_has_an_answer(requests: list[tuple[str, list[Any]]]) -> None:
    setup: tuple[str, list[Any]] = ("SubmitJob", [[delay(1)]])
    said, _ = answers(setup, *requests)
    assert [set(answer) for answer in said] == [{"success", "result"}] * (len(requests) + 1)


@settings(max_examples=25)
@given(st.lists(st.lists(OPCODES | DAMAGED, max_size=4), max_size=6))
def test_jobs_leave_a_consistent_world(lists: list[list[dict[str, Any]]]) -> None:
    _, jobs = answers(*(("SubmitJob", [opcodes]) for opcodes in lists))
    assert all(job.state.final for job in jobs.unarchived())
    before, after = grouped().cluster, jobs.world.cluster
    check(after)
    # Nothing is lost: what instances take of nodes is only somewhere else.
    assert memory(before) == memory(after)
    assert sum(row.f_dsk for row in before.nodes) == sum(row.f_dsk for row in after.nodes)


def memory(cluster: Cluster) -> int:
    """Return the free and the used memory together, which does not depend on stopped instances."""
    free = sum(row.f_mem for row in cluster.nodes)
    return free + sum(row.mem for row in cluster.instances if row.uses_memory)
