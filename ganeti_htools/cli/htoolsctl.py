"""``htoolsctl``: asks a running htoolsd (``htoolsctl(1)``)."""

import argparse
import json
import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NoReturn

from ganeti_htools import streams
from ganeti_htools.cli import glossary, ledger_commands, monitoring
from ganeti_htools.cli.report import daemon, daemon_plans, decision, history, policies, storage
from ganeti_htools.cli.report import glossary as glossary_report
from ganeti_htools.cli.report.layout import columns, harmless, wrapped
from ganeti_htools.cli.terminal.arguments import count, size
from ganeti_htools.cli.terminal.messages import progress, say, warn
from ganeti_htools.client.calls import PATIENCE, CallRefusedError, ask, default_socket
from ganeti_htools.client.plan_changes import follow
from ganeti_htools.client.protocol import DEFAULT_SOCKET
from ganeti_htools.files import read_text, write_text
from ganeti_htools.model.errors import DataError, HtoolsError, printable
from ganeti_htools.model.storage import DRBD_META
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.version import ShowVersion

_REFRESHING = 400.0  # seconds; Ganeti may wait for a node for minutes
_DAY = 86400.0  # seconds
_PAUSE = 1.0  # seconds between looks for the end of jobs
_PLANNING = 3600.0  # seconds; a plan of an earlier daemon is made again before it is executed
_DRAWING = 40.0  # seconds; the daemon gives up earlier
_METRICS = 15.0  # seconds; several waits of the daemon, and the first call imports a library
_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
_ENDED = {"failed": 1, "interrupted": 2}  # exit status by the state that a plan ends in, else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command; the exit status."""
    streams.complete()
    options, rest = _parser().parse_known_args(argv)
    if rest and options.run not in (_decide, _make_room_for):
        options.parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.arguments = rest
    if options.wide:
        streams.widen()
    try:
        status = int(options.run(options))
        sys.stdout.flush()
        return status
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


class _CommandParser(argparse.ArgumentParser):
    """The parser of a command, which exits with ``usage_status`` if the command line is wrong."""

    usage_status = 2

    def error(self, message: str) -> NoReturn:
        """Print the error, and end the program."""
        self.print_usage(sys.stderr)
        self.exit(self.usage_status, f"{self.prog}: error: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="htoolsctl", description="Ask and control a running htoolsd.", allow_abbrev=False
    )
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="show the version")
    parser.add_argument(
        "--socket",
        metavar="PATH",
        default=default_socket(),
        help=f"the daemon's socket (default: $HTOOLSD_SOCKET, else {DEFAULT_SOCKET})",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_CommandParser)

    def add(name: str, run: Callable[[Namespace], int], doc: str) -> _CommandParser:
        command = commands.add_parser(name, help=doc, description=doc, allow_abbrev=False)
        command.set_defaults(run=run, parser=command)
        command.add_argument("--json", action="store_true", help="print the daemon's answer as JSON")
        command.add_argument("--wide", action="store_true", help="do not fit the output to the terminal")
        return command

    for name, run, doc in (
        ("status", _status, "Show the state of the daemon and what it has done."),
        ("refresh", _refresh, "Let the daemon ask Ganeti and all nodes again."),
        ("storage", _storage, "Show the storage units of the nodes, and the pools."),
        ("methods", _methods, "List the methods of the daemon."),
        ("plans", _plans, "List the daemon's plans and their progress."),
        ("plan", _plan, "Follow a plan until it has ended."),
        ("execute", _execute, "Carry out a plan, and follow it until it has ended."),
        ("resume", _resume, "Plan the rest of an interrupted plan anew, and carry it out."),
        ("cancel", _cancel, "Stop a plan after its current jobs."),
        ("forget", _forget, "Remove a plan that is not being carried out."),
    ):
        command = add(name, run, doc)
        if name == "plans":
            which = command.add_mutually_exclusive_group()
            which.add_argument("--waiting", action="store_true", help="only proposals of policies that wait")
            which.add_argument("--failed", action="store_true", help="only failed and interrupted plans")
        if name in ("plan", "execute", "resume", "cancel", "forget"):
            command.add_argument("plan", metavar="ID", help="the plan's id, or the beginning of it")
        if name in ("execute", "resume"):
            command.add_argument(
                "--wait-for-nodes",
                action="store_true",
                help="wait for nodes that are in use but do not report",
            )
        if name == "cancel":
            command.add_argument("--now", action="store_true", help="do not wait for the current jobs")
    setup = add("setup", _setup, "Set up this node and its cluster for the daemon, step by step.")
    setup.add_argument("--dry-run", action="store_true", help="show all steps and commands; change nothing")
    setup.add_argument("--yes", action="store_true", help="do not ask before each step")
    setup.add_argument("--remove", action="store_true", help="undo what setup has done")
    top = add("top", _top, "Show the cluster and the daemon, live, in a terminal.")
    top.add_argument("--once", action="store_true", help="print one frame as text, with all nodes")
    check = add("check", _check, "Check the daemon and the cluster for a monitoring system.")
    check.usage_status = monitoring.CheckState.UNKNOWN  # 2 would be CRITICAL
    for short, name in (("-w", "warning"), ("-c", "critical")):
        doc = f"{name} if the metric is outside of the range, like age=30m; can be repeated"
        check.add_argument(
            short, f"--{name}", metavar="METRIC=RANGE", type=_threshold, action="append", default=[], help=doc
        )
    figures = add("metrics", _metrics, "Print the figures of the daemon and the cluster for Prometheus.")
    figures.add_argument(
        "--textfile", metavar="FILE", help="write them to this file, as a whole, for node_exporter"
    )
    figures.add_argument(
        "--exporter-names", action="store_true", help="add the metrics of prometheus-ganeti-exporter"
    )
    drawn = add("report", _report, "Write the state of the cluster and the history as an HTML page.")
    drawn.add_argument("--html", metavar="FILE", help="write the page to this file, as a whole")
    notify = add("notify", _notify, "Show the state of notifications.")
    notify.add_argument("--test", action="store_true", help="send a test now, and show what happened")
    listed = add("policies", _policies, "List the policies: mode, last and next decision, remaining budget.")
    listed.add_argument(
        "--explain", metavar="POLICY", help="explain what a policy would do now, and why it does not"
    )
    wanted = add("run", _run, "Let a policy decide now; do not wait for the decision.")
    wanted.add_argument("policy", metavar="POLICY", help="the policy, like rebalance")
    wanted.add_argument(
        "--forget-failures", action="store_true", help="switch the policy on again after failed plans"
    )
    past = add("history", _history, "List decisions of the daemon and its policies, and plans.")
    past.add_argument("--instance", metavar="INSTANCE", help="only entries about this instance")
    past.add_argument("--node", metavar="NODE", help="only entries about this node")
    since = "only entries since 2026-01-31, 2026-01-31T18:00, 2h ago (2h) or 3d ago (3d)"
    past.add_argument("--since", metavar="TIME", type=_time, help=since)
    past.add_argument("--most", metavar="N", type=count, help="at most the newest N entries (default: 100)")
    why = add("why", _why, "Explain why an instance is on its nodes.")
    why.add_argument("instance", metavar="INSTANCE", help="its name, or the beginning of it up to a dot")
    ledger_commands.declare(add, _print)
    terms = add("glossary", _glossary, "Explain the terms of the output; needs no daemon.")
    terms.add_argument("term", metavar="TERM", nargs="?", help="the term; all terms without it")
    decide = add("decide", _decide, "Decide an iallocator request.")
    decide.usage = "htoolsctl decide FILE [--alternates=N] [--claim] [--make-room]"
    decide.usage += " [--max-moves=N] [--max-copy=SIZE] [--json] [--wide] [--KEY=VALUE ...]"
    decide.add_argument("file", metavar="FILE", help="the request; - for standard input")
    decide.add_argument(
        "--alternates",
        metavar="N",
        type=count,
        help="list the group of each new instance, and up to N others that could take it",
    )
    decide.add_argument(
        "--make-room",
        action="store_true",
        help="if a new instance finds no place, plan the fewest moves after which it does",
    )
    decide.add_argument("--max-moves", metavar="N", type=count, help="with --make-room: at most N moves")
    decide.add_argument(
        "--max-copy",
        metavar="SIZE",
        type=size,
        help="with --make-room: copy at most SIZE of disks and memory",
    )
    decide.add_argument("--claim", action="store_true", help="reserve the resources of the decision")
    _declare_make_room(add("make-room", _make_room_for, "Plan moves after which a new instance has a place."))
    return parser


def _declare_make_room(made: _CommandParser) -> None:
    made.usage = "htoolsctl make-room NAME [--memory=SIZE --disk=SIZE ...] [--max-moves=N] [--max-copy=SIZE]"
    made.usage += " [--json] [--wide] [--KEY=VALUE ...]"
    made.add_argument("instance", metavar="NAME", help="the new instance")
    made.add_argument("--memory", metavar="SIZE", type=size, help="its memory; else its last refusal counts")
    made.add_argument("--disk", metavar="SIZE", type=size, action="append", default=[], help="a disk of it")
    made.add_argument("--vcpus", metavar="N", type=count, default=1, help="its virtual CPUs (default: 1)")
    made.add_argument("--spindles", metavar="N", type=count, default=1, help="its spindle use (default: 1)")
    templates = [template.value for template in DiskTemplate]
    made.add_argument(
        "--disk-template",
        metavar="TEMPLATE",
        choices=templates,
        default="drbd",
        help="default: drbd",
    )
    made.add_argument("--tags", metavar="TAG,...", default="", help="its tags")
    made.add_argument("--group", metavar="GROUP", help="the node group in which it shall be")
    made.add_argument("--max-moves", metavar="N", type=count, help="at most N moves")
    made.add_argument("--max-copy", metavar="SIZE", type=size, help="copy at most SIZE of disks and memory")


def _look(options: Namespace) -> None:
    """Check that the daemon answers, before a call that may take long.

    Raises HtoolsError.
    """
    ask(options.socket, "status", {}, patience=PATIENCE)


def _print(options: Namespace, answer: Any, text: Callable[[Any], str]) -> int:
    """Print an answer of the daemon, as it is with ``--json``; the exit status."""
    print(json.dumps(answer, indent=2) if options.json else wrapped(text(harmless(answer))))
    return 0


def _status(options: Namespace) -> int:
    return _print(options, ask(options.socket, "status", {}, patience=PATIENCE), daemon.status)


def _top(options: Namespace) -> int:
    if options.json:
        return _status(options)
    from ganeti_htools.cli import top  # with curses and the engine

    if options.once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        print(top.once(options.socket, columns()))
    else:
        top.live(options.socket)
    return 0


def _setup(options: Namespace) -> int:
    from ganeti_htools.cli.setup.command import setup  # seldom needed

    return setup(options)


def _check(options: Namespace) -> int:
    """Print a line for a monitoring system, whatever happens. Return the exit status of its conventions."""
    thresholds: dict[str, dict[monitoring.CheckState, monitoring.Range]] = {}
    for state, ranges in (
        (monitoring.CheckState.WARNING, options.warning),
        (monitoring.CheckState.CRITICAL, options.critical),
    ):
        for name, found in ranges:
            thresholds.setdefault(name, {})[state] = found
    try:
        count = {"capacity": True} if "free" in thresholds else {}  # it takes the daemon some work
        status: Any = ask(options.socket, "status", count, patience=PATIENCE)
        verdict = monitoring.judge(status, thresholds)
    except HtoolsError as error:
        verdict = monitoring.Verdict(monitoring.CheckState.UNKNOWN, (str(error),), {})
    except (LookupError, TypeError, AttributeError):
        why = "the daemon is of another version; restart it"
        verdict = monitoring.Verdict(monitoring.CheckState.UNKNOWN, (why,), {})
    document = {"state": verdict.state.name, "reasons": verdict.reasons, "values": verdict.values}
    print(json.dumps(document, indent=2) if options.json else monitoring.line(verdict, thresholds))
    return verdict.state


def _notify(options: Namespace) -> int:
    status: Any = ask(options.socket, "status", {}, patience=PATIENCE)
    if not options.test:
        return _print(options, status["notify"], daemon.notifications)
    answer: Any = ask(options.socket, "notify", {}, patience=_PLANNING)
    _print(options, answer, daemon.notification_outcome)
    return 1 if answer["error"] else 0


def _refresh(options: Namespace) -> int:
    _look(options)
    answer = ask(options.socket, "refresh", {}, patience=_REFRESHING)
    return _print(options, answer, lambda state: daemon.ages(state["ages"]))


def _storage(options: Namespace) -> int:
    answer = ask(options.socket, "storage", {}, patience=PATIENCE)
    return _print(options, answer, lambda told: storage.text(told) + daemon.ages(told["ages"]))


def _methods(options: Namespace) -> int:
    return _print(options, ask(options.socket, "methods", {}, patience=PATIENCE), daemon.methods)


def _metrics(options: Namespace) -> int:
    args = {"exporter_names": True} if options.exporter_names else {}
    answer: Any = ask(options.socket, "metrics", args, patience=_METRICS)
    if options.textfile is not None:
        write_text(options.textfile, answer["text"])
    if options.json:
        print(json.dumps(answer, indent=2))
    elif options.textfile is None:
        sys.stdout.write(answer["text"])
    return 0


def _report(options: Namespace) -> int:
    if options.html is None and not options.json:
        options.parser.error("expected --html=FILE, or --json")
    answer: Any = ask(options.socket, "report", {}, patience=_DRAWING)
    if options.html is not None:
        write_text(options.html, answer["html"])
    if options.json:
        print(json.dumps(answer, indent=2))
    return 0


def _plans(options: Namespace) -> int:
    plans: Any = ask(options.socket, "plans", {}, patience=PATIENCE)
    if options.waiting or options.failed:
        chosen = daemon_plans.is_waiting if options.waiting else daemon_plans.has_failed
        plans = list(filter(chosen, plans))
    elif not options.json:
        status: Any = ask(options.socket, "status", {}, patience=PATIENCE)
        for line in daemon_plans.turns(harmless(status["planning"])):
            print(line)
    return _print(options, plans, daemon_plans.table)


def _plan(options: Namespace) -> int:
    _look(options)
    return _follow(options)


def _execute(options: Namespace, shown: Any = None) -> int:
    # Without the option, the plan waits for nodes if it was made with that.
    wish = {"wait_for_nodes": True} if options.wait_for_nodes else {}
    ask(options.socket, "follow", {"plan": options.plan}, patience=PATIENCE)
    ask(options.socket, "execute", {"plan": options.plan, **wish}, patience=_PLANNING)
    return _follow(options, shown)


def _resume(options: Namespace) -> int:
    _look(options)
    said = options.json
    while jobs := daemon_plans.under_way(
        ask(options.socket, "follow", {"plan": options.plan}, patience=PATIENCE)
    ):
        if not said:
            print(f"waiting for the end of {printable(', '.join(jobs))}", flush=True)
        said = True
        time.sleep(_PAUSE)
    made: Any = ask(options.socket, "resume", {"plan": options.plan}, patience=_PLANNING)
    if not options.json:
        print(wrapped("\n".join(daemon_plans.description(harmless(made)))), flush=True)
    options.plan = made["id"]
    return _execute(options, made)


def _follow(options: Namespace, plan: Any = None) -> int:
    """Print the progress of a plan until it has ended. Return the exit status for its end.

    A ``plan`` that is given has been described.
    """
    with progress() as live:
        for change in follow(options.socket, options.plan):
            if not options.json:
                lines = [
                    *(daemon_plans.description(harmless(change.plan)) if plan is None else ()),
                    *(line for _, line in change.lines),
                ]
                live("")
                print(*map(wrapped, lines), sep="\n", end="\n" if lines else "", flush=True)
                live(change.plan["standing"])
            plan = change.plan
    assert plan is not None
    _print(options, plan, daemon_plans.ending)
    return _ENDED.get(plan["state"], 0)


def _cancel(options: Namespace) -> int:
    told = ask(options.socket, "cancel", {"plan": options.plan, "now": options.now}, patience=PATIENCE)
    return _print(options, told, lambda plan: daemon_plans.cancelled(plan, options.now))


def _forget(options: Namespace) -> int:
    told = ask(options.socket, "forget", {"plan": options.plan}, patience=PATIENCE)
    return _print(options, told, lambda plan: f"plan {plan['id']} is removed")


def _policies(options: Namespace) -> int:
    if options.explain is None:
        return _print(options, ask(options.socket, "policies", {}, patience=PATIENCE), policies.summaries)
    _look(options)
    told = ask(options.socket, "explain", {"policy": options.explain}, patience=_PLANNING)
    return _print(options, told, policies.explanation)


def _run(options: Namespace) -> int:
    wish = {"forget_failures": True} if options.forget_failures else {}
    told = ask(options.socket, "run", {"policy": options.policy, **wish}, patience=PATIENCE)
    return _print(options, told, lambda told: policies.considered(options.policy, told))


def _history(options: Namespace) -> int:
    keys = "instance", "node", "since", "most"
    wanted = {key: getattr(options, key) for key in keys if getattr(options, key) is not None}
    return _print(options, ask(options.socket, "history", wanted, patience=PATIENCE), history.lines)


def _why(options: Namespace) -> int:
    told = ask(options.socket, "why", {"instance": options.instance}, patience=PATIENCE)
    return _print(options, told, history.why)


def _glossary(options: Namespace) -> int:
    entries = glossary.load()
    if options.term is None:
        found = [glossary_report.to_json(entry) for entry in entries]
        return _print(options, found, lambda _found: glossary_report.entries(entries))
    entry = glossary.find(entries, options.term)
    return _print(options, glossary_report.to_json(entry), lambda _found: glossary_report.entry(entry))


def _decide(options: Namespace) -> int:
    limited = options.max_moves is not None or options.max_copy is not None
    if limited and not options.make_room:
        options.parser.error("--max-moves and --max-copy need --make-room")
    _look(options)
    args: dict[str, object] = {"arguments": options.arguments, "claim": options.claim}
    text = _standard_input() if options.file == "-" else None
    request = None
    if options.make_room:
        from ganeti_htools.backends.iallocator import allocation_part  # seldom needed

        request = allocation_part(read_text(options.file) if text is None else text)
    relay: Any
    if text is not None:
        relay = ask(options.socket, "decide", args | {"request": text})
    else:
        with open(options.file, "rb") as file:
            relay = ask(options.socket, "decide", args, file.fileno())
    placed = relay["exit_status"] or json.loads(relay["stdout"])["success"]
    if request is not None and not placed:
        return _make_room(options, request, relay)
    return _report_decision(options, relay)


def _make_room_for(options: Namespace) -> int:
    _look(options)
    request = _last_refusal(options) if options.memory is None else json.dumps(_described(options))
    return _plan_room(options, request)


def _last_refusal(options: Namespace) -> str:
    """Return the request for an instance that was refused last, within a day. Raises DataError."""
    wanted = {"instance": options.instance, "since": time.time() - _DAY}
    entries: Any = ask(options.socket, "history", wanted, patience=PATIENCE)
    refused = [entry for entry in entries if entry["kind"] == "decision" and entry.get("asked")]
    if not refused:
        raise DataError(f"{options.instance}: not refused within a day; describe it with --memory and --disk")
    return str(max(refused, key=lambda entry: float(entry["time"]))["asked"])


def _described(options: Namespace) -> dict[str, object]:
    """Return the request for an instance that options describe."""
    template = DiskTemplate(options.disk_template)
    more = DRBD_META if template is DiskTemplate.DRBD else 0
    return {
        "type": "allocate",
        "name": options.instance,
        "memory": options.memory,
        "vcpus": options.vcpus,
        "spindle_use": options.spindles,
        "disk_template": template.value,
        "disks": [{"size": each} for each in options.disk],
        "disk_space_total": sum(each + more for each in options.disk),
        "required_nodes": template.required_nodes,
        "tags": [tag for tag in options.tags.split(",") if tag],
        "nics": [{}],
        "group_name": options.group,
    }


def _make_room(options: Namespace, request: str, relay: Any) -> int:
    """Plan moves that make room for a new instance which has found no place."""
    if not options.json:
        _report_decision(options, relay)
    return _plan_room(options, request)


def _plan_room(options: Namespace, request: str) -> int:
    """Plan moves that make room for the instance of a request."""
    from ganeti_htools.cli.report import room  # these load NumPy
    from ganeti_htools.commandline.parameters import parse_options
    from ganeti_htools.planning import making_room
    from ganeti_htools.planning.options import to_json

    moves, copied = (-1 if each is None else each for each in (options.max_moves, options.max_copy))
    wishes = making_room.options_of(parse_options(options.arguments), moves, copied, request)
    args = {"tool": "hail", "options": to_json(wishes)}
    return _print(options, ask(options.socket, "plan", args, patience=_PLANNING), room.plan)


def _report_decision(options: Namespace, relay: Any) -> int:
    """Print a decision; the exit status."""
    say(relay["stderr"])
    if options.json and options.alternates is not None:
        answer = {**json.loads(relay["stdout"] or "{}"), "ranking": relay["ranking"]}
        print(json.dumps(answer))
    elif options.json:
        sys.stdout.write(relay["stdout"])
    elif relay["stdout"]:
        relay["answer"] = json.loads(relay["stdout"])
        print(wrapped(decision.text(harmless(relay), options.alternates)))
    return int(relay["exit_status"])


def _threshold(text: str) -> tuple[str, monitoring.Range]:
    try:
        return monitoring.read_threshold(text)
    except DataError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _time(text: str) -> float:
    """Read a point in time: a date, a date and time of day, or an age like 2h. Raises ArgumentTypeError."""
    number = text.rstrip("dhimns")
    if number.isascii() and number.isdigit() and text[len(number) :] in _UNITS:
        return time.time() - int(number[:9]) * _UNITS[text[len(number) :]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        wanted = "a date, a date and time, or like 2h or 3d"
        raise argparse.ArgumentTypeError(f"expected {wanted}, got {text!r}") from None


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as err:
        raise DataError(f"standard input: byte {err.start} is no UTF-8") from None


if __name__ == "__main__":
    sys.exit(main())
