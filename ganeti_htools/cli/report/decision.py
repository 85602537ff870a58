"""Decisions of htoolsd as text."""

from collections.abc import Mapping
from typing import Any

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.report.layout import fitting_table, some

_RANKING = ("Instance", "Group", "Policy", "Score", "Nodes")


def text(relay: Any, alternates: int | None) -> str:
    """Format the answer to ``decide``, with Ganeti's ``answer``; ``alternates`` as for :func:`ranking`."""
    lines = [f"{placement(relay['summary'])}\n", f"{relay['answer']['info']}\n"]
    lines += [ranking(relay["ranking"], alternates)] if alternates is not None else []
    return "".join(lines).removesuffix("\n")


def placement(told: Mapping[str, Any]) -> str:
    """Describe a decision by its summary: the instances, their new nodes, the score, and the refusal."""
    more = ["..."] * bool(told.get("more_instances"))
    asked = f"{told['request']} {some([*told['instances'], *more])}"
    places = some([":".join(nodes) for nodes in told.get("nodes") or ()])
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
