"""Running a program: its command line in, its exit status out."""

import os
import sys
from collections.abc import Callable, Sequence

import orjson

from ganeti_htools.cli.commandline import CommandLine, Program, obey
from ganeti_htools.model.errors import HtoolsError

Run = Callable[[CommandLine], int]


def execute(program: Program, run: Run, argv: Sequence[str] | None = None) -> int:
    """Run a program. Errors are one line; nobody reading is one, too."""
    line = obey(program, sys.argv[1:] if argv is None else argv)
    try:
        if line.arguments and not program.arguments:
            raise HtoolsError("This program doesn't take any arguments.")
        status = run(line)
        sys.stdout.flush()
    except HtoolsError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # What is left to be written must not fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def print_json(report: object) -> None:
    """Put a report on standard output as one JSON document; figures that are no numbers become null."""
    print(orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY).decode())
