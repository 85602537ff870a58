"""Help, version and completion of a program."""

import sys
from collections.abc import Sequence
from typing import Any

from ganeti_htools.commandline.line import CommandLine, Program
from ganeti_htools.commandline.option import Heading, Option, Takes

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
