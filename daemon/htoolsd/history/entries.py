"""What the history is made of: decisions, plans, and what policies decide; JSON and the names in it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ganeti_htools.planning.summary import DecisionSummary

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that happened. ``time`` is seconds of the epoch; ``told`` makes the document.

    The document has ``instances`` and ``nodes``, the names by which it is found.
    """

    time: float
    kind: str
    told: Callable[[], Document]

    def document(self) -> Document:
        """All of it as JSON."""
        return {"time": self.time, "kind": self.kind, **self.told()}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries are asked for: of an instance, of a node (names, or their beginnings up to a dot), from a
    time on (seconds of the epoch); and the newest ``most`` of them.
    """

    instance: str | None = None
    node: str | None = None
    since: float = 0.0
    most: int = 100

    def has(self, document: Mapping[str, Any]) -> bool:
        """Whether a document is asked for, its number aside."""
        return (
            document["time"] >= self.since
            and _named(self.instance, document["instances"])
            and _named(self.node, document["nodes"])
        )


def _named(wanted: str | None, names: Sequence[str]) -> bool:
    return wanted is None or any(name == wanted or name.startswith(f"{wanted}.") for name in names)


def decision(
    time: float,
    summary: DecisionSummary,
    ranking: Sequence[Mapping[str, Any]],
    took: float,
    ages: Mapping[str, float],
) -> Entry:
    """A decision: what was asked, what came of it, how long it took (ms), how old data was (seconds)."""

    def told() -> Document:
        facts = asdict(summary)
        places = facts.pop("nodes")
        return {
            **facts,
            "nodes": sorted({node for place in places for node in place}),
            "places": places,
            "ranking": list(ranking),
            "ms": took,
            "ages": {kind: round(age, 1) for kind, age in ages.items()},
        }

    return Entry(time, "decision", told)


def plan(time: float, document: Mapping[str, Any]) -> Entry:
    """A plan that was made, or that has ended, from what the daemon tells of it."""
    run = document["execution"]
    left = [job for jobs in run["not_submitted"] for job in jobs]
    jobs = [{**job, "status": "not submitted"} for job in left]
    moves = [
        {key: job[key] for key in ("instance", "move", "from", "to", "status")}
        for job in (*run["jobs"], *jobs)
        if job["instance"] is not None
    ]
    facts = {key: document[key] for key in ("id", "tool", "by", "groups", "state", "error", "score", "cost")}
    told = facts | _names_of(moves)
    return Entry(time, "plan", lambda: told)


def policy(time: float, document: Mapping[str, Any]) -> Entry:
    """What a policy has decided about a node group, and why."""
    moves = [{**move, "status": "not submitted"} for move in document["moves"]]
    told = {key: value for key, value in document.items() if key != "time"} | _names_of(moves)
    return Entry(time, "policy", lambda: told)


def _names_of(moves: Sequence[Mapping[str, Any]]) -> Document:
    """Moves, and the instances and nodes in them."""
    return {
        "instances": sorted({move["instance"] for move in moves}),
        "nodes": sorted({node for move in moves for node in (*move["from"], *move["to"])}),
        "moves": moves,
    }


def placed_at(document: Mapping[str, Any], instance: str) -> Sequence[str] | None:
    """The nodes to which an entry has brought an instance, primary first; None if to none."""
    if document["kind"] == "decision":
        # Of an evacuation that failed for some, it is not kept which place was whose.
        places = dict(zip(document["instances"], document["places"], strict=False))
        whole = len(document["places"]) == len(document["instances"])
        return places.get(instance) if whole else None
    made = [move["to"] for move in document.get("moves", ()) if move["instance"] == instance]
    done = [move["status"] for move in document.get("moves", ()) if move["instance"] == instance]
    return made[-1] if made and done[-1] == "success" else None
