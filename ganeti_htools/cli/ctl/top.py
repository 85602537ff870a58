"""``htoolsctl top``: a live view of the cluster in a terminal."""

import curses
import time
from contextlib import suppress
from typing import Any

from ganeti_htools.cli.ctl.history import why
from ganeti_htools.cli.ctl.screen import Choice, Line, Shown, Style, frame, press
from ganeti_htools.cli.report.layout import escape_control_characters
from ganeti_htools.client import Daemon
from ganeti_htools.model.cluster import common_suffix
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State
from ganeti_htools.planning import view
from ganeti_htools.sources.source import Source, read

_EVERY = 2.0  # seconds between two looks at the daemon
_SHARE = 0.1  # of the time at most goes into reading a cluster that keeps changing
_GOING = {"running", "stopping"}  # states of plans that are being carried out
_KEYS = {
    curses.KEY_UP: "up",
    curses.KEY_DOWN: "down",
    curses.KEY_PPAGE: "page up",
    curses.KEY_NPAGE: "page down",
    curses.KEY_HOME: "home",
    curses.KEY_END: "end",
    curses.KEY_ENTER: "enter",
    curses.KEY_BACKSPACE: "back",
    8: "back",
    10: "enter",
    13: "enter",
    27: "back",
    127: "back",
}


class LastAnswers:
    """The latest answers of a daemon. The cluster is read again only if it has changed, and not too often."""

    def __init__(self, socket: str) -> None:
        self._daemon = Daemon(socket)
        self._state: tuple[Any, State] | None = None
        self._not_before, self._suffix = 0.0, ""
        self._counted: tuple[float, int] | None = None
        self._why: tuple[str, str] = "", ""

    def look(self, choice: Choice) -> Shown:
        """Ask for what a choice shows. Raises HtoolsError."""
        status: Any = escape_control_characters(self._daemon.status())
        generations = status["cluster"]["generations"]
        began = time.monotonic()
        if self._state is None or (self._state[0] != generations and began >= self._not_before):
            found = read(Source(daemon=self._daemon.path, fresh=False), lambda _line: None)
            self._state = generations, view.state_of(found.cluster, view.View())
            self._suffix = common_suffix(found.cluster)
            self._not_before = began + (time.monotonic() - began) / _SHARE
        if choice.instance and choice.instance != self._why[0]:
            told: Any = self._daemon.call("why", {"instance": choice.instance})
            self._why = choice.instance, why(escape_control_characters(told))
        plans: Any = ()
        if status["plans"].keys() & _GOING:
            listed: Any = escape_control_characters(self._daemon.call("plans"))
            plans = [each | {"now": time.time()} for each in listed if each["state"] in _GOING]
        rate = self._rate(status["decisions"])
        return Shown(status, self._state[1], rate, self._why[1], self._suffix, plans)

    def _rate(self, decisions: Any) -> float | None:
        """Return the decisions in a second since the last look."""
        now, number = time.monotonic(), decisions["served"] + decisions["unsatisfied"] + decisions["failed"]
        last, self._counted = self._counted, (now, number)
        return None if last is None else max(0, number - last[1]) / max(now - last[0], 0.001)


def once(socket: str, width: int) -> str:
    """Return a frame with all nodes as text. Raises HtoolsError."""
    return "\n".join(line.text for line in frame(LastAnswers(socket).look(Choice()), Choice(), width))


def live(socket: str) -> None:
    """Show frames until the user has seen enough.

    Raises HtoolsError if the daemon does not answer at first, or the terminal is not capable of it.
    """
    daemon = LastAnswers(socket)
    known = daemon.look(Choice())  # an error here needs no screen
    try:
        curses.wrapper(_run, daemon, known)
    except curses.error as error:
        raise HtoolsError(f"this terminal cannot show it ({error}); try --once, or another TERM") from error


def _run(window: Any, daemon: LastAnswers, known: Shown) -> None:
    curses.set_escdelay(25)
    for setting in (lambda: curses.curs_set(0), curses.use_default_colors):  # some terminals cannot
        with suppress(curses.error):
            setting()
    choice, problem, looked = Choice(), "", time.monotonic()
    answered = looked
    while True:
        _draw(window, known._replace(behind=time.monotonic() - answered if problem else 0.0), choice, problem)
        before, wait = choice, looked + _EVERY - time.monotonic()
        while (code := _key(window, wait)) is not None:  # all keys that were pressed, then one frame
            pressed = press(code, choice, known.state)
            if pressed is None:
                return
            choice, wait = pressed, 0.0
        if choice.instance != before.instance or time.monotonic() - looked >= _EVERY:
            try:
                known, problem = daemon.look(choice), ""
                answered = time.monotonic()
            except HtoolsError as error:
                problem = str(error)
            looked = time.monotonic()


def _key(window: Any, seconds: float) -> str | None:
    """Return the next key, empty for one without a meaning; None if none is pressed in time."""
    window.timeout(max(0, round(seconds * 1000)))
    code = window.getch()
    return None if code == curses.ERR else _KEYS.get(code, chr(code) if 32 <= code < 127 else "")


def _draw(window: Any, known: Shown, choice: Choice, problem: str) -> None:
    """Draw a frame; curses sends the terminal only what has changed."""
    height, width = window.getmaxyx()
    lines = frame(known, choice, width, height)
    if problem:
        lines[-1] = Line(problem[:width], Style.ALARM)
    looks = {
        Style.PLAIN: curses.A_NORMAL,
        Style.TITLE: curses.A_BOLD,
        Style.ALARM: curses.A_BOLD | curses.A_STANDOUT,
        Style.CHOSEN: curses.A_REVERSE,
    }
    window.erase()
    for row, (text, style) in enumerate(lines):
        with suppress(curses.error):  # the last cell of a window cannot be written without scrolling
            window.addnstr(row, 0, text, width, looks[style])
    window.refresh()
