"""Messages on standard error."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread

from ganeti_htools.model.errors import printable, printable_lines
from ganeti_htools.model.wording import duration

_USUAL = 80  # columns of a terminal that does not know its size
_PAUSE = 0.1  # seconds between two drawings of a line; searches have thousands of steps in a second


def warn(message: str) -> None:
    """Print a line on standard error. If that is closed or full, the line is dropped."""
    _write_line(f"{printable(message)}\n")


def say(text: str) -> None:
    """Write lines on standard error. If that is closed or full, they are dropped."""
    _write_line(printable_lines(text))


def _write_line(text: str) -> None:
    """Write text in place of the line of progress, which comes again below it."""
    if text and _lines:
        with _lines[-1].lock:
            text = f"\r\x1b[K{text}" if _lines[-1].shown else text
            _lines[-1].shown = False
            _write(text)
    else:
        _write(text)


def _write(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):
        if text:
            sys.stderr.write(text)
            sys.stderr.flush()


class _ProgressLine:
    """A line about long work: what is done, how far it is, since when, and how long the rest may take.

    The time left follows from a "3 of 20" in the text. The line is drawn anew each second, by :meth:`tick` in
    a thread of its own: long work may be silent for minutes.
    """

    def __init__(self, doing: str, after: float) -> None:
        self.doing, self.text, self.after, self.shown = doing, doing, after, False
        self.begin, self.drawn, self.first = time.monotonic(), -_PAUSE, (0.0, 0, 0)
        self.lock, self.over = Lock(), Event()

    def show(self, text: str) -> None:
        """Replace the text; an empty text removes the line."""
        with self.lock:
            self.text = text and (text if text == self.doing else f"{self.doing}: {text}")
            self._draw()

    def tick(self) -> None:
        """Draw the line each second until the work is over."""
        wait = max(self.after, 1.0)
        while not self.over.wait(wait):
            wait = 1.0
            with self.lock:
                self._draw()

    def _draw(self) -> None:
        now = time.monotonic()
        early = now - self.begin < self.after or (self.text and now - self.drawn < _PAUSE)
        if early or not (self.text or self.shown):
            return
        self.drawn = now
        width = _USUAL
        with suppress(OSError):
            width = os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL
        times = self._times(now) if self.text else ""
        text, room = printable(self.text), width - 1 - len(times)
        _write(f"\r\x1b[K{text if len(text) <= room else f'{text[: room - 1]}…'}{times}")
        self.shown = bool(self.text)

    def _times(self, now: float) -> str:
        """Return the time so far, and what is left if the text has a count."""
        passed = now - self.begin
        times = f", {duration(passed)}" if passed >= 1 else ""
        if count := re.search(r"(\d+) of (\d+)", self.text):
            done, number = map(int, count.groups())
            then, before, number_before = self.first
            if number != number_before or done < before:
                self.first = now, done, number
            elif before < done < number:
                times += f", about {duration((now - then) * (number - done) / (done - before))} left"
        return times


def tolerant(say: Callable[..., None]) -> Callable[..., None]:
    """Return a function like ``say`` that ignores closed pipes and full disks, because runs must continue."""

    def show(*texts: str) -> None:
        with suppress(OSError):
            say(*texts)

    return show


_lines = list[_ProgressLine]()  # of this process, the innermost last


@contextmanager
def progress(doing: str, after: float = 1.0) -> Iterator[Callable[[str], None]]:
    """Show in a line on the terminal what is being done and how far it is, after some seconds.

    Nothing is shown if standard error is no terminal. Each text replaces the previous text; an empty text
    removes the line.
    """
    if not (sys.stderr and sys.stderr.isatty()):
        yield lambda _text: None
        return
    line = _ProgressLine(doing, after)
    _lines.append(line)
    Thread(target=line.tick, daemon=True).start()
    try:
        yield line.show
    finally:
        line.over.set()
        line.show("")
        _lines.remove(line)
