"""What an option is, and which options a program has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ganeti_htools.commandline.line import CommandLine


class Takes(Enum):
    """Whether an option has an argument."""

    NOTHING = 0
    ARGUMENT = 1
    OPTIONAL = 2


@dataclass(frozen=True, slots=True)
class Option:
    """An option: its names, how it changes its value, and what help and shell completion say of it.

    ``update`` makes the new value of the old one and the argument, which is empty where none was given
    and none is required; it raises DataError. ``completion`` is in Ganeti's words. The value is found
    under the option's long name unless ``field`` names another. One that is to be given ``in_full`` cannot
    be shortened, so that an older one stays unique where it was.
    """

    short: str
    long: str
    help: str
    update: Callable[[Any, str], Any]
    takes: Takes = Takes.NOTHING
    metavar: str = ""
    completion: str = "none"
    field: str = ""
    in_full: bool = False

    def applied(self, line: CommandLine, argument: str) -> CommandLine:
        """The command line with this option added."""
        field = self.field or self.long.replace("-", "_")
        return line._replace(**{field: self.update(getattr(line, field), argument)})


def switch(short: str, long: str, text: str, in_full: bool = False) -> Option:
    """An option without argument."""
    return Option(short, long, text, lambda _old, _argument: True, in_full=in_full)


HELP = switch("h", "help", "show this help")
VERSION = switch("V", "version", "show the version")
HELP_COMPLETION = switch("", "help-completion", "show what shell completion needs to know")


@dataclass(frozen=True, slots=True)
class Program:
    """A program: what it does, its options, and its arguments as ``--help-completion`` describes them."""

    name: str
    summary: str
    options: Sequence[Option]
    arguments: Sequence[str] = ()

    @property
    def all_options(self) -> tuple[Option, ...]:
        """Its own options and those of every program."""
        return (*self.options, VERSION, HELP, HELP_COMPLETION)
