"""Command lines, read as GNU getopt and Ganeti's tools read them.

Options and arguments may be mixed, up to ``--``; long options may be shortened to a prefix that is unique
among the options of Ganeti's tool, or else among ours; ``-vv`` is ``-v -v``; an optional argument must be
attached (``-pname``, ``--print-nodes=name``). Ganeti gives every iallocator parameter a value, so an empty
one (``--mond-xen=``) is accepted where none is required.
"""

import re
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from ganeti_htools.commandline import usage
from ganeti_htools.commandline.line import CommandLine, Program
from ganeti_htools.commandline.option import Option, Takes
from ganeti_htools.model.errors import DataError, UsageError
from ganeti_htools.model.wording import did_you_mean

Occurrence = tuple[Option[Any], str]  # an option and its argument, which may be empty


class Reply(NamedTuple):
    """The text that a program prints instead of doing its work, and its exit status."""

    status: int
    text: str


def read(program: Program, argv: Sequence[str]) -> CommandLine | Reply:
    """Read a command line, given without the program's name."""
    occurrences, arguments, errors = _split(program, argv)
    if errors:
        return Reply(2, f"Command line error: {''.join(errors)}{_advice(program, errors[-1])}\n")
    values: dict[str, Any] = {}
    for option, argument in occurrences:
        try:
            values[option.field] = option.update(values.get(option.field, option.default), argument)
        except DataError as error:
            return Reply(1, f"Error while parsing command line arguments:\n--{option.long}: {error}\n")
    line = CommandLine(tuple(arguments), **values)
    if line.help:
        return Reply(0, usage.usage(program))
    if line.version:
        return Reply(0, usage.version(program))
    if line.help_completion:
        return Reply(0, usage.completion(program))
    return line


def parse_or_exit(program: Program, argv: Sequence[str]) -> CommandLine:
    """Read a command line. If there is a reply instead, print it and raise SystemExit."""
    result = read(program, argv)
    if isinstance(result, Reply):
        print(result.text, end="", file=sys.stderr if result.status else sys.stdout, flush=True)
        raise SystemExit(result.status)
    return result


def _split(program: Program, argv: Sequence[str]) -> tuple[list[Occurrence], list[str], list[str]]:
    """Split words into options with their arguments, other arguments, and lines about errors."""
    rest = list(reversed(argv))
    occurrences: list[Occurrence] = []
    arguments: list[str] = []
    errors: list[str] = []
    while rest:
        word = rest.pop()
        if word == "--":
            arguments += reversed(rest)
            break
        try:
            if word.startswith("--"):
                occurrences.append(_long(program, word, rest))
            elif word.startswith("-") and word != "-":
                occurrences.append(_short(program, word, rest))
            else:
                arguments.append(word)
        except UsageError as error:
            errors.append(f"{error}\n")
    errors.sort(key=lambda error: error.startswith("unrecognized"))
    return occurrences, arguments, errors


def _advice(program: Program, error: str) -> str:
    """Return a line that leads from the last error to the right option."""
    known = [option.long for option in program.all_options]
    word = re.match("unrecognized option `--([^=']+)", error)
    nearest = did_you_mean(word[1], known, "--") if word else ""
    return f"{nearest}{' ' * bool(nearest)}{program.name} --help lists the options"


def _long(program: Program, word: str, rest: list[str]) -> Occurrence:
    name, attached, argument = word.removeprefix("--").partition("=")
    options = program.named(name)
    if not options:
        raise UsageError(f"unrecognized option `{word}'")
    if len(options) > 1:
        table = usage.table(options).removesuffix("\n")
        raise UsageError(f"option `--{name}' is ambiguous; could be one of:\n{table}")
    (option,) = options
    if option.takes is Takes.NOTHING and argument:
        raise UsageError(f"option `--{name}' doesn't allow an argument")
    if option.takes is Takes.ARGUMENT and not attached:
        argument = _next(option, f"--{name}", rest)
    return option, argument


def _short(program: Program, word: str, rest: list[str]) -> Occurrence:
    letter, more = word[1], word[2:]
    option = next((option for option in program.all_options if option.short == letter), None)
    if more and (option is None or option.takes is Takes.NOTHING):
        rest.append(f"-{more}")
        more = ""
    if option is None:
        raise UsageError(f"unrecognized option `-{letter}'")
    if option.takes is Takes.ARGUMENT and not more:
        more = _next(option, f"-{letter}", rest)
    return option, more


def _next(option: Option[Any], name: str, rest: list[str]) -> str:
    if not rest:
        raise UsageError(f"option `{name}' requires an argument {option.metavar}")
    return rest.pop()
