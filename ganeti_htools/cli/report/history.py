"""Past decisions and plans of htoolsd as text."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.report import policies
from ganeti_htools.cli.report.daemon import ages
from ganeti_htools.cli.report.layout import some


def lines(entries: Any) -> str:
    """Format the answer to ``history``: a line for each entry."""
    return "\n".join(map(_line, entries)) or "nothing"


def why(told: Any) -> str:
    """Format the answer to ``why``."""
    return "\n".join(_why(told))


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _line(entry: Mapping[str, Any]) -> str:
    return f"{_when(entry['time'])}  {_TOLD[entry['kind']](entry)}"


def _decision(entry: Mapping[str, Any]) -> str:
    asked = f"{entry['request']} {some(entry['instances'])}"
    places = some([":".join(nodes) for nodes in entry["places"]])
    refused = f"refused: {entry['refusal']}" if entry["refusal"] else ""
    outcome = "; ".join(filter(None, (f"=> {places}" if places else "", refused)))
    return f"{asked} {outcome}{_score(entry['score'])}"


def _score(score: Any) -> str:
    return f" (score {fixed(score, 8)})" if isinstance(score, float) else ""


def _plan(entry: Mapping[str, Any]) -> str:
    done = sum(move["status"] == "success" for move in entry["moves"])
    error = f": {entry['error']}" if entry["error"] else ""
    groups = ", ".join(entry["groups"])
    return (
        f"plan {entry['id']} of {entry['tool']} in {groups} is {entry['state']},"
        f" {done} of {len(entry['moves'])} moves made{error}"
    )


_TOLD = {"decision": _decision, "plan": _plan, "policy": policies.line}


def _why(told: Mapping[str, Any]) -> Iterator[str]:
    entry = told["entry"]
    yield f"{told['instance']} is on {':'.join(told['nodes'])} in group {told['group']}."
    if entry is None:
        yield "What brought it there is not in the history."
    else:
        yield f"It was brought there: {_line(entry)}"
        if entry["kind"] == "decision":
            yield f"That took {entry['ms']:.1f} ms; {ages(entry['ages']) or 'the cluster was not followed'}."
            yield from _runners_up(entry, told["instance"])
    yield f"As it is now the score of the group is {fixed(told['score'], 8)}."
    if not told["tried"]:
        yield "Balancing does not move it."
        return
    best = "; the best:" if told["others"] else "."
    yield f"Of {told['tried']} moves that balancing may make of it {told['fit']} are possible{best}"
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
                yield f"  next: {group['group']} {':'.join(group['nodes'])}{_score(group.get('score'))}"
