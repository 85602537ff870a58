import io
import sys

import pytest

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
    with progress(after=0) as tell:
        tell("1 step")
        tell("2 steps")
    assert terminal.getvalue() == "\r\x1b[K1 step\r\x1b[K2 steps\r\x1b[K"


def test_short_work_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress(after=3600) as tell:
        tell("1 step")
    assert terminal.getvalue() == ""


def test_progress_is_for_terminals_only(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(after=0) as tell:
        tell("1 step")
    assert capsys.readouterr() == ("", "")
