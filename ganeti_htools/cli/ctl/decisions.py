"""Decisions of iallocator requests, and moves that make room for an instance that finds no place."""

import json
import sys
import time
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.ctl.commands import Add, CommandParser, call, show
from ganeti_htools.cli.report.layout import escape_control_characters, first_of, fitting_table, wrapped
from ganeti_htools.cli.terminal.arguments import count, size
from ganeti_htools.cli.terminal.messages import say
from ganeti_htools.client import Daemon, connect
from ganeti_htools.files import read_text
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.storage import DRBD_META
from ganeti_htools.model.types import DiskTemplate

_RANKING = ("Instance", "Group", "Policy", "Score", "Nodes")
_DAY = 86400.0  # seconds


def declare(add: Add) -> None:
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
    decide.flag("--claim", "reserve the resources of the decision")
    _declare_make_room(add("make-room", _make_room, "Plan moves after which a new instance has a place."))


def _declare_make_room(made: CommandParser) -> None:
    made.usage = "htoolsctl make-room NAME [--memory=SIZE --disk=SIZE ...] [--max-moves=N] [--max-copy=SIZE]"
    made.usage += " [--json] [--wide] [--KEY=VALUE ...]"
    made.add_argument("instance", metavar="NAME", help="the new instance")
    made.add_argument("--memory", metavar="SIZE", type=size, help="its memory; else its last refusal counts")
    made.add_argument("--disk", metavar="SIZE", type=size, action="append", default=[], help="a disk of it")
    made.add_argument("--vcpus", metavar="N", type=count, default=1, help="its virtual CPUs (default: 1)")
    made.add_argument("--spindles", metavar="N", type=count, default=1, help="its spindle use (default: 1)")
    templates = [template.value for template in DiskTemplate]
    made.add_argument(
        "--disk-template", metavar="TEMPLATE", choices=templates, default="drbd", help="default: drbd"
    )
    made.add_argument("--tags", metavar="TAG,...", default="", help="its tags")
    made.add_argument("--group", metavar="GROUP", help="the node group in which it shall be")
    made.add_argument("--max-moves", metavar="N", type=count, help="at most N moves")
    made.add_argument("--max-copy", metavar="SIZE", type=size, help="copy at most SIZE of disks and memory")


def _decide(options: Namespace) -> int:
    limited = options.max_moves is not None or options.max_copy is not None
    if limited and not options.make_room:
        options.parser.error("--max-moves and --max-copy need --make-room")
    daemon = connect(options.socket)
    text = _standard_input() if options.file == "-" else None
    request = None
    if options.make_room:
        from ganeti_htools.backends.iallocator import allocation_part  # seldom needed

        request = allocation_part(read_text(options.file) if text is None else text)
    relay: Any
    if text is not None:
        relay = daemon.decide(text, options.arguments, options.claim)
    else:
        with open(options.file, "rb") as file:
            relay = daemon.decide(file, options.arguments, options.claim)
    placed = relay["exit_status"] or json.loads(relay["stdout"])["success"]
    if request is None or placed:
        return _report_decision(options, relay)
    if not options.json:
        _report_decision(options, relay)
    return _plan_room(options, request)


def _make_room(options: Namespace) -> int:
    connect(options.socket)
    request = _last_refusal(options) if options.memory is None else json.dumps(_described(options))
    return _plan_room(options, request)


def _last_refusal(options: Namespace) -> str:
    """Return the request for an instance that was refused last, within a day. Raises DataError."""
    wanted = {"instance": options.instance, "since": time.time() - _DAY}
    entries = call(options, "history", wanted)
    refused = [entry for entry in entries if entry["kind"] == "decision" and entry.get("asked")]
    if not refused:
        raise DataError(f"{options.instance}: not refused within a day; describe it with --memory and --disk")
    return str(max(refused, key=lambda entry: float(entry["time"]))["asked"])


def _described(options: Namespace) -> dict[str, object]:
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


def _plan_room(options: Namespace, request: str) -> int:
    from ganeti_htools.cli.report import room  # these load NumPy
    from ganeti_htools.cli.report.moves import limits
    from ganeti_htools.commandline.parameters import parse_options
    from ganeti_htools.planning import making_room
    from ganeti_htools.planning.options import to_json

    moves, copied = (-1 if each is None else each for each in (options.max_moves, options.max_copy))
    wishes = making_room.options_of(parse_options(options.arguments), moves, copied, request)
    answer = Daemon(options.socket).plan("hail", to_json(wishes))
    return show(options, answer, lambda plan: "\n".join([room.plan(plan), *limits(moves, copied)]))


def _report_decision(options: Namespace, relay: Any) -> int:
    say(relay["stderr"])
    if options.json and options.alternates is not None:
        answer = {**json.loads(relay["stdout"] or "{}"), "ranking": relay["ranking"]}
        print(json.dumps(answer))
    elif options.json:
        sys.stdout.write(relay["stdout"])
    elif relay["stdout"]:
        relay["answer"] = json.loads(relay["stdout"])
        print(wrapped(text(escape_control_characters(relay), options.alternates)))
    return int(relay["exit_status"])


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as err:
        raise DataError(f"standard input: byte {err.start} is no UTF-8") from None


# These hand options that they do not know to the daemon, as parameters of the decision.
WITH_PARAMETERS = _decide, _make_room


def text(relay: Any, alternates: int | None) -> str:
    """Format the answer to ``decide``, with Ganeti's ``answer``; ``alternates`` as for :func:`ranking`."""
    lines = [f"{placement(relay['summary'])}\n", f"{relay['answer']['info']}\n"]
    lines += [ranking(relay["ranking"], alternates)] if alternates is not None else []
    return "".join(lines).removesuffix("\n")


def placement(told: Mapping[str, Any]) -> str:
    """Describe a decision by its summary: the instances, their new nodes, the score, and the refusal."""
    more = ["..."] * bool(told.get("more_instances"))
    asked = f"{told['request']} {first_of([*told['instances'], *more])}"
    places = first_of([":".join(nodes) for nodes in told.get("nodes") or ()])
    refused = f"refused: {told['refusal']}" if told.get("refusal") else ""
    outcome = "; ".join(filter(None, (f"=> {places}" if places else "", refused)))
    return f"{asked} {outcome}{score(told.get('score'))}"


def score(found: Any) -> str:
    """Format a score in brackets; nothing if it is no number."""
    return f" (score {fixed(found, 8)})" if isinstance(found, float) else ""


def ranking(answer: Any, alternates: int) -> str:
    """List the group of each new instance, and up to ``alternates`` others that could take it."""
    rows = [
        (
            each["instance"],
            group["group"],
            group["alloc_policy"],
            _ranked_score(group),
            ", ".join(group["nodes"]),
        )
        for each in answer
        for group in each["groups"][: alternates + 1]
    ]
    return fitting_table(_RANKING, rows, (False, False, False, True, False)) if rows else ""


def _ranked_score(group: Mapping[str, Any]) -> str:
    if "lost" in group:
        return f"{','.join(map(str, group['lost']))}/{group['disk_left']}"
    return "not finite" if group["score"] is None else fixed(group["score"], 8)
