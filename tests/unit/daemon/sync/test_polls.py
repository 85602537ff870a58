"""What is told of luxid and of the polls."""

import structlog

from htoolsd.sync.polls import Luxi, Polls


def test_only_changes_are_logged() -> None:
    luxi = Luxi("path")
    with structlog.testing.capture_logs() as log:
        luxi.found("unreachable", "gone")
        luxi.found("unreachable", "gone")
        luxi.found("unreachable", "still gone")
        luxi.found("reachable")
    assert [(line["state"], line["error"], line["log_level"]) for line in log] == [
        ("unreachable", "gone", "warning"),
        ("unreachable", "still gone", "warning"),
        ("reachable", None, "info"),
    ]


def test_the_time_is_that_of_the_state_not_of_its_reason() -> None:
    luxi = Luxi("path")
    luxi.found("unreachable", "gone")
    since = luxi.since
    luxi.found("unreachable", "still gone")
    assert luxi.since == since
    assert luxi.error == "still gone"


def test_statistics() -> None:
    polls = Polls()
    assert polls.status() == {"done": 0, "failed": 0, "error": None, "last_ms": None}
    polls.recent.extend(range(200))
    assert len(polls.recent) == 100
    assert polls.status()["last_ms"] == 199
