"""Nodes powered down and up on a real Ganeti, and what becomes of it when the tool or the daemon is killed.

All nodes are in one group, each with an instance on shared storage; node5 is no master candidate, so it is
promoted when another is drained. The nodes' out-of-band program takes their power and gives it back.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from operator import itemgetter
from typing import Any

import pytest

from tests.integration import cluster
from tests.integration.cluster import GROUPS, TOP, add_shared, remove, run, start, table, wait_until
from tests.integration.daemon import Daemon
from tests.support.interposed import Interposed, Moment
from tests.support.programs import PROGRAMS
from tests.support.simulators import ask

pytestmark = pytest.mark.integration

CALLS = TOP.parent / "oob.log"
BROKEN = TOP.parent / "oob.broken"
PROGRAM = f"""#!/bin/sh
if [ -e {BROKEN} ]; then echo "the power strip of $2 does not answer" >&2; exit 1; fi
echo "$1 $2" >>{CALLS}
case $1 in power-on) word=start ;; power-off) word=stop ;; *) exit 1 ;; esac
export GANETI_ROOTDIR={TOP}/$2 GANETI_HOSTNAME=$2
exec /usr/lib/ganeti/daemon-util $word ganeti-noded </dev/null >/dev/null 2>&1
"""
DOWN = (PROGRAMS / "hsqueeze", "--never=node4,node5", "-X")
UP = (PROGRAMS / "hsqueeze", "--minimal-resources=1000", "-X")  # more than there is: all nodes are wanted
OFF = ["node2", "node3"]
INSTANCES = [f"on-{node}" for node in GROUPS]
OFTEN = "config_seconds = 1\nlive_seconds = 20"
LUXI = cluster.luxi()


@pytest.fixture(scope="module", autouse=True)
def squeezable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The cluster made ready, and afterwards its groups as they were, without instances."""
    program = tmp_path_factory.mktemp("oob") / "program"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    remove(*(name for (name,) in table("gnt-instance", "name")))
    run(["gnt-group", "assign-nodes", "default", "node4", "node5"])
    run(["gnt-node", "modify", "--master-candidate=no", "node5"])
    run(["gnt-cluster", "modify", f"--node-parameters=oob_program={program}"])
    add_shared({name: name.removeprefix("on-") for name in INSTANCES})
    yield
    run(["gnt-cluster", "modify", "--node-parameters=oob_program="])
    remove(*INSTANCES)
    run(["gnt-group", "assign-nodes", "other", "node4", "node5"])


def nodes() -> dict[str, tuple[Any, ...]]:
    """Whether each node is offline, drained, thought to be on; its tags, and how many instances it has."""
    fields = ["name", "offline", "drained", "powered", "tags", "pinst_cnt"]
    rows = ask(LUXI, "Query", "node", fields, None)["data"]
    return {name: tuple(cells) for name, *cells in ([value for _, value in row] for row in rows)}


def squeezed() -> set[str]:
    """The nodes that are empty, off, and marked as standby; all others are in use, without a trace, and all
    instances run on these.
    """
    facts = nodes()
    found = {name for name in facts if facts[name] == (True, False, False, ["htools:standby:auto"], 0)}
    used = set(facts) - found
    assert {name: facts[name][:4] for name in used} == dict.fromkeys(used, (False, False, True, [])), facts
    there = {name: cells for name, *cells in table("gnt-instance", "name,status,pnode")}
    assert set(there) == set(INSTANCES)
    assert {status for status, _ in there.values()} == {"running"}
    assert {node for _, node in there.values()} <= used
    return found


def queue(after: int = 0) -> list[tuple[int, str, list[str], list[Any]]]:
    """The jobs with a higher number: their states, and in words and as opcodes what they do."""
    rows = ask(LUXI, "QueryJobs", [], ["id", "status", "summary", "ops"])
    return sorted((row for row in map(tuple, rows) if row[0] > after), key=itemgetter(0))


def last() -> int:
    return queue()[-1][0]


def done(after: int) -> list[list[str]]:
    """What jobs with a higher number have done, one after the other; none has done what another had.

    Where Ganeti refuses to drain a master candidate that has to be replaced, this is done at the second try.
    """
    found = queue(after)
    good = [(summary, work) for _, state, summary, work in found if state == "success"]
    vain = [summary for _, state, summary, _ in found if state != "success"]
    assert all(summary in [done for done, _ in good] for summary in vain), found
    unsigned = [[{**opcode, "comment": "", "reason": []} for opcode in work] for _, work in good]
    assert not [work for place, work in enumerate(unsigned) if work in unsigned[:place]]
    return [summary for summary, _ in good]


def calls() -> list[str]:
    """What the out-of-band program was called with, since this was asked last."""
    told = CALLS.read_text().splitlines()
    CALLS.write_text("")
    return told


def went_down(after: int) -> None:
    """Jobs with a higher number have powered two nodes down, in the order that Ganeti wants."""
    assert squeezed() == set(OFF)
    marks = [[f"NODE_SET_PARAMS({name})"] for name in OFF]
    steps = done(after)
    assert sorted(steps[:2]) == [["TAGS_SET", *mark] for mark in marks]
    assert {step[0].partition("(")[0] for step in steps[2:4]} == {"INSTANCE_MIGRATE"}
    assert steps[4:6] == [["TAGS_SET"]] * 2
    assert sorted(steps[6:8]) == marks
    assert steps[8:] == [["OOB_COMMAND"], ["TAGS_DEL"], ["TAGS_DEL"]]
    assert calls() == [f"power-off {name}" for name in OFF]


def went_up(after: int) -> None:
    """Jobs with a higher number have powered these nodes up, and balanced."""
    assert squeezed() == set()
    steps = done(after)
    assert steps[0] == ["TAGS_SET", "TAGS_SET", "OOB_COMMAND"]
    assert sorted(steps[1:3]) == [[f"NODE_SET_PARAMS({name})"] for name in OFF]
    assert steps[3:5] == [["TAGS_DEL"]] * 2
    assert {step[0].partition("(")[0] for step in steps[5:]} == {"INSTANCE_MIGRATE"}
    assert calls() == [f"power-on {name}" for name in OFF]
    assert {instances for *_, instances in nodes().values()} == {1}


def test_nodes_go_down_and_up_in_ganetis_order() -> None:
    """As its own list of jobs tells."""
    for command, went in (DOWN, went_down), (UP, went_up):
        before = last()
        run([*command, "-L"])
        went(before)
        before = last()
        run([*command, "-L"])
        assert not queue(before)


@pytest.mark.slow
def test_failing_program_leaves_no_node_drained() -> None:
    """Of neither executor. The next run, with a program that works, powers the nodes down."""
    with Daemon(OFTEN) as daemon:
        BROKEN.touch()
        for source in "-L", "-D":
            daemon.refresh()
            assert "the power strip of node" in cluster.refusal([*DOWN, source])
            facts = nodes()
            assert {name: facts[name][1] for name in OFF} == dict.fromkeys(OFF, False), facts
        BROKEN.unlink()
        daemon.refresh()
        run([*DOWN, "-D"])
        assert squeezed() == set(OFF)
        run([*UP, "-L"])
        assert squeezed() == set()
    calls()


def cut_off(executor: str, command: cluster.Command, moment: Moment) -> bool:
    """Have a plan carried out and kill who does so at a moment, the tool or the daemon; whether it came."""
    with Interposed(TOP / "interposed", LUXI, moment) as luxi, ExitStack() as stack:
        source, daemon = f"-L{luxi.path}", None
        if executor == "daemon":
            source, daemon = "-D", stack.enter_context(Daemon(f'{OFTEN}\nluxi = "{luxi.path}"'))
            # As long as jobs go on that a killed daemon has left, none of the kind is begun.
            wait_until(lambda: not daemon.going())
            daemon.refresh()
        process = stack.enter_context(start([*command, source]))
        wait_until(lambda: luxi.reached.is_set() or process.poll() is not None)
        if daemon is not None:
            daemon.kill()
        process.kill()
        out, err = process.communicate()
        assert luxi.reached.is_set() or process.returncode == 0, (out, err)
        return luxi.reached.is_set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("executor", "moments"),
    [("tool", [Moment.ENDED]), ("daemon", [Moment.ENDED, Moment.UNANSWERED])],
)
def test_next_run_continues_a_killed_one(executor: str, moments: list[Moment]) -> None:
    """And is killed one step later, at these moments in turn, until one has nothing to do any more."""
    for command, went, steps in (DOWN, went_down, 6), (UP, went_up, 4):
        before, times = last(), 0
        while cut_off(executor, command, moments[times % len(moments)]):
            times += 1
            assert times < 2 * steps
        assert times >= steps
        went(before)
