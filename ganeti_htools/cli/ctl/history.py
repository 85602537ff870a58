"""Past decisions of the daemon and its policies, and plans."""

import json
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, get_args

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.ctl import policies
from ganeti_htools.cli.ctl.callers import author, caller, others
from ganeti_htools.cli.ctl.commands import CONFIGURATION, Add, asking
from ganeti_htools.cli.ctl.decisions import placement, score
from ganeti_htools.cli.ctl.status import ages
from ganeti_htools.cli.terminal.arguments import count
from ganeti_htools.model.load import LoadMode
from ganeti_htools.model.wording import counted, moment

_CONFIG = "the daemon's configuration file, for recorded decisions"
_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def declare(add: Add) -> None:
    listed = asking("history", lines, "instance", "node", "since", "most", "id")
    past = add("history", listed, "List decisions of the daemon and its policies, and plans.")
    past.add_argument("--instance", metavar="INSTANCE", help="only entries about this instance")
    past.add_argument("--node", metavar="NODE", help="only entries about this node")
    since = "only entries since 2026-01-31, 2026-01-31T18:00, 2h ago (2h) or 3d ago (3d)"
    past.add_argument("--since", metavar="TIME", type=_time, help=since)
    past.add_argument("--most", metavar="N", type=count, help="at most the newest N entries (default: 100)")
    past.add_argument("--id", metavar="ID", help="only the decision or plan with this id")
    command = add("why", _why_command, "Explain why an instance is on its nodes, or a past decision.")
    command.usage = "htoolsctl why (INSTANCE [--load LOAD] | --decision ID) [--json] [--wide]"
    name = "its name, or the beginning of it up to a dot"
    command.add_argument("instance", metavar="INSTANCE", nargs="?", help=name)
    command.add_argument("--decision", metavar="ID", help="the candidates of this recorded decision")
    command.add_argument("--config", metavar="FILE", default=CONFIGURATION, help=_CONFIG)
    counts = "how measured load counts in the score: none, upstream, real"
    command.add_argument("--load", metavar="LOAD", choices=get_args(LoadMode), default="none", help=counts)


def declare_replay(add: Add) -> None:
    """Add the command about recorded decisions."""
    replay = add("replay", _replay, "Decide recorded requests again, and compare.")
    chosen = replay.add_mutually_exclusive_group()
    since = "only decisions since 2026-01-31, 2026-01-31T18:00, 2h ago (2h) or 3d ago (3d)"
    chosen.add_argument("--since", metavar="TIME", type=_time, help=since)
    chosen.add_argument("--id", metavar="ID", help="only this decision: both answers")
    other = "decide with this iallocator instead of this installation, like Ganeti's own hail"
    replay.add_argument("--config", metavar="FILE", default=CONFIGURATION, help=_CONFIG)
    replay.add_argument("--with", metavar="PROGRAM", dest="program", help=other)


def _replay(options: Namespace) -> int:
    from ganeti_htools.cli.ctl.recorded import again  # seldom needed

    return again(options)


def _why_command(options: Namespace) -> int:
    if (options.instance is None) == (options.decision is None):
        options.parser.error("expected either INSTANCE or --decision ID")
    if options.decision is None:
        return asking("why", why, "instance", "load")(options)
    from ganeti_htools.cli.ctl.recorded import explain  # seldom needed

    return explain(options)


def _time(text: str) -> float:
    """Read a point in time: a date, a date and time of day, or an age like 2h. Raises ArgumentTypeError."""
    number = text.rstrip("dhimns")
    if number.isascii() and number.isdigit() and text[len(number) :] in _UNITS:
        return time.time() - int(number[:9]) * _UNITS[text[len(number) :]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        wanted = "a date, a date and time, or like 2h or 3d"
        raise ArgumentTypeError(f"expected {wanted}, got {text!r}") from None


def lines(entries: Any) -> str:
    """Format the answer to ``history``: a line for each entry."""
    return "\n".join(map(_line, entries)) or "no entries"


def why(told: Any) -> str:
    """Format the answer to ``why``."""
    return "\n".join(_why(told))


def _line(entry: Mapping[str, Any]) -> str:
    return f"{moment(entry['time'])}  {_TOLD[entry['kind']](entry)}"


def _decision(entry: Mapping[str, Any]) -> str:
    told = placement({**entry, "nodes": entry["places"]})
    by = entry.get("by")  # iallocators run as root
    who = f"; decided by {caller(by)}" if by and (by["uid"] or entry["claimant"] != "job") else ""
    who += f"; answered by {entry['program']}" if entry.get("program") else ""
    name = f"decision {entry['id']}: " if entry.get("id") else ""  # older entries have none
    return f"{name}{'test of ' * bool(entry.get('test'))}{told}{who}"


def _plan(entry: Mapping[str, Any]) -> str:
    done = sum(move["status"] == "success" for move in entry["moves"])
    error = f": {entry['error']}" if entry["error"] else ""
    where = f" in {', '.join(entry['groups'])}" if entry["groups"] else ""
    continues = f", which continues plan {entry['continues']}," if entry.get("continues") else ""
    return (
        f"plan {entry['id']} of {entry['tool']} by {author(entry)}{others(entry)}{continues}{where} is"
        f" {entry['state']}, {done} of {len(entry['moves'])} moves made{error}"
    )


def _call(entry: Mapping[str, Any]) -> str:
    arguments = "".join(f" {name}={_value(value)}" for name, value in entry["arguments"].items())
    return f"{entry['method']}{arguments}; called by {caller(entry['by'])}"


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_TOLD = {"decision": _decision, "plan": _plan, "policy": policies.line, "call": _call}


def _why(told: Mapping[str, Any]) -> Iterator[str]:
    entry = told["entry"]
    yield f"{told['instance']} is on {':'.join(told['nodes'])} in group {told['group']}."
    if entry is None:
        yield "The history has no decision or plan that placed it there."
    else:
        yield f"It was placed there by: {_line(entry)}"
        if entry["kind"] == "decision":
            data = ages(entry["ages"]) or "the daemon had none of the cluster"
            yield f"The decision took {entry['ms']:.1f} ms; data: {data}."
            yield from _runners_up(entry, told["instance"])
    yield f"The score of the group is now {fixed(told['score'], 8)}."
    if not told["tried"]:
        yield "Balancing does not move this instance."
        return
    best = ". The best:" if told["others"] else "."
    yield f"Balancing considers {counted(told['tried'], 'move')} of it: {told['fit']} possible{best}"
    for other in told["others"]:
        gain = told["score"] - other["score"]
        yield f"  to {':'.join(other['nodes'])}: score {fixed(other['score'], 8)}, {_effect(gain)}"


def _effect(gain: float) -> str:
    size = fixed(abs(gain), 8)
    if not float(size):
        return "as good"
    return f"{size} {'better' if gain > 0 else 'worse'}"


def _runners_up(entry: Mapping[str, Any], instance: str) -> Iterator[str]:
    """List the groups that would have been next."""
    for ranked in entry["ranking"]:
        if ranked["instance"] == instance:
            for group in ranked["groups"][1:]:
                yield f"  next: {group['group']} {':'.join(group['nodes'])}{score(group.get('score'))}"
