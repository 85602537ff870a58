"""Notifications: when a call is made, and with which events."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from ganeti_htools import machine
from htoolsd.config.notify import NotifySettings
from htoolsd.notify.notifier import Notifier
from htoolsd.notify.outbox import WAITING, Outbox
from tests.support.notifying import recording_program
from tests.support.settings import change, settings
from tests.unit.daemon.notify.test_events import line, plan

FAIL = "if test -e fail; then echo no route >&2; exit 1; fi"


@pytest.fixture(autouse=True)
def clock_of_trio(monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock) -> None:
    monkeypatch.setattr(machine, "now", lambda: 1e9 + mock_clock.current_time())


class World:
    """A notifier whose lines, clock and program a test decides. The program fails while ``fail`` exists."""

    def __init__(self, directory: Path, clock: MockClock) -> None:
        self.directory = directory
        self.clock = clock
        self.lines: Sequence[dict[str, Any]] = ()
        program = recording_program(directory, f"cd {directory}; {FAIL}")
        self.settings = NotifySettings(program=str(program))
        self.known = settings(notify=self.settings)
        self.notifier = self.restarted()

    def restarted(self) -> Notifier:
        sync: Any = SimpleNamespace(cluster_name="cluster")
        self.outbox = Outbox(self.known)
        path = str(self.directory / "notified.json")
        self.notifier = Notifier(path, self.known, self.outbox, self, sync)
        return self.notifier

    async def report(self) -> dict[str, Any]:
        return {"attention": self.lines, "cluster": {"master": True, "nodes": 1}, "groups": []}

    async def start(self, loaded: Callable[[], object]) -> None:
        """Run the notifier until it has read its file."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.notifier.run)
            while not loaded():
                await trio.sleep(0)
            nursery.cancel_scope.cancel()

    async def after(self, seconds: float) -> list[list[str]]:
        """Let time pass and look; return the texts of all calls since the last time."""
        self.clock.jump(seconds)
        await self.notifier.round()
        return [[event["text"] for event in each["events"]] for each in self.messages()]

    def messages(self) -> list[Any]:
        file = self.directory / "messages"
        found = [json.loads(each) for each in file.read_text().splitlines()] if file.exists() else []
        file.unlink(missing_ok=True)
        return found

    def fail(self, failing: bool) -> None:
        if failing:
            (self.directory / "fail").touch()
        else:
            (self.directory / "fail").unlink()


async def test_call_has_all_events_of_a_pause(tmp_path: Path, mock_clock: MockClock) -> None:
    world = World(tmp_path, mock_clock)
    world.lines = [line("n1", "node2")]
    assert await world.after(0) == []
    world.outbox.note(plan("failed"))
    assert await world.after(9) == []
    assert await world.after(1) == [["plan beef of hbal failed", "n1 of node2"]]
    assert await world.after(100) == []


async def test_message_says_whose_it_is(tmp_path: Path, mock_clock: MockClock) -> None:
    world = World(tmp_path, mock_clock)
    world.lines = [line("n1", "node2")]
    await world.after(0)
    world.clock.jump(10)
    await world.notifier.round()
    (message,) = world.messages()
    (event,) = message.pop("events")
    assert message.pop("node")
    assert message == {"version": 1, "time": 1e9 + 10, "cluster": "cluster", "dropped": 0}
    assert event == {
        "time": 1e9 + 10,
        "kind": "n1",
        "state": "begun",
        "severity": "warning",
        "text": "n1 of node2",
        "command": "next",
        "names": ["node2"],
    }


async def test_condition_that_passes_within_the_pause_is_not_announced(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    world = World(tmp_path, mock_clock)
    world.lines = [line("n1", "node2")]
    await world.after(0)
    world.lines = []
    assert await world.after(10) == []


async def test_calls_keep_their_distance(tmp_path: Path, mock_clock: MockClock) -> None:
    world = World(tmp_path, mock_clock)
    world.lines = [line("n1", "node2")]
    await world.after(0)
    assert await world.after(10) != []
    world.lines = []
    await world.after(1)
    assert await world.after(58) == []
    assert await world.after(1) == [["over: n1 of node2"]]


async def test_failed_calls_are_repeated_ever_more_seldom_with_what_came_meanwhile(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    world = World(tmp_path, mock_clock)
    world.fail(True)
    world.lines = [line("n1", "node2")]
    world.outbox.note(plan("interrupted"))
    await world.after(0)
    assert len(await world.after(10)) == 1
    assert world.outbox.status()["error"] == f"{world.settings.program}: exit status 1: no route"
    assert await world.after(29) == []
    assert len(await world.after(1)) == 1
    assert await world.after(59) == []
    world.lines = [*world.lines, line("ledger", text="full")]
    world.fail(False)
    assert await world.after(1) == [["plan beef of hbal was interrupted", "n1 of node2", "full"]]
    assert (world.outbox.status()["error"], world.outbox.status()["waiting"]) == (None, 0)
    assert await world.after(1000) == []


async def test_new_daemon_does_not_announce_the_same_again(tmp_path: Path, mock_clock: MockClock) -> None:
    world = World(tmp_path, mock_clock)
    world.lines = [line("n1", "node2")]
    await world.after(0)
    await world.after(10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.restarted().run)
        await trio.testing.wait_all_tasks_blocked()
        while world.notifier._announced == {}:
            await trio.sleep(0)
        nursery.cancel_scope.cancel()
    assert await world.after(10) == await world.after(100) == []
    world.lines = []
    await world.after(0)
    assert await world.after(10) == [["over: n1 of node2"]]


async def test_events_that_wait_survive_a_restart(tmp_path: Path, mock_clock: MockClock) -> None:
    world = World(tmp_path, mock_clock)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.notifier.run)
        await trio.testing.wait_all_tasks_blocked()
        world.outbox.note(plan("interrupted"))
        nursery.cancel_scope.cancel()
    assert not world.messages()
    world.restarted()
    world.outbox.note(plan("failed"))
    await world.start(lambda: world.outbox.status()["waiting"] == 2)
    await world.after(0)
    expected = ["plan beef of hbal was interrupted", "plan beef of hbal failed"]
    assert await world.after(10) == [expected]


@pytest.mark.parametrize("content", [b'{"announced": [{"kind": 1}]}', b"{", b"\xff", b"[]", b"null", b""])
async def test_damaged_file_is_set_aside(tmp_path: Path, mock_clock: MockClock, content: bytes) -> None:
    world = World(tmp_path, mock_clock)
    (world.directory / "notified.json").write_bytes(content)
    world.lines = [line("n1", "node2")]
    await world.start(lambda: list(world.directory.glob("notified.json.damaged-*")))
    await world.after(0)
    assert await world.after(10) == [["n1 of node2"]]
    (aside,) = world.directory.glob("notified.json.damaged-*")
    assert aside.read_bytes() == content


async def test_oldest_events_are_dropped_and_counted(tmp_path: Path, mock_clock: MockClock) -> None:
    world = World(tmp_path, mock_clock)
    for number in range(WAITING + 5):
        world.outbox.note(plan("failed", f"job {number}"))
    assert (world.outbox.status()["waiting"], world.outbox.status()["dropped"]) == (WAITING, 5)
    await world.after(0)
    world.clock.jump(10)
    await world.notifier.round()
    (message,) = world.messages()
    assert (message["dropped"], len(message["events"])) == (5, 100)
    assert message["events"][0]["text"].endswith("job 5")
    assert (world.outbox.status()["waiting"], world.outbox.status()["dropped"]) == (WAITING - 100, 0)


async def test_test_goes_at_once_and_ends_a_back_off(tmp_path: Path, mock_clock: MockClock) -> None:
    world = World(tmp_path, mock_clock)
    world.fail(True)
    world.lines = [line("n1", "node2")]
    await world.after(0)
    await world.after(10)
    assert (await world.notifier.test()).error is not None
    world.fail(False)
    world.messages()
    assert (await world.notifier.test()).status == 0
    assert await world.after(0) == [["this is a test"], ["n1 of node2"]]


async def test_nothing_is_noted_or_done_without_a_program(tmp_path: Path, mock_clock: MockClock) -> None:
    world = World(tmp_path, mock_clock)
    change(world.known, notify=NotifySettings())
    world.outbox.note(plan("failed"))
    assert world.outbox.status() == {
        "way": None,
        "waiting": 0,
        "dropped": 0,
        "delivered": None,
        "error": None,
    }
    missing = replace(world.settings, program="/nonexistent")
    change(world.known, notify=missing)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.notifier.run)
        await trio.testing.wait_all_tasks_blocked()
        assert world.outbox.status()["error"] == "/nonexistent: expected a program that can be executed"
        nursery.cancel_scope.cancel()
