"""Nodes powered down and up on a real Ganeti, and what becomes of it when tools are killed.

All nodes are in one group, and have instances on shared storage only; node5 is no master candidate, so it is
promoted when another is drained. The nodes' out-of-band program takes their power and gives it back.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration import cluster
from tests.integration.cluster import ADD, SMALL, TOP, run, start, succeed, table, wait_until
from tests.support.programs import PROGRAMS
from tests.support.simulators import ask

pytestmark = pytest.mark.integration

CALLS = TOP.parent / "oob.log"
PROGRAM = f"""#!/bin/sh
echo "$1 $2" >>{CALLS}
case $1 in power-on) word=start ;; power-off) word=stop ;; *) exit 1 ;; esac
export GANETI_ROOTDIR={TOP}/$2 GANETI_HOSTNAME=$2
exec /usr/lib/ganeti/daemon-util $word ganeti-noded </dev/null >/dev/null 2>&1
"""
DOWN = (PROGRAMS / "hsqueeze", "--never=node4,node5", "-X")
UP = (PROGRAMS / "hsqueeze", "--minimal-resources=1000", "-X")  # more than there is: all nodes are wanted
LUXI = TOP / "node1/var/run/ganeti/socket/ganeti-query"


@pytest.fixture(scope="module", autouse=True)
def squeezable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The cluster made ready, and afterwards its groups as they were, without instances."""
    program = tmp_path_factory.mktemp("oob") / "program"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    removed = [["gnt-instance", "remove", "-f", name] for (name,) in table("gnt-instance", "name")]
    if removed:
        succeed(*removed)
    run(["gnt-group", "assign-nodes", "default", "node4", "node5"])
    run(["gnt-node", "modify", "--master-candidate=no", "node5"])
    run(["gnt-cluster", "modify", f"--node-parameters=oob_program={program}"])
    disk = ("-t", "sharedfile", "--disk", "0:size=1G")
    succeed(*([*ADD, *SMALL, *disk, "--node", f"node{number}", f"on{number}"] for number in (2, 3, 4, 5)))
    yield
    run(["gnt-cluster", "modify", "--node-parameters=oob_program="])
    succeed(*(["gnt-instance", "remove", "-f", f"on{number}"] for number in (2, 3, 4, 5)))
    run(["gnt-group", "assign-nodes", "other", "node4", "node5"])


def nodes() -> dict[str, tuple[Any, ...]]:
    """Whether each node is offline, drained, thought to be on; its tags, and how many instances it has."""
    fields = ["name", "offline", "drained", "powered", "tags", "pinst_cnt"]
    rows = ask(LUXI, "Query", "node", fields, None)["data"]
    return {name: tuple(cells) for name, *cells in ([value for _, value in row] for row in rows)}


def squeezed() -> set[str]:
    """The nodes that are empty, off, and marked as standby; all others are in use, without a trace."""
    found = {
        name for name, facts in nodes().items() if facts == (True, False, False, ["htools:standby:auto"], 0)
    }
    used = [facts[:4] for name, facts in nodes().items() if name not in found]
    assert used == [(False, False, True, [])] * len(used), nodes()
    return found


def queue(after: int = 0) -> list[tuple[int, str, list[str]]]:
    """The jobs with a higher number: their states, and what each of their opcodes does."""
    rows = ask(LUXI, "QueryJobs", [], ["id", "status", "summary"])
    return sorted((number, state, summary) for number, state, summary in rows if number > after)


def done(after: int) -> list[list[str]]:
    """What jobs with a higher number have done, one after the other.

    Where Ganeti refuses to drain a master candidate that has to be replaced, this is done at the second try.
    """
    found = queue(after)
    for number, state, summary in found:
        tried = [other for other, *again in found if other > number and again == ["success", summary]]
        assert state == "success" or tried, found
    return [summary for _, state, summary in found if state == "success"]


def calls() -> list[str]:
    """What the out-of-band program was called with, since this was asked last."""
    told = CALLS.read_text().splitlines()
    CALLS.write_text("")
    return told


def killed(command: cluster.Command, after: int) -> bool:
    """Run a program, and kill it when a job has ended; whether one has."""

    def ended() -> bool:
        return any(state == "success" for _, state, _ in queue(after))

    with start(command) as process:
        wait_until(lambda: process.poll() is not None or ended())
        if process.poll() is not None:
            out, err = process.communicate()
            assert process.returncode == 0, (out, err)
            return False
        process.kill()
        process.communicate(timeout=cluster.PATIENCE)
    wait_until(lambda: not {state for _, state, _ in queue(after)} & {"queued", "waiting", "running"})
    return True


def last() -> int:
    return queue()[-1][0]


def again_and_again(command: cluster.Command) -> int:
    """Run a program over LUXI until it comes to its end; how often it was killed."""
    times = 0
    while killed([*command, "-L"], last()):
        times += 1
    return times


def test_down_and_up_in_the_order_that_ganeti_wants() -> None:
    """As its own list of jobs tells."""
    before = last()
    run([*DOWN, "-L"])
    off = ["node2", "node3"]
    assert squeezed() == set(off)
    marks = [[f"NODE_SET_PARAMS({name})"] for name in off]
    drains = [["TAGS_SET", *mark] for mark in marks]
    steps = done(before)
    assert sorted(steps[:2]) == drains
    assert {step[0].partition("(")[0] for step in steps[2:4]} == {"INSTANCE_MIGRATE"}
    assert steps[4:6] == [["TAGS_SET"]] * 2
    assert sorted(steps[6:8]) == marks
    assert steps[8:] == [["OOB_COMMAND"], ["TAGS_DEL"], ["TAGS_DEL"]]
    assert calls() == [f"power-off {name}" for name in off]
    before = last()
    run([*DOWN, "-L"])
    assert not queue(before)
    run([*UP, "-L"])
    assert squeezed() == set()
    steps = done(before)
    assert steps[0] == ["TAGS_SET", "TAGS_SET", "OOB_COMMAND"]
    assert sorted(steps[1:3]) == marks
    assert steps[3:5] == [["TAGS_DEL"]] * 2
    assert {step[0].partition("(")[0] for step in steps[5:]} <= {"INSTANCE_MIGRATE"}
    assert calls() == [f"power-on {name}" for name in off]


def test_the_tool_killed_after_each_step() -> None:
    assert again_and_again(DOWN) > 4
    assert squeezed() == {"node2", "node3"}
    assert again_and_again(UP) > 2
    assert squeezed() == set()
