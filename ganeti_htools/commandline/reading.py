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

from ganeti_htools.commandline.line import CommandLine, Program
from ganeti_htools.commandline.option import Heading, Option, Takes
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
        return Reply(0, usage(program))
    if line.version:
        return Reply(0, version(program))
    if line.help_completion:
        return Reply(0, completion(program))
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
        several = table(options).removesuffix("\n")
        raise UsageError(f"option `--{name}' is ambiguous; could be one of:\n{several}")
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


_NARROWEST = 40  # columns


def usage(program: Program) -> str:
    """Return the answer to ``--help``."""
    from ganeti_htools.version import title  # slow to load and seldom needed

    top = f"{title(program.name)}\nUsage: {program.name} [OPTION...]"
    if program.actions:
        width = max(len(name) for name, _ in program.actions)
        actions = "".join(f"  {name:{width}}  {meaning}\n" for name, meaning in program.actions)
        actions = f"\nActions:\n{actions}"
        top += f" ACTION{' [NODE...]' * (len(program.arguments) > 1)}"
    else:
        actions = ""
    summary = f"{program.summary[:1].upper()}{program.summary[1:]}."
    return f"{top}\n{summary}\n{actions}{_options(program.all_options)}"


def _options(options: Sequence[Option[Any]]) -> str:
    """List the options below their headings."""
    lines, found = _lines(options), []
    for each in vars(CommandLine).values():
        if isinstance(each, Heading):
            found.append((each, list[str]()))
        elif each in options:
            found[-1][1].append(lines[options.index(each)])
    return "".join(f"\n{heading}:\n{''.join(below)}" for heading, below in found if below)


def version(program: Program) -> str:
    """Return the answer to ``--version``."""
    from ganeti_htools.version import build, title

    python = ".".join(map(str, sys.version_info[:3]))
    return f"{title(program.name)}, {build()}\nrunning with Python {python} on {sys.platform}\n"


def completion(program: Program) -> str:
    """Return the answer to ``--help-completion``, in the form of Ganeti's tools."""
    lines = [
        f"{'-' + option.short + ',' if option.short else ''}--{option.long} {option.completion}"
        for option in program.all_options
    ]
    return "".join(f"{line}\n" for line in (*lines, *program.arguments))


def table(options: Sequence[Option[Any]]) -> str:
    """List the options: their names with their argument, and their help, wrapped to fit the terminal."""
    return "".join(_lines(options))


def _lines(options: Sequence[Option[Any]]) -> list[str]:
    import shutil  # like textwrap, rarely needed
    import textwrap

    screen = max(shutil.get_terminal_size().columns, _NARROWEST)
    names = [_names(option) for option in options]
    width = [max(map(len, column)) for column in zip(*names, strict=True)]
    column = min(width[0] + width[1] + 6, screen // 2)
    found = []
    for option, (short, long) in zip(options, names, strict=True):
        title = f"  {short:{width[0]}}  {long}"
        texts = textwrap.wrap(option.help, screen - column)
        lines = [title if len(title) + 2 > column else f"{title:{column}}{texts.pop(0)}"]
        found.append("".join(f"{line}\n" for line in (*lines, *(" " * column + text for text in texts))))
    return found


def _names(option: Option[Any]) -> tuple[str, str]:
    short, long = option.short and f"-{option.short}", f"--{option.long}"
    match option.takes:
        case Takes.NOTHING:
            return short, long
        case Takes.ARGUMENT:
            return short and f"{short} {option.metavar}", f"{long}={option.metavar}"
        case Takes.OPTIONAL:
            return short and f"{short}[{option.metavar}]", f"{long}[={option.metavar}]"
