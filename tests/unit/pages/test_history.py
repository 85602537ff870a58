"""The sections of a page about the daemon."""

import pytest

from ganeti_htools.pages.page import describe, history

DECISION = {
    "kind": "decision",
    "request": "allocate",
    "instances": ["<web>"],
    "places": [["node1", "node2"]],
    "refusal": None,
}
PLAN = {
    "kind": "plan",
    "id": "ab12",
    "tool": "hbal",
    "state": "failed",
    "error": "job 7 failed",
    "moves": [{"status": "success"}, {"status": "error"}],
}
POLICY = {"kind": "policy", "policy": "rebalance", "group": "rack1", "outcome": "held", "reason": "too early"}
CALL = {"kind": "call", "method": "cancel", "arguments": {"plan": "ab12"}}


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (DECISION, "allocate <web> → node1:node2"),
        ({**DECISION, "places": [], "refusal": "no room"}, "allocate <web>; refused: no room"),
        (PLAN, "hbal plan ab12 is failed, 1 of 2 moves made: job 7 failed"),
        (POLICY, "rebalance in rack1: held: too early"),
        (CALL, "cancel plan=ab12"),
    ],
)
def test_entries_are_described(entry: dict[str, object], text: str) -> None:
    assert describe(entry) == text


def test_entries_are_counted_by_day_and_the_newest_come_first() -> None:
    page = history([{"time": 86_400.0 * day + 43_200, **PLAN} for day in range(3)], 7)
    assert page.count('<th scope="row">1970-01-0') == 6
    assert page.index("1970-01-03 ") < page.index("1970-01-01 ")
    assert "&lt;web&gt;" in history([{"time": 0.0, **DECISION}], 7)


def test_nothing_is_told_as_such() -> None:
    assert "Nothing has been recorded." in history([], 7)
