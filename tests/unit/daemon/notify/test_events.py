"""Which events are due."""

from collections import defaultdict
from typing import Any

import pytest

from htoolsd.history.entries import Decided, HistoryEntry
from htoolsd.notify.events import Announced, Change, EventState, Key, changes, event_of
from htoolsd.plans.plan import PlanChanged
from htoolsd.policies.verdict import PolicyDecision

NOW, HOUR = 1e9, 3600.0
NOT_NEEDED: Any = None


def line(kind: str, *names: str, text: str = "") -> dict[str, Any]:
    return {
        "kind": kind,
        "names": list(names),
        "text": text or f"{kind} of {', '.join(names)}",
        "severity": "warning",
        "command": "next",
    }


class Watch:
    """What is announced over a time, when each look is announced at once."""

    def __init__(self) -> None:
        self.announced: dict[Key, Announced] = {}

    def look(self, *lines: dict[str, Any], at: float = NOW, complete: bool = True) -> list[str]:
        found = changes(self.announced, lines, at, HOUR, complete)
        self._remember(found)
        events = [change.event for change in found if change.event is not None]
        return [f"{event.state} {event.text} ({', '.join(event.names)})" for event in events]

    def _remember(self, found: list[Change]) -> None:
        for change in found:
            for key, each in change.remembered.items():
                if each is None:
                    del self.announced[key]
                else:
                    self.announced[key] = each


def test_condition_is_announced_when_it_appears_and_when_it_is_gone() -> None:
    watch, lost = Watch(), line("n1", "node2")
    assert watch.look(lost) == ["begun n1 of node2 (node2)"]
    assert watch.look(lost, at=NOW + 9 * HOUR) == []
    assert watch.look(at=NOW + 9 * HOUR) == ["over over: n1 of node2 (node2)"]
    assert watch.look(at=NOW + 9 * HOUR) == []
    assert watch.announced == {}


def test_end_asks_for_nothing() -> None:
    announced = {("n1", "node2"): Announced("n1", "node2", NOW, "bad")}
    (change,) = changes(announced, [], NOW, HOUR, True)
    assert change.event is not None
    assert (change.event.severity, change.event.command) == ("info", "")


def test_each_name_in_a_line_is_a_condition() -> None:
    watch, text = Watch(), "two are silent"
    watch.look(line("silent", "node1"))
    assert watch.look(line("silent", "node1", "node2", text=text)) == [f"begun {text} (node2)"]
    assert watch.look(line("silent", "node2", text="one is")) == ["over over: silent of node1 (node1)"]
    assert watch.look(line("ledger", text="full"), line("silent", "node2")) == ["begun full ()"]


def test_condition_that_comes_and_goes_is_announced_once_in_a_while() -> None:
    watch, lost = Watch(), line("n1", "node2")
    watch.look(lost)
    watch.look(at=NOW + 60)
    for minute in range(2, 60, 2):
        assert watch.look(lost, at=NOW + 60 * minute) == []
        assert watch.look(at=NOW + 60 * minute + 60) == []
    assert watch.look(lost, at=NOW + HOUR) == ["begun n1 of node2 (node2)"]


def test_clock_that_was_wrong_holds_nothing_back() -> None:
    watch, lost = Watch(), line("n1", "node2")
    watch.look(lost, at=NOW + 1e6)
    watch.look(at=NOW + 1e6)
    assert len(watch.look(lost)) == 1


def test_nothing_is_over_while_the_cluster_is_not_known() -> None:
    watch = Watch()
    watch.look(line("n1", "node2"))
    assert watch.look(complete=False) == []
    assert watch.look(line("luxi"), complete=False) == ["begun luxi of  ()"]
    assert watch.look(line("luxi")) == ["over over: n1 of node2 (node2)"]


@pytest.mark.parametrize("kind", ["proposal", "fallback"])
def test_some_ends_are_no_news(kind: str) -> None:
    watch = Watch()
    assert len(watch.look(line(kind))) == 1
    assert watch.look() == []
    assert watch.look(line(kind), at=NOW + HOUR) != []


def test_plans_and_notifications_are_no_conditions() -> None:
    assert Watch().look(line("plan", "beef"), line("notify")) == []


def plan(state: str, error: str | None = None) -> HistoryEntry:
    facts: dict[str, Any] = {"id": "beef", "tool": "hbal", "state": state, "error": error, "groups": []}
    run: Any = {"jobs": [], "not_submitted": []}
    document = defaultdict(lambda: None, facts, execution=run)
    return PlanChanged(NOW, document, NOT_NEEDED)


def policy(outcome: str) -> HistoryEntry:
    return PolicyDecision(NOW, "rebalance", "", "on", "", "rack1", outcome, "2 moves", {}, "beef")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (plan("failed", "job 3 failed"), ("plan", "warning", "plan beef of hbal failed: job 3 failed")),
        (plan("interrupted"), ("plan", "warning", "plan beef of hbal was interrupted")),
        (policy("begun"), ("acted", "info", "policy rebalance acts in group rack1: 2 moves")),
    ],
)
def test_ends_of_plans_and_acts_of_policies_are_events(
    entry: HistoryEntry, expected: tuple[str, ...]
) -> None:
    event = event_of(entry)
    assert event is not None
    assert (event.kind, event.severity, event.text) == expected
    assert (event.time, event.state, event.command) == (NOW, EventState.HAPPENED, "htoolsctl plan beef")
    assert "beef" in event.names


def test_other_entries_are_no_events() -> None:
    decided = Decided(NOW, NOT_NEEDED, [], 1.0, {})  # its details are costly
    others = [plan("done"), plan("planned"), plan("stopped"), policy("skipped"), policy("proposed")]
    assert [event_of(each) for each in [*others, decided]] == [None] * 6
