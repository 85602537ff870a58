import pwd
from typing import Any

import pytest

from ganeti_htools.cli.ctl import plans as reports

STATES = "planned", "running", "done", "failed", "interrupted"
USER = pwd.getpwuid(7).pw_name
JOB = {"title": "web: a:b => b:a"}
PLAN: dict[str, Any] = {
    "id": "0123",
    "tool": "hbal",
    "state": "planned",
    "made": 0,
    "by": {"uid": 7, "pid": 9},
    "arguments": [],
    "groups": ["one", "two"],
    "score": {"before": 2.0, "after": None},
    "jobs": {"succeeded": 1, "waiting": 2},
    "error": None,
    "execution": {"going_on": None, "not_submitted": [[JOB], [JOB, JOB]]},
}


def test_plans_are_listed_in_columns() -> None:
    header, row, proposal = reports.table([PLAN, {**PLAN, "policy": "squeeze"}]).splitlines()
    assert header.split() == ["Plan", "Tool", "State", "Made", "By", "Jobs", "Score", "Groups"]
    assert row.split()[:4] == ["0123", "hbal", "dry", "run"]
    assert row.endswith(f" {USER}{' ' * (14 - len(USER))}  1/3 2 => unknown one,two")
    assert header.index("Jobs") + 1 == row.index("1/3")
    assert proposal.split()[:3] == ["0123", "hbal", "waiting"]
    assert " policy squeeze  1/3 " in proposal


def test_nothing_that_is_copied_is_cut_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ganeti_htools.streams.width", lambda: 80)
    long = {
        "id": "ed5ef97f8b30",
        "tool": "hregroup",
        "groups": ["default", "group2"],
        "policy": "redistribute",
    }
    header, row = reports.table([PLAN | long | {"score": {"before": 12.5, "after": 1.25}}]).splitlines()
    assert row.startswith("ed5ef97f8b30 hregroup waiting ")
    assert " 1/3 12.5 => 1.25 " in row
    assert max(len(header), len(row)) <= 80


def test_jobs_that_go_on_are_named() -> None:
    def plan(state: str, *statuses: tuple[str | None, str | None]) -> dict[str, Any]:
        jobs = [
            {"id": number, "title": "web", "status": status, "error": error}
            for number, (status, error) in enumerate(statuses, 1)
        ]
        return {"state": state, "execution": {"jobs": jobs}}

    statuses = (("success", None), ("running", None), (None, None), ("error", "no"), (None, "not accepted"))
    assert reports.under_way(plan("interrupted", *statuses)) == ["job 2 (web)", "job 3 (web)"]
    assert reports.under_way(plan("running", *statuses)) == []


def test_names_who_executed_and_cancelled_a_plan() -> None:
    own = {**PLAN, "executed_by": PLAN["by"], "cancelled_by": None}
    assert f" {USER}  1/3" in reports.table([own]).splitlines()[1]
    proposal = {**own, "policy": "squeeze", "cancelled_by": {"uid": 0, "pid": 1}, "state": "stopped"}
    by = f"policy squeeze, executed by {USER}, cancelled by root"
    assert f" {by}  1/3 " in reports.table([proposal]).splitlines()[1]
    assert next(iter(reports.description(proposal))).endswith(f" by {by}")
    assert reports.ending(proposal) == "stopped by root"


def test_tells_waiting_and_failed_plans_apart() -> None:
    plans = [{**PLAN, "state": state, "policy": policy} for state in STATES for policy in (None, "squeeze")]
    waiting, failed = filter(reports.is_waiting, plans), filter(reports.has_failed, plans)
    assert [(plan["state"], plan["policy"]) for plan in waiting] == [("planned", "squeeze")]
    assert [plan["state"] for plan in failed] == ["failed", "failed", "interrupted", "interrupted"]


def test_the_jobs_of_a_plan_are_listed_before_it_begins() -> None:
    lines = list(reports.description(PLAN))
    assert lines[0].endswith(f" by {USER}, process 9")
    assert next(iter(reports.description({**PLAN, "policy": "squeeze"}))).endswith(" by policy squeeze")
    assert lines[1:3] == ["Arguments: none", "Node groups: one, two; score 2.00000000 => unknown"]
    title = "  web: a:b => b:a"
    assert lines[3:] == ["Jobset 1:", title, "Jobset 2:", title, title]
    assert len(list(reports.description({**PLAN, "state": "done"}))) == 3


@pytest.mark.parametrize(
    ("error", "going_on", "told"),
    [
        (None, None, "planned"),
        ("full", "job 1", "planned: full"),
        (None, "job 1", "planned: may go on: job 1"),
    ],
)
def test_the_ending(error: str | None, going_on: str | None, told: str) -> None:
    execution = {**PLAN["execution"], "going_on": going_on}
    assert reports.ending({**PLAN, "error": error, "execution": execution}) == told
