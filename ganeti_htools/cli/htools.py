"""Entry points of the tools; ``htools`` runs the tool that its name or the variable HTOOLS names (htools(1)).

A tool's own module is loaded after its command line has been read, so that ``--help`` and ``--version`` need
neither numpy nor the engine.
"""

import gc
import os
import sys
from functools import partial
from importlib import import_module
from typing import NoReturn

from ganeti_htools.cli.terminal.program import execute
from ganeti_htools.commandline import programs
from ganeti_htools.commandline.line import CommandLine, Program
from ganeti_htools.commandline.programs import PROGRAMS


def main() -> int:
    """Run ``htools``. Returns the exit status if there is no such tool."""
    name = os.environ.get("HTOOLS", os.path.basename(sys.argv[0])).lower()
    if name in PROGRAMS:
        _start(PROGRAMS[name])
    sys.stderr.write(_unknown(name))
    return 1


def _start(program: Program) -> NoReturn:
    gc.disable()  # start-up creates no garbage

    def run(line: CommandLine) -> int | None:
        module = import_module(f"ganeti_htools.cli.{program.name}")
        gc.freeze()
        gc.enable()
        status: int | None = module.run(line)
        return status

    status = execute(program, run)
    os._exit(status)  # skips the interpreter's clean-up, which takes as long as loading the engine


# The entry points of pyproject.toml.
hail = partial(_start, programs.HAIL)
harep = partial(_start, programs.HAREP)
hbal = partial(_start, programs.HBAL)
hcheck = partial(_start, programs.HCHECK)
hinfo = partial(_start, programs.HINFO)
hmaintain = partial(_start, programs.HMAINTAIN)
hregroup = partial(_start, programs.HREGROUP)
hroller = partial(_start, programs.HROLLER)
hscan = partial(_start, programs.HSCAN)
hspace = partial(_start, programs.HSPACE)
hsqueeze = partial(_start, programs.HSQUEEZE)


def _unknown(name: str) -> str:
    import textwrap  # rarely needed

    width = max(map(len, PROGRAMS))
    lines = [
        line
        for role, program in PROGRAMS.items()
        for line in textwrap.wrap(
            program.summary, 79, initial_indent=f" {role:{width}} - ", subsequent_indent=" " * (width + 4)
        )
    ]
    return "".join(
        f"{line}\n"
        for line in (
            f"Unrecognised personality '{name}'.",
            "This program has to be run under one of these names, for example by a symbolic link:",
            *lines,
            "",
            "Error: Rename or link the program, or set HTOOLS to one of these names.",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
