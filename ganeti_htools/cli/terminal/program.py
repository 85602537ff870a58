"""The frame of every tool: reads the command line, works, reports errors, returns the exit status."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from ganeti_htools import streams
from ganeti_htools.cli.terminal.messages import say
from ganeti_htools.commandline.line import CommandLine, Program
from ganeti_htools.commandline.reading import parse_or_exit
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError, printable

Work = Callable[[CommandLine], int | None]  # the exit status; None is 0

INTERRUPTED = 130  # by SIGINT, as shells say it


def execute(program: Program, work: Work, argv: Sequence[str] | None = None) -> int:
    """Run a program. An error is one line; a closed pipe counts as an error."""
    streams.open_missing()
    status = INTERRUPTED
    try:
        status = _ended(program, work, sys.argv[1:] if argv is None else argv)
    except* KeyboardInterrupt:
        say("\n")  # ends the line of progress
    return status


def _ended(program: Program, work: Work, argv: Sequence[str]) -> int:
    line = CommandLine()
    try:
        line = parse_or_exit(program, argv)
        if line.wide:
            streams.disable_fitting()
        if line.arguments and not program.arguments:
            raise HtoolsError("This program doesn't take any arguments.")
        status = work(line) or 0
        sys.stdout.flush()
    except HtoolsError as error:
        with suppress(OSError):
            sys.stdout.flush()
        lines = f"Error: {printable(str(error))}", error.hint if _shows_hint(error, line) else ""
        say("".join(f"{text}\n" for text in lines if text))
        status = 1
    except OSError as error:  # of standard output; all others are HtoolsErrors
        if not isinstance(error, BrokenPipeError):
            say(f"Error: {error.filename or 'standard output'}: {error.strerror or error}\n")
        status = 1
    finally:
        try:
            sys.stdout.flush()
        except OSError:
            # The rest must not fail again when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def _shows_hint(error: HtoolsError, line: CommandLine) -> bool:
    return not error.exact or line.text_data is None or line.verbose > 1 or sys.stderr.isatty()


def check_exec(program: Program, line: CommandLine) -> None:
    """Raises HtoolsError for ``-X`` if the cluster is read neither over LUXI nor from htoolsd.

    Call this before making the plan, which may take long.
    """
    if not line.exec or line.daemon is not None:
        return
    if line.luxi is None:
        hint = "-X: expected -L, or -D to leave the plan to htoolsd"
        raise HtoolsError(f"{program.name}: Execution of commands possible only on LUXI", hint, exact=True)
    if line.no_wait:
        raise HtoolsError("--no-wait: only htoolsd goes on by itself: expected -D")


def printer(line: CommandLine) -> Callable[..., None]:
    """Return a function that prints lines of the report on standard output, or nothing with ``--json``."""

    def write(*texts: str) -> None:
        if not line.json:
            print(*texts, sep="\n", flush=True)

    return write


def print_json(report: object, cluster: Cluster | None = None) -> None:
    """Print a report on standard output as JSON in UTF-8; numbers that are not finite become null.

    An object also names the nodes of the ``cluster`` whose figures are older than their instances.
    """
    import orjson  # seldom needed

    older = [node.name for node in cluster.nodes if node.updating] if cluster else []
    if older and isinstance(report, dict):
        report = report | {"updating": older}
    layout = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    sys.stdout.flush()
    sys.stdout.buffer.write(orjson.dumps(report, option=layout))
