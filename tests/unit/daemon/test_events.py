"""Every follower gets every event, in one order."""

from dataclasses import dataclass, field

import pytest
import structlog

from htoolsd import tasks
from htoolsd.events import DaemonEvent, EventStream


@dataclass(frozen=True)
class Counted(DaemonEvent):
    number: int


@dataclass
class Noting:
    """Notes events; one with a stream answers the first by another, one with a defect fails at each."""

    numbers: list[int] = field(default_factory=list)
    stream: EventStream | None = None
    broken: bool = False

    def note(self, event: DaemonEvent) -> None:
        assert isinstance(event, Counted)
        if self.broken:
            raise KeyError(event.number)
        self.numbers.append(event.number)
        if self.stream is not None and event.number == 1:
            self.stream.publish(Counted(2))


def test_event_of_a_follower_comes_after_the_present_one() -> None:
    stream, last = EventStream(), Noting()
    first = Noting(stream=stream)
    stream.follow(first, last)
    stream.publish(Counted(1))
    stream.publish(Counted(3))
    assert first.numbers == last.numbers == [1, 2, 3]


def test_defect_of_a_follower_is_counted_and_reaches_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_found", {})
    last = Noting()
    stream = EventStream(Noting(broken=True), last)
    with structlog.testing.capture_logs() as log:
        stream.publish(Counted(1))
        stream.publish(Counted(2))
    assert last.numbers == [1, 2]
    assert [(each["task"], each["count"]) for each in tasks.status()] == [("events for Noting", 2)]
    assert [line["event"] for line in log] == ["task failed"] * 2
