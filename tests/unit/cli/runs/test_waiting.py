"""What a roll waits for: programs, people, and times of day."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti_htools.cli.runs import roll
from ganeti_htools.commandline.kinds import HOURS
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.model.hours import Hours, read_hours

MINUTES = st.integers(0, 24 * 60 - 1)


@given(MINUTES, MINUTES | st.just(24 * 60), MINUTES)
def test_hours_are_counted_around_the_clock(begin: int, end: int, now: int) -> None:
    inside = now >= begin or now < end if begin >= end else begin <= now < end
    left = Hours(begin, end).minutes_until(now)
    assert (left == 0) == inside
    assert inside or (now + left) % (24 * 60) == begin


def test_hours_are_read() -> None:
    assert HOURS.read("22-6") == read_hours("22-6") == (22 * 60, 6 * 60)
    assert read_hours("07:30-18:15") == read_hours("7:30-18:15") == (450, 1095)
    assert read_hours("22:00-24:00") == (22 * 60, 24 * 60)
    for text in ("", "22", "24-6", "8-24:01", "7:60-8", "7-8-9", "٢-٣"):
        with pytest.raises(DataError, match="expected local times"):
            read_hours(text)


def test_hours_that_are_always() -> None:
    assert not roll.await_hours(None)
    assert not roll.await_hours(Hours(0, 0))


def test_program_gets_the_names(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = roll.words_of(f"sh -c 'echo \"$@\" >{out}' sh")
    roll.run_program(words, ["one", "two"], quiet=True)
    assert out.read_text() == "one two\n"


@pytest.mark.parametrize(("script", "why"), [("exit 3", "ended with status 3"), ("kill -9 $$", "was killed")])
def test_program_that_fails_is_named(script: str, why: str) -> None:
    with pytest.raises(HtoolsError, match=rf"^sh -c '.*' one: {why}$"):
        roll.run_program(["sh", "-c", script], ["one"], quiet=False)


@pytest.mark.parametrize("command", ["", "/nowhere/program", "'open"])
def test_program_that_cannot_be_run_is_found_before(command: str) -> None:
    with pytest.raises(HtoolsError, match="--command: "):
        roll.words_of(command)


def test_pause_ends_with_the_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll, "say", lambda _text: os.kill(os.getpid(), signal.SIGUSR1))
    before = signal.getsignal(signal.SIGUSR1)
    roll.ignore_early_signal()
    os.kill(os.getpid(), signal.SIGUSR1)
    roll.pause(["one"])
    signal.signal(signal.SIGUSR1, before)


def test_pause_ends_with_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, terminal = os.openpty()
    with open(terminal) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        os.write(ours, b"\n")
        roll.pause(["one"])
    os.close(ours)
