"""The rules of Ganeti 3.1, by the recorded answers of its htools (:mod:`tests.oracle.record`)."""

import gzip
import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from ganeti_htools.cli import hail, hbal, hcheck, hinfo, hroller, hspace, hsqueeze
from ganeti_htools.engine.squeezing import power_down, reserve
from tests.oracle.hail import REQUEST
from tests.oracle.programs import Result, ours
from tests.oracle.record import RECORDS
from tests.oracle.test_hspace import in_common, tiers_in_common

LINES = gzip.decompress(RECORDS.read_bytes()).decode().splitlines()
TOOLS: dict[str, Callable[[Sequence[str]], int]] = {
    "hail": hail.main,
    "hbal": hbal.main,
    "hcheck": hcheck.main,
    "hinfo": hinfo.main,
    "hroller": hroller.main,
    "hspace": hspace.main,
    "hsqueeze": hsqueeze.main,
}
PARTS = 4


@pytest.fixture(autouse=True)
def as_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ganeti's hsqueeze keeps neither N+1 nor a second node, and looks for no better set of nodes."""
    monkeypatch.setattr(reserve, "is_empty", lambda _wanted: True)
    monkeypatch.setattr(power_down, "better_set", lambda _group, found, _wishes: found)


def agrees(tool: str, found: Result, expected: str) -> bool:
    """Whether ours prints the same, apart from what only ours adds."""
    match tool:
        case "hail":
            mine, theirs = json.loads(found.out), json.loads(expected)
            same = all(mine[key] == theirs[key] for key in ("success", "result"))
            return same and str(mine["info"]).startswith(theirs["info"])
        case "hbal":
            return re.sub(r"^Cost: .*\n", "", found.out, flags=re.MULTILINE) == expected
        case "hspace":
            return in_common(found).out == expected.rstrip()
        case "hsqueeze":  # ours goes on until a second run would find nothing
            return set(expected.splitlines()) <= set(found.out.splitlines())
        case _:
            return found.out == expected


@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=pytest.mark.long if part else ()) for part in range(PARTS)]
)
@pytest.mark.parametrize("tool", TOOLS)
def test_prints_what_ganeti_3_1_prints(tool: str, part: int, tmp_path: Path) -> None:
    cluster, request = tmp_path / "cluster.data", tmp_path / "request"
    request.write_text(REQUEST)
    compared = 0
    for line in LINES[part::PARTS]:
        record = json.loads(line)
        cluster.write_text(record["cluster"])
        for name, options, expected in record["answers"]:
            if name == tool:
                more = [str(request)] if tool == "hail" else []
                argv = ["-t", str(cluster), *options, *more]
                run = partial(ours, TOOLS[tool], version="3.1.1")
                found = run(argv)
                if tool == "hspace":
                    limited = partial(lambda run, argv, limit: run([*argv, f"-l{limit}"]), run, argv)
                    found = tiers_in_common(found, Result(0, expected, ""), limited)
                assert agrees(tool, found, expected), (expected, found.out, record["cluster"])
                compared += 1
    assert compared == len(LINES[part::PARTS])
