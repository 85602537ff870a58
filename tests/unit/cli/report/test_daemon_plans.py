from typing import Any

import pytest

from ganeti_htools.cli.report import daemon_plans

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
    header, row = daemon_plans.table([PLAN]).splitlines()
    assert header.split() == ["Plan", "Tool", "State", "Made", "Jobs", "Score", "Groups"]
    assert row.startswith("0123  hbal  planned  ")
    assert row.endswith("  1 of 3  2.00000000 => not finite  one,two")
    assert header.index("Jobs") == row.index("1 of 3")


def test_the_jobs_of_a_plan_are_listed_before_it_begins() -> None:
    lines = list(daemon_plans.description(PLAN))
    assert lines[0].endswith(" by user 7, process 9")
    assert lines[1:3] == ["Arguments: none", "Node groups: one, two; score 2.00000000 => not finite"]
    title = "  web: a:b => b:a"
    assert lines[3:] == ["Jobset 1:", title, "Jobset 2:", title, title]
    assert len(list(daemon_plans.description({**PLAN, "state": "done"}))) == 3


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
    assert daemon_plans.ending({**PLAN, "error": error, "execution": execution}) == told
