"""The state of luxid, and statistics of polls."""

import structlog

from htoolsd.sync.polls import LuxidState, PollStatistics


def test_only_changes_are_logged() -> None:
    luxi = LuxidState("path")
    with structlog.testing.capture_logs() as log:
        luxi.update("unreachable", "gone")
        luxi.update("unreachable", "gone")
        luxi.update("unreachable", "still gone")
        luxi.update("reachable")
    assert [(line["state"], line["error"], line["log_level"]) for line in log] == [
        ("unreachable", "gone", "warning"),
        ("unreachable", "still gone", "warning"),
        ("reachable", None, "info"),
    ]


def test_time_is_that_of_the_state_not_of_its_error() -> None:
    luxi = LuxidState("path")
    luxi.update("unreachable", "gone")
    since = luxi.since
    luxi.update("unreachable", "still gone")
    assert luxi.since == since
    assert luxi.error == "still gone"


def test_statistics_keep_the_last_hundred() -> None:
    polls = PollStatistics()
    assert polls.status() == {"done": 0, "failed": 0, "error": None, "last_ms": None}
    polls.recent.extend(range(200))
    assert len(polls.recent) == 100
    assert polls.status()["last_ms"] == 199
