"""With ``-X`` our tools submit the opcodes that Debian's submit, in the same jobs."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.model.cluster import Cluster
from tests.oracle.test_simulator import run
from tests.support import programs
from tests.support.clusters import MOVABLE, Shape
from tests.support.oracle import Oracle
from tests.support.rows import with_master
from tests.support.simulators import Simulator, simulator

pytestmark = pytest.mark.oracle

# Who submits, why and when is their own.
OWN = {"comment", "reason"}


def submitted(ganeti: Simulator) -> list[list[dict[str, Any]]]:
    """The opcodes of all jobs in the order of submission, without what is each program's own."""
    jobs = ganeti.ask("QueryJobs", [], ["ops", "status"])
    assert {status for _, status in jobs} <= {"success"}
    return [[{key: op[key] for key in sorted(op.keys() - OWN)} for op in ops] for ops, _ in jobs]


def ours(tool: str, *options: object) -> str:
    """What our tool says, as a process of its own."""
    done = programs.run(programs.PROGRAMS / tool, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def both(oracle: Oracle, tmp_path: Path, rows: Cluster, tool: str, *options: str) -> list[Any]:
    """What each submits on the same cluster: Debian's, then ours; and the clusters are the same then."""
    results = []
    for name in ("debian", "ours"):
        (tmp_path / name).mkdir()
        with simulator(tmp_path / name, rows, "--job-seconds=0") as ganeti:
            if name == "ours":
                ours(tool, f"-L{ganeti.socket}", "-X", *options)
            else:
                run(oracle, tool, f"-L{ganeti.socket}", "-X", *options)
            results.append((submitted(ganeti), ganeti.cluster()))
    assert results[0] == results[1]
    return results[0][0]


SHAPES = {
    "drained": Shape(nodes=6, instances=30, templates=MOVABLE, drained=1, down=0.3),
    "forthcoming": Shape(nodes=5, instances=20, templates=MOVABLE, forthcoming=0.4),
    "offline": Shape(nodes=6, instances=24, templates=MOVABLE, offline=1),
}


CASES: list[tuple[str, Sequence[str]]] = [
    *((shape, ()) for shape in SHAPES),
    ("forthcoming", ("--priority=low", "--reason=because")),
    ("drained", ("--priority=high",)),
]
MORE = [
    ("drained", ("--priority=low", "--reason=because")),
    ("forthcoming", ("--priority=high",)),
    ("offline", ("--priority=low", "--reason=because")),
    ("offline", ("--priority=high",)),
]


@pytest.mark.parametrize("cases", [CASES, pytest.param(MORE, marks=pytest.mark.long)])
def test_hbal(oracle: Oracle, tmp_path: Path, cases: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Side by side: Debian's mostly waits for its jobs."""

    def submitted_by_both(number: int) -> list[Any]:
        shape, options = cases[number]
        directory = tmp_path / str(number)
        directory.mkdir()
        return both(oracle, directory, with_master(3, SHAPES[shape]), "hbal", "-l8", *options)

    with ThreadPoolExecutor(len(cases)) as pool:
        found = list(pool.map(submitted_by_both, range(len(cases))))
    for (shape, _), opcodes in zip(cases, found, strict=True):
        kinds = {op["OP_ID"] for ops in opcodes for op in ops}
        assert "OP_INSTANCE_REPLACE_DISKS" in kinds
        assert ("OP_INSTANCE_FAILOVER" in kinds) is (shape == "forthcoming")


def test_hbal_of_the_first_jobset(oracle: Oracle, tmp_path: Path) -> None:
    opcodes = both(oracle, tmp_path, with_master(3, SHAPES["drained"]), "hbal", "--first-job-group")
    assert len(opcodes) == 1


def test_hsqueeze(oracle: Oracle, tmp_path: Path) -> None:
    rows = with_master(7, Shape(nodes=5, instances=6, templates={"ext": 1}, fill=0.3, down=0))
    options = ("--minimal-resources=0", "--target-resources=0")  # or else we keep N+1
    jobs = []
    for name in ("debian", "ours"):
        (tmp_path / name).mkdir()
        with simulator(tmp_path / name, rows, "--job-seconds=0") as ganeti:
            if name == "ours":
                ours("hsqueeze", f"-L{ganeti.socket}", "-X", *options)
            else:
                run(oracle, "hsqueeze", f"-L{ganeti.socket}", "-X", *options)
            jobs.append(submitted(ganeti))
    theirs, own = ([op for ops in each for op in ops] for each in jobs)
    kinds = [op["OP_ID"] for op in theirs]
    assert kinds.count("OP_TAGS_SET") > 1
    assert kinds[-1] == "OP_OOB_COMMAND"
    own = [op for op in own if op.get("tags") != ["htools:squeezing"]]  # by which we find what was left
    drained = kinds.count("OP_TAGS_SET")
    assert [op["drained"] for op in own[:drained]] == [True] * drained
    assert own[drained:] == theirs


def test_hsqueeze_back(oracle: Oracle, tmp_path: Path) -> None:
    """Theirs wants room on nodes that are off, of which Ganeti tells nothing; ours only if others lack it."""
    rows = with_master(4, Shape(nodes=5, instances=6, templates={"ext": 1}, fill=0.05, offline=2, down=0))
    nodes = [replace(row, tags=("htools:standby:x",)) if row.offline else row for row in rows.nodes]
    rows, command = replace(rows, nodes=tuple(nodes)), "OP_OOB_COMMAND"
    for minimum, powers in (("1", False), ("1e6", True)):
        target = f"--target-resources={minimum if powers else '1e6'}"
        with simulator(tmp_path, rows, "--job-seconds=0") as ganeti:
            ours("hsqueeze", f"-L{ganeti.socket}", "-X", f"--minimal-resources={minimum}", target)
            kinds = [op["OP_ID"] for ops in submitted(ganeti) for op in ops]
            assert (command in kinds) is powers
    with simulator(tmp_path, rows, "--job-seconds=0") as ganeti:
        run(oracle, "hsqueeze", f"-L{ganeti.socket}", "-X", "--minimal-resources=1", "--target-resources=1e6")
        assert command in [op["OP_ID"] for ops in submitted(ganeti) for op in ops]
