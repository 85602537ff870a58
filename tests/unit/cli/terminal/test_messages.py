import io
import re
import sys
import threading
import time

import pytest

from ganeti_htools.cli.terminal import messages
from ganeti_htools.cli.terminal.messages import progress, say, warn


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Full(io.StringIO):
    def write(self, _text: str) -> int:
        raise OSError("No space left on device")


def test_a_warning_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    warn("late")
    say("as it is")
    assert capsys.readouterr() == ("", "late\nas it is")


@pytest.mark.parametrize("closed", [None, Full()])
def test_what_cannot_be_said_is_dropped(monkeypatch: pytest.MonkeyPatch, closed: io.StringIO | None) -> None:
    monkeypatch.setattr(sys, "stderr", closed)
    say("lost")
    warn("lost")


def test_names_on_standard_error_have_no_effects(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "web\x1b[2J\x9b\u202e"
    warn(f"{evil}\nError: forged")
    say(f"{evil}\n  second\n")
    shown = r"web\x1b[2J\x9b\u202e"
    assert capsys.readouterr().err == f"{shown}\\nError: forged\n{shown}\n  second\n"


def test_progress_replaces_itself_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(messages, "_PAUSE", 0.0)
    with progress("work", after=0) as tell:
        tell("1 step")
        tell("2 steps")
        warn("late")
        tell("")
    begin = "\r\x1b[K"
    assert terminal.getvalue() == f"{begin}work: 1 step{begin}work: 2 steps{begin}late\n"


def test_silent_work_shows_what_it_is_doing_and_since_when(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = threading.Event()

    class Screen(Terminal):
        def write(self, text: str) -> int:
            drawn.set()
            return super().write(text)

    terminal = Screen()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("planning"):
        assert drawn.wait(60)
    assert re.match(r"\r\x1b\[Kplanning, \d+ s", terminal.getvalue())


def test_fast_work_does_not_flood_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(messages, "_PAUSE", 3600.0)
    with progress("work", after=0) as tell:
        for number in range(1000):
            tell(f"{number} steps")
    assert terminal.getvalue() == "\r\x1b[Kwork: 0 steps\r\x1b[K"


def test_counts_tell_the_time_left_within_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    clock = iter([0.0, 10.0, 20.0, 30.0, 40.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    line = messages._ProgressLine("planning", 1.0)
    for text in ("2 of 10 nodes", f"4 of 10 nodes {'x' * 90}", "10 of 10 nodes"):
        line.show(text)
    lines = terminal.getvalue().replace("\x1b[K", "").split("\r")[1:]
    assert lines[0] == "planning: 2 of 10 nodes, 10 s"
    assert lines[1].startswith("planning: 4 of 10 nodes xxx")
    assert lines[1].endswith("x…, 20 s, about 30 s left")
    assert len(lines[1]) == 79
    assert lines[2] == "planning: 10 of 10 nodes, 30 s"


def test_short_work_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("work", after=3600) as tell:
        tell("1 step")
    assert terminal.getvalue() == ""


def test_progress_is_for_terminals_only(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("work", after=0) as tell:
        tell("1 step")
    assert capsys.readouterr() == ("", "")
