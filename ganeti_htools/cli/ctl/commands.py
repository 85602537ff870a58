"""Commands of ``htoolsctl``: their parsers, calls of the daemon, and answers as text or JSON."""

import argparse
import json
import re
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol

from ganeti_htools.cli.report.layout import escape_control_characters, wrapped
from ganeti_htools.client import Daemon
from ganeti_htools.client.calls import PATIENCE
from ganeti_htools.model.wording import did_you_mean

CONFIGURATION = "/etc/htoolsd.toml"  # of the daemon

Run = Callable[[Namespace], int]  # carries out a command; the exit status
Report = Callable[[Any], str]  # describes an answer of the daemon


class CommandParser(argparse.ArgumentParser):
    """The parser of a command, which exits with ``usage_status`` if the command line is wrong."""

    usage_status = 2

    def flag(self, name: str, doc: str) -> None:
        """Add an option without argument."""
        self.add_argument(name, action="store_true", help=doc)

    def error(self, message: str) -> NoReturn:
        """Print the error and what leads to the right word, and end the program."""
        problem = message.partition(" (choose from")[0]
        wrong = re.fullmatch(r".*invalid choice: '?(.+?)'?|unrecognized arguments: ([^ =]+).*", problem)
        known = [
            *self._option_string_actions,
            *(word for each in self._actions for word in each.choices or ()),
        ]
        nearest = did_you_mean(wrong[1] or wrong[2], known) if wrong else ""
        way = " ".join(filter(None, (nearest, f"{self.prog} --help shows what it takes")))
        self.exit(self.usage_status, f"{self.prog}: error: {problem}\n{way}\n")


class Add(Protocol):
    """Adds a command: its name, the function that carries it out, and its purpose."""

    def __call__(self, name: str, run: Run, doc: str) -> CommandParser: ...


def call(
    options: Namespace, method: str, arguments: Mapping[str, Any] | None = None, patience: float | None = None
) -> Any:
    """Ask the daemon for what it only has to look up, or with more ``patience`` (seconds).

    Arguments that are None are left out. Raises HtoolsError.
    """
    given = {key: value for key, value in (arguments or {}).items() if value is not None}
    return Daemon(options.socket).call(method, given, patience or PATIENCE)


def show(options: Namespace, answer: Any, report: Report) -> int:
    """Print an answer of the daemon, as it is with ``--json``; the exit status."""
    print(
        json.dumps(answer, indent=2) if options.json else wrapped(report(escape_control_characters(answer)))
    )
    return 0


def asking(method: str, report: Report, *keys: str, patience: float | None = None) -> Run:
    """Make a command that asks the daemon with these options as arguments, and prints the answer."""

    def run(options: Namespace) -> int:
        arguments = {key: getattr(options, key) for key in keys}
        return show(options, call(options, method, arguments, patience), report)

    return run
