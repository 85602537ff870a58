"""``htoolsctl``: asks a running htoolsd (``htoolsctl(1)``)."""

import argparse
import os
import sys
import textwrap
from argparse import Namespace
from collections.abc import Sequence

from ganeti_htools import streams
from ganeti_htools.cli.ctl import (
    check,
    decisions,
    forecast,
    glossary,
    history,
    ledger,
    load,
    plans,
    policies,
    status,
    witness,
)
from ganeti_htools.cli.ctl.commands import CONFIGURATION, Add, CommandParser, Run, asking
from ganeti_htools.cli.report.layout import columns
from ganeti_htools.cli.terminal.messages import warn
from ganeti_htools.client import CallRefusedError
from ganeti_htools.client.calls import default_socket
from ganeti_htools.client.protocol import DEFAULT_SOCKET
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.version import ShowVersion


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command; the exit status."""
    streams.open_missing()
    made = parser()
    options, rest = made.parse_known_args(argv)
    if options.run is None:
        made.print_help(sys.stderr)
        return made.usage_status
    if rest and options.run not in decisions.WITH_PARAMETERS:
        options.parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.arguments = rest
    if options.wide:
        streams.disable_fitting()
    try:
        ended = int(options.run(options))
        sys.stdout.flush()
        return ended
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except CallRefusedError as err:
        warn(f"htoolsctl: refused ({err.kind}): {err}")
    except HtoolsError as err:
        warn(f"htoolsctl: {err}")
    except OSError as err:
        warn(f"htoolsctl: {err.filename or 'output'}: {err.strerror}")
    return 1


def parser() -> CommandParser:
    made = CommandParser(
        prog="htoolsctl",
        usage="htoolsctl [--socket PATH] COMMAND ...",
        description="Ask and control a running htoolsd.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.set_defaults(run=None)
    made.add_argument("--version", action=ShowVersion, nargs=0, help="show the version")
    made.add_argument(
        "--socket",
        metavar="PATH",
        default=default_socket(),
        help=f"the daemon's socket (default: $HTOOLSD_SOCKET, else {DEFAULT_SOCKET})",
    )
    commands = made.add_subparsers(metavar="COMMAND", prog="htoolsctl", help=argparse.SUPPRESS)
    subjects = list[str]()

    def add(name: str, run: Run, doc: str) -> CommandParser:
        lines = textwrap.wrap(doc, columns(), initial_indent=f"  {name:12}", subsequent_indent=" " * 14)
        subjects[-1] += "".join(f"\n{line}" for line in lines)
        command = commands.add_parser(name, description=doc, allow_abbrev=False)
        command.set_defaults(run=run, parser=command)
        command.flag("--json", "print the daemon's answer as JSON")
        command.flag("--wide", "do not fit the output to the terminal")
        return command

    for title, declares in _SUBJECTS.items():
        subjects.append(f"{title}:")
        for declare in declares:
            declare(add)
    made.epilog = "\n\n".join([*subjects, "htoolsctl COMMAND --help shows what a command takes."])
    return made


def _declare(add: Add) -> None:
    """Add the commands that are no question to the daemon."""
    setup = add("setup", _setup, "Set up this node and its cluster for the daemon, step by step.")
    setup.flag("--dry-run", "show all steps and commands; change nothing")
    setup.flag("--yes", "do not ask before each step")
    setup.flag("--remove", "undo what setup has done")
    setup.flag("--witness", "let Ganeti's own hail answer first, and compare")
    top = add("top", _top, "Show the cluster and the daemon, live, in a terminal.")
    top.flag("--once", "print one frame as text, with all nodes")
    bundle = add("bundle", _bundle, "Write a report of a fault without any names.")
    one = bundle.add_mutually_exclusive_group()
    one.add_argument("--plan", metavar="ID", help="with this plan of the daemon")
    one.add_argument("--decision", metavar="ID", help="with this decision instead of the whole history")
    bundle.add_argument("--out", metavar="FILE", help="the file (default: htoolsd-bundle-TIME.tar.gz)")
    bundle.flag("--coarse", "round sizes to two significant digits")
    bundle.add_argument(
        "--config", metavar="FILE", default=CONFIGURATION, help="the daemon's configuration file"
    )
    bundle.flag("--yes", "do not ask before the file is written")


_SUBJECTS = {
    "The cluster and the daemon": (
        status.declare,
        _declare,
        check.declare,
        forecast.declare,
        status.declare_uses,
        glossary.declare,
    ),
    "Plans": (plans.declare,),
    "Policies and history": (policies.declare, history.declare),
    "Decisions": (decisions.declare, witness.declare, history.declare_replay),
    "Measured load": (load.declare,),
    "Ledger of resources": (ledger.declare,),
}


def _setup(options: Namespace) -> int:
    from ganeti_htools.cli.setup.command import setup  # seldom needed

    return setup(options)


def _bundle(options: Namespace) -> int:
    from ganeti_htools.cli.bundle import write  # seldom needed

    return write(options)


def _top(options: Namespace) -> int:
    if options.json:
        return asking("status", status.status)(options)
    from ganeti_htools.cli.ctl import top  # with curses and the engine

    if options.once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        print(top.once(options.socket, columns()))
    else:
        top.live(options.socket)
    return 0


if __name__ == "__main__":
    sys.exit(main())
