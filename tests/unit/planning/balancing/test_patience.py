"""The length of a search."""

import time
from collections.abc import Callable

import pytest

from ganeti_htools.planning.balancing.patience import SearchSteps, SearchTime

Wait = Callable[[float], None]


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Wait:
    """A clock that stands still, and a function that lets so many seconds pass."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def pass_by(seconds: float) -> None:
        now[0] += seconds

    return pass_by


def silent(_message: str) -> None:
    """Show nothing."""


def test_steps_are_counted_and_all_plans_made() -> None:
    limit, shown = 3, list[str]()
    search = SearchSteps(limit, shown.append)
    assert [search.searches(1.5) for _ in range(5)] == [True, True, True, False, False]
    assert search.plans()
    assert shown[:2] == [f"{done} of 3 steps, score 1.50000000" for done in (0, 1)]


def searched(search: SearchTime, wait: Wait) -> int:
    """Search in steps of a second; returns their number."""
    number = 0
    while search.searches(1.0):
        wait(1)
        number += 1
    return number


def test_search_leaves_time_for_plans_as_long_as_the_last_one(wait: Wait) -> None:
    search = SearchTime(100, 4, silent)
    assert search.plans()
    wait(5)
    assert searched(search, wait) == 100 - 5 - 4 * 5 - 1
    assert search.plans()
    wait(12)
    assert not search.plans()  # 9 s are left, but a plan takes 12 s by now


def test_search_leaves_time_for_its_longest_pause(wait: Wait) -> None:
    search = SearchTime(100, 4, silent)
    assert search.searches(1.0)
    wait(15)
    assert searched(search, wait) == 100 - 15 - 15
    assert search.plans()


def test_long_plans_leave_most_of_the_time_to_the_search(wait: Wait) -> None:
    search = SearchTime(100, 24, silent)
    assert search.plans()
    wait(20)
    assert searched(search, wait) == 100 - 20 - 30


def test_time_begins_with_the_usual_plan(wait: Wait) -> None:
    search = SearchTime(100, 4, silent)
    wait(101)
    assert not search.plans()
    assert not search.searches(1.0)
