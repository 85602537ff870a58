"""Round after round, our harep prints and submits what Debian's does."""

import contextlib
import io
import random
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.cli import harep
from ganeti_htools.engine.repair.states import initial_state
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Node
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.types import DiskTemplate, Status
from tests.oracle.programs import Result, theirs
from tests.support.clusters import Json
from tests.support.oracle import Oracle
from tests.support.simulators import Simulator, simulator

pytestmark = pytest.mark.oracle

PREFIX = "ganeti:watcher:autorepair:"
DRBD, PLAIN = DiskTemplate.DRBD, DiskTemplate.PLAIN
OWN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b1[0-9]{9}\b")  # ids and times


def node(name: str, **changes: Any) -> Node:
    row = Node(name, "g", t_mem=16384.0, n_mem=512, f_mem=9000, t_dsk=1e6, f_dsk=900000, t_cpu=8.0)
    return replace(row, **changes)


def instance(name: str, nodes: str, tags: str = "") -> Instance:
    """A running instance on one or two nodes; those of ``stopped`` names are down."""
    primary, _, secondary = nodes.partition(" ")
    return Instance(
        *(name, 512, 1024, (Disk(1024),), 1),
        status=Status.DOWN if name.startswith("stopped") else Status.RUNNING,
        tags=tuple(f"{PREFIX}{tag}" for tag in tags.split()),
        pnode=primary,
        snode=secondary or None,
        template=DRBD if secondary else PLAIN,
    )


def cluster(*instances: Instance) -> Cluster:
    return Cluster(
        (Group("default", "g", tags=(f"{PREFIX}fix-storage",)), Group("other", "h")),
        (
            node("a", master=True),
            node("b"),
            node("off1", t_mem=0.0, f_mem=0, t_dsk=0.0, f_dsk=0, t_cpu=0.0, offline=True),
            node("off2", t_mem=0.0, f_mem=0, t_dsk=0.0, f_dsk=0, t_cpu=0.0, offline=True),
            node("drained", offline=True),
            node("elsewhere", group="h", t_mem=0.0, f_mem=0, t_dsk=0.0, f_dsk=0, t_cpu=0.0, offline=True),
        ),
        instances,
    )


CASES = {
    "every repair": (
        instance("healthy", "a b", "reinstall"),
        instance("mirrored1", "drained a", "failover"),
        instance("mirrored2", "a off1", "reinstall"),
        instance("lost", "off1 drained", "reinstall"),
        instance("stopped1", "off1 off2", "reinstall"),
        instance("stopped2", "off1", "reinstall"),
    ),
    "authorisation": (
        instance("by-group", "a off1"),
        instance("not-enough", "off1 a"),
        instance("not-enough-again", "off1", "failover result:reinstall:old:1000:enoperm:"),
        instance("twice", "off1 a", "failover fix-storage"),
        instance("suspended", "a off1", "suspend reinstall"),
        instance("suspended-until", "a off1", "suspend:2000000000 suspend:1500 reinstall"),
        instance("suspended-once", "a off1", "suspend:1500 suspend:x"),
        instance("nobody", "elsewhere"),
    ),
    "records": (
        instance("failed", "a off1", "result:failover:u:1000:failure:5 pending:failover:v:2000:6"),
        instance("healed", "a off1", "result:failover:u:1000:success:5+6 result:failover:v:0900:success:4"),
        instance("malformed", "a off1", "pending:failover:u:1000 result:failover:u:1000:maybe:5 pending"),
        instance("same-id", "a b", "pending:failover:u:1000:5 result:failover:u:900:success:5"),
    ),
    "conflict": (
        instance("first", "a off1"),
        instance("pending-twice", "a b", "pending:failover:u:1000:5 pending:failover:t:2000:6"),
    ),
}


ROUNDS = (("--dry-run", "--job-delay=2"), *([("--job-delay=0", "--reason=test")] * 2))


def ours(options: Sequence[str]) -> Result:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = harep.main(options)
    return Result(status, out.getvalue(), err.getvalue())


def jobs_at_rest(ganeti: Simulator) -> list[tuple[list[Json], str]]:
    """The opcodes and the state of all jobs once they have ended, without what is each program's own."""
    while True:
        jobs = ganeti.ask("QueryJobs", [], ["ops", "status"])
        if {state for _, state in jobs} <= {"success", "error"}:
            break
    for op in (op for ops, _ in jobs for op in ops):
        assert op.pop("comment").startswith("automated repairs by harep ")
        assert [each[:2] for each in op.pop("reason")] == [["harep", "test"]]
    return [([{key: op[key] for key in sorted(op)} for op in ops], state) for ops, state in jobs]


def rounds(run: Callable[[Sequence[str]], Result], directory: Path, case: str) -> list[str]:
    """A dry round, one that begins repairs, and one that follows them and begins the next; and their jobs."""
    directory.mkdir()
    seen: list[object] = []
    with simulator(directory, cluster(*CASES[case]), "--job-seconds=0") as ganeti:
        for options in ROUNDS:
            seen += [run((f"-L{ganeti.socket}", *options)), jobs_at_rest(ganeti)]
    return [OWN.sub("*", repr(part)) for part in seen]


def test_rounds(oracle: Oracle, tmp_path: Path) -> None:
    """Debian's run side by side: they mostly wait for their jobs."""
    with ThreadPoolExecutor(len(CASES)) as pool:
        debian = partial(theirs, oracle, "harep")
        expected = pool.map(lambda case: rounds(debian, tmp_path / f"{case} debian", case), CASES)
    for case, results in zip(CASES, expected, strict=True):
        assert rounds(ours, tmp_path / f"{case} ours", case) == results
        assert ("status=1" in results[0]) is (case == "conflict")
        assert ("OP_INSTANCE" in results[-1]) is (case != "conflict")


def tags_at_random(rng: random.Random) -> str:
    """Tags of which some are malformed, some contradict each other, and some have passed."""
    kinds = ("fix-storage", "migrate", "failover", "reinstall", "repaint")
    times = ("1500", "2000000000", "-1", "soon", "")

    def record() -> str:
        name, time = rng.choice("uvw"), rng.choice(("1", "2", "3", "03", "x"))
        jobs, result = (
            rng.choice(("1", "2", "1+2", "01", "1+")),
            rng.choice(("success", "failure", "enoperm", "")),
        )
        middle = f"{rng.choice(kinds)}:{name}:{time}"
        return f"pending:{middle}:{jobs}" if rng.random() < 0.4 else f"result:{middle}:{result}:{jobs}"

    allowed = rng.choices(kinds, k=rng.randrange(3))
    suspended = [f"suspend:{time}" if time else "suspend" for time in rng.choices(times, k=rng.randrange(2))]
    return " ".join({*allowed, *suspended, *(record() for _ in range(rng.randrange(4)))})


@pytest.mark.parametrize("seed", range(2))
def test_random_tags(oracle: Oracle, tmp_path: Path, seed: int) -> None:
    """Job 1 has succeeded, job 2 has failed. The first instance with contradictory records is named."""
    rng = random.Random(seed)
    places = ("a b", "a off1", "off1 a", "off1 off2", "a", "off1", "elsewhere")
    rows = [instance(f"i{number}", rng.choice(places), tags_at_random(rng)) for number in range(60)]
    fine = [row for row in rows if not _contradictory(row)]
    results = []
    for number, chosen in enumerate((fine, rows)):
        with simulator(tmp_path, cluster(*chosen), "--job-seconds=0") as ganeti:
            ganeti.ask("SubmitJob", [{"OP_ID": "OP_TEST_DELAY", "duration": 0, "reason": []}])
            wrong = {"OP_ID": "OP_INSTANCE_REINSTALL", "instance_name": "nobody", "reason": []}
            ganeti.ask("SubmitJob", [wrong])
            while {state for (state,) in ganeti.ask("QueryJobs", [], ["status"])} != {"success", "error"}:
                pass
            argv = (f"-L{ganeti.socket}", "--dry-run")
            pair = [OWN.sub("*", repr(each)) for each in (ours(argv), theirs(oracle, "harep", argv))]
            assert pair[0] == pair[1]
            assert f"status={number}" in pair[0]
            results.append(pair[0])
    assert "Executing" in results[0]
    assert "Moving" in results[0]


def _contradictory(row: Instance) -> bool:
    try:
        initial_state(row.name, row.tags)
    except HtoolsError:
        return True
    return False
