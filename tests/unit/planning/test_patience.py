"""How long balancing searches."""

import time
from collections.abc import Callable

import pytest

from ganeti_htools.planning.patience import SearchSteps, SearchTime

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
    assert shown[0] == "searching, score 1.50000000"


def test_search_leaves_time_for_plans_as_long_as_the_last_one(wait: Wait) -> None:
    search = SearchTime(100, 4, silent)
    assert search.plans()
    wait(5)
    assert search.searches(1.0)
    wait(74)
    assert search.searches(1.0)
    wait(1)  # 20 s are left
    assert not search.searches(1.0)
    assert search.plans()
    wait(10)
    assert not search.plans()  # a plan takes 10 s by now


def test_pauses_of_the_search_are_no_plans(wait: Wait) -> None:
    search = SearchTime(100, 4, silent)
    assert search.searches(1.0)
    wait(60)
    assert search.searches(1.0)
    wait(39)
    assert search.searches(1.0)
    assert search.plans()


def test_long_plans_leave_most_of_the_time_to_the_search(wait: Wait) -> None:
    search = SearchTime(100, 24, silent)
    assert search.plans()
    wait(20)
    assert search.searches(1.0)
    wait(49)
    assert search.searches(1.0)
    wait(1)
    assert not search.searches(1.0)


def test_time_begins_with_the_usual_plan(wait: Wait) -> None:
    search = SearchTime(100, 4, silent)
    wait(101)
    assert not search.plans()
    assert not search.searches(1.0)
