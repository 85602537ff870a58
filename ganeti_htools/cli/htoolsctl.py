"""``htoolsctl``: asks a running htoolsd."""

import argparse
import json
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ganeti_htools import streams
from ganeti_htools.cli import htoolsctl_plans
from ganeti_htools.client.asking import PATIENCE, RefusedError, ask, usual_socket
from ganeti_htools.client.protocol import DEFAULT_SOCKET
from ganeti_htools.model.errors import DataError, HtoolsError
from htoolsd.process.version import VERSION

_REFRESH_PATIENCE = 400.0  # seconds; Ganeti may wait for a node for minutes
_COUNTS = ("served", "unsatisfied", "failed", "refused", "abandoned", "given_up", "broken")


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command; the exit status."""
    streams.complete()
    parser = _parser()
    options, rest = parser.parse_known_args(argv)
    if rest and options.run is not _decide:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.arguments = rest
    try:
        status = int(options.run(options))
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except RefusedError as err:
        print(f"htoolsctl: refused ({err.kind}): {err}", file=sys.stderr)
    except HtoolsError as err:
        print(f"htoolsctl: {err}", file=sys.stderr)
    except OSError as err:
        print(f"htoolsctl: {err.filename or 'output'}: {err.strerror}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="htoolsctl", description="Asks a running htoolsd.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"htoolsctl {VERSION}")
    parser.add_argument(
        "--socket",
        metavar="PATH",
        default=usual_socket(),
        help=f"the daemon's socket (default: $HTOOLSD_SOCKET, else {DEFAULT_SOCKET})",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, run: Callable[[argparse.Namespace], int], doc: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=doc, description=doc, allow_abbrev=False)
        command.set_defaults(run=run)
        return command

    for name, run, doc in (
        ("status", _status, "Shows how the daemon is and what it has done."),
        ("refresh", _refresh, "Has the daemon ask Ganeti and all nodes anew."),
        ("methods", _methods, "Lists what the daemon can be asked for."),
        ("plans", htoolsctl_plans.plans, "Lists the plans that the daemon has made, and how far they are."),
        ("plan", htoolsctl_plans.follow, "Tells of a plan until it has ended."),
        ("execute", htoolsctl_plans.execute, "Has a plan carried out, and tells of it until it has ended."),
        ("cancel", htoolsctl_plans.cancel, "Stops a plan once the jobs under way have ended."),
    ):
        command = add(name, run, doc)
        command.add_argument("--json", action="store_true", help="print the daemon's answer as JSON")
        if name in ("plan", "execute", "cancel"):
            command.add_argument("plan", metavar="ID", help="the plan, or the beginning of its id")
        if name == "execute":
            command.add_argument(
                "--wait-for-nodes",
                action="store_true",
                help="wait for nodes that are in use but do not report",
            )
        if name == "cancel":
            command.add_argument("--now", action="store_true", help="do not wait for the jobs under way")
    decide = add("decide", _decide, "Decides an iallocator request.")
    decide.usage = "htoolsctl decide FILE [--KEY=VALUE ...]"
    decide.add_argument("file", metavar="FILE", help="the request; - for standard input")
    return parser


def _status(options: argparse.Namespace) -> int:
    status: Any = ask(options.socket, "status", {}, patience=PATIENCE)
    _print(status, options.json, _describe)
    return 0


def _refresh(options: argparse.Namespace) -> int:
    ask(options.socket, "status", {}, patience=PATIENCE)  # a daemon that is stuck is not waited for so long
    state: Any = ask(options.socket, "refresh", {}, patience=_REFRESH_PATIENCE)
    _print(state, options.json, lambda state: iter([_ages(state["ages"])]))
    return 0


def _methods(options: argparse.Namespace) -> int:
    methods: Any = ask(options.socket, "methods", {}, patience=PATIENCE)
    _print(methods, options.json, _table)
    return 0


def _decide(options: argparse.Namespace) -> int:
    ask(options.socket, "status", {}, patience=PATIENCE)
    args: dict[str, object] = {"arguments": options.arguments}
    relay: Any
    if options.file == "-":
        relay = ask(options.socket, "decide", args | {"request": _standard_input()})
    else:
        with open(options.file, "rb") as file:
            relay = ask(options.socket, "decide", args, file.fileno())
    sys.stderr.write(relay["stderr"])
    sys.stdout.write(relay["stdout"])
    return int(relay["exit_status"])


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as err:
        raise DataError(f"standard input: byte {err.start} is no UTF-8") from None


def _print(value: Any, as_json: bool, describe: Callable[[Any], Iterator[str]]) -> None:
    print(json.dumps(value, indent=2) if as_json else "\n".join(describe(value)))


def _describe(status: Any) -> Iterator[str]:
    luxi, decisions = status["luxi"], status["decisions"]
    yield f"htoolsd {status['version']}, process {status['pid']}, up {_duration(status['uptime_s'])}"
    yield f"  socket     {status['socket']} ({status['connections']} connected)"
    why = f": {luxi['error']}" if luxi["error"] else ""
    yield f"  luxi       {luxi['state']} for {_duration(time.time() - luxi['since'])}{why} ({luxi['path']})"
    yield f"  cluster    {_known(status['cluster'])}"
    if status["cluster"]["silent"]:
        yield f"  silent     {', '.join(status['cluster']['silent'])}: taken for offline"
    if status["plans"]:
        yield f"  plans      {', '.join(f'{count} {state}' for state, count in status['plans'].items())}"
    counts = (f"{decisions[name]} {name.replace('_', ' ')}" for name in _COUNTS)
    yield f"  decisions  {', '.join(counts)}"
    if decisions["alone"]:
        ago = _duration(time.time() - decisions["last_alone"])
        yield f"  alone      {decisions['alone']} decided without the daemon, the last {ago} ago"
    now = f"{decisions['waiting']} waiting, {decisions['running']} running"
    if decisions["running"]:
        now += f" for {_duration(decisions['running_ms'] / 1000)}"
    if decisions["lost"]:
        now += f", {decisions['lost']} given up and not ended"
    yield f"  now        {now}"
    if decisions["last_ms"] is not None:
        yield "  time       " + ", ".join(
            f"{name} {decisions[f'{name}_ms']:.1f} ms" for name in ("last", "median", "slowest")
        )
    kept = f"{decisions['kept_nodes']} nodes and {decisions['kept_instances']} instances of the last request"
    yield f"  memory     {status['memory_mib']:.0f} MiB, with {kept}"


def _known(cluster: Any) -> str:
    if cluster["nodes"] is None:
        return "not known yet"
    known = f"{cluster['nodes']} nodes, {cluster['instances']} instances; {_ages(cluster['ages'])}"
    return known + " (late)" if cluster["late"] else known


def _ages(ages: Any) -> str:
    return ", ".join(f"{kind} {_duration(age)} old" for kind, age in ages.items())


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _table(methods: Any) -> Iterator[str]:
    for method in methods:
        yield from _wrapped(f"{method['name']} {method['version']}", method["doc"], 12)
        for name, meaning in method["arguments"].items():
            yield from _wrapped(f"  {name}", meaning, 14)


def _wrapped(name: str, text: str, column: int) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent=f"{name:<{column - 1}} ", subsequent_indent=" " * column)


if __name__ == "__main__":
    sys.exit(main())
