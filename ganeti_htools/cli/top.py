"""``htoolsctl top``: a live view of the cluster in a terminal."""

import curses
import time
from contextlib import suppress
from typing import Any

from ganeti_htools.cli.report.history import why
from ganeti_htools.cli.report.layout import harmless
from ganeti_htools.cli.report.screen import Choice, Line, Shown, Style, frame, press
from ganeti_htools.client.calls import PATIENCE, ask
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State
from ganeti_htools.planning import view
from ganeti_htools.sources.source import Source, read

_EVERY = 2.0  # seconds between two looks at the daemon
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
    """The latest answers of a daemon. The cluster is read again only if it has changed."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._state: tuple[Any, State] | None = None
        self._counted: tuple[float, int] | None = None
        self._why: tuple[str, str] = "", ""

    def look(self, choice: Choice) -> Shown:
        """Ask for what a choice shows. Raises HtoolsError."""
        status: Any = harmless(ask(self._socket, "status", {}, patience=PATIENCE))
        generations = status["cluster"]["generations"]
        if self._state is None or self._state[0] != generations:
            found = read(Source(daemon=self._socket, fresh=False), lambda _line: None)
            self._state = generations, view.state_of(found.cluster, view.View())
        if choice.instance != self._why[0]:
            told: Any = ask(self._socket, "why", {"instance": choice.instance}, patience=PATIENCE)
            self._why = choice.instance, why(harmless(told))
        return Shown(status, self._state[1], self._rate(status["decisions"]), self._why[1])

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
    with suppress(curses.error):  # of terminals that cannot hide the cursor
        curses.curs_set(0)
    window.timeout(250)
    choice: Choice | None = Choice()
    problem, looked = "", time.monotonic()
    while choice is not None:
        _draw(window, known, choice, problem)
        code = window.getch()
        before = choice
        if code not in (curses.ERR, curses.KEY_RESIZE):
            choice = press(_KEYS.get(code, chr(code) if 32 <= code < 127 else ""), choice, known.state)
        if choice is None:
            return
        if choice.instance != before.instance or time.monotonic() - looked >= _EVERY:
            try:
                known, problem = daemon.look(choice), ""
            except HtoolsError as error:
                problem = str(error)
            looked = time.monotonic()


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
