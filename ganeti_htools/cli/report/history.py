"""Past decisions and plans of htoolsd as text."""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.report import policies
from ganeti_htools.cli.report.callers import author, caller, others
from ganeti_htools.cli.report.daemon import ages
from ganeti_htools.cli.report.decision import placement, score
from ganeti_htools.model.wording import counted


def lines(entries: Any) -> str:
    """Format the answer to ``history``: a line for each entry."""
    return "\n".join(map(_line, entries)) or "no entries"


def why(told: Any) -> str:
    """Format the answer to ``why``."""
    return "\n".join(_why(told))


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _line(entry: Mapping[str, Any]) -> str:
    return f"{_when(entry['time'])}  {_TOLD[entry['kind']](entry)}"


def _decision(entry: Mapping[str, Any]) -> str:
    told = placement({**entry, "nodes": entry["places"]})
    by = entry.get("by")  # iallocators run as root
    who = f"; decided by {caller(by)}" if by and (by["uid"] or entry["claimant"] != "job") else ""
    return f"{'test of ' * bool(entry.get('test'))}{told}{who}"


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
