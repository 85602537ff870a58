"""Marks name their process, so that a run is refused where it is still at work, and warned of elsewhere."""

import os
import re
import subprocess
from typing import Any

import pytest

from ganeti_htools.cli.runs import run_marks
from ganeti_htools.cli.runs.run_marks import new_mark, refuse_living
from ganeti_htools.client import calls
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.maintenance_tags import run_tag
from ganeti_htools.model.tags import LONGEST
from tests.support.by_hand import node

OWN = "20200101T000000Z:ann@boss:7-7-00000000"


def judge(mark: str, daemon: str | None = None) -> None:
    line = CommandLine()
    line.daemon = daemon
    refuse_living(line, [node("n1", tags=(run_tag(OWN), run_tag(mark)))], OWN)


def of_process(number: int) -> str:
    """The mark that this process would have with that number."""
    return re.sub(r"\d+-\d+-(\w+)$", rf"{number}-{run_marks.start_time(number)}-\1", new_mark())


def test_living_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        mark = of_process(process.pid)
        with pytest.raises(HtoolsError, match=rf"^node n1: the run {mark} .*\(process {process.pid}\);"):
            judge(mark)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it stays as a zombie
        judge(mark)
    judge(mark)
    assert capsys.readouterr().err == ""


def test_another_process_with_the_same_number_is_not_the_run() -> None:
    judge(re.sub(r"-\d+-", "-1-", new_mark()))


@pytest.mark.parametrize(
    "mark", [f"{new_mark()[:-8]}ffffffff", "20200101T000000Z:bob@other:8"], ids=["new", "old form"]
)
def test_run_of_another_host_is_warned_of(mark: str, capsys: pytest.CaptureFixture[str]) -> None:
    judge(mark)
    assert capsys.readouterr().err == (
        f"Warning: node n1: whether the run {mark} is still at work cannot be seen here\n"
    )


@pytest.mark.parametrize("state", ["running", "done"])
def test_plan_of_the_daemon_is_refused_while_it_runs(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = "20200101T000000Z:bob@other:8-8-ffffffff"
    plans: list[dict[str, Any]] = [
        {"id": "0123456789ab", "state": state, "options": {"run": mark}},
        {"id": "ba9876543210", "state": "running", "options": None},
    ]
    monkeypatch.setattr(calls, "ask", lambda *_: plans)
    if state == "done":
        judge(mark, "/socket")
    else:
        with pytest.raises(HtoolsError, match=r"\(plan 0123456789ab of htoolsd\)"):
            judge(mark, "/socket")


def test_mark_fits_into_a_tag_with_long_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "u" * 100)
    tag = run_tag(mark := new_mark())
    assert tag.endswith(mark)
    assert len(tag) <= LONGEST
