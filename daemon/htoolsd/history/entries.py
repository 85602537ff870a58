"""Entries of the history: decisions, plans, decisions of policies, and calls that changed something.

They are JSON with the names in them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, TypedDict

import orjson

from ganeti_htools import machine
from ganeti_htools.backends.iallocator import allocation_part
from ganeti_htools.deciding.summary import DecisionSummary
from ganeti_htools.execution.record import Score, Time
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.records import JSON, from_bytes
from htoolsd.events import DaemonEvent

Document = dict[str, Any]
Caller = Mapping[str, int]  # uid and pid

_NAMED = {"instances": "consumer", "nodes": "provider"}  # arguments of calls by the kind of their names
_ARGUMENT_BYTES = 1000  # bytes of an argument


@dataclass(frozen=True, slots=True)
class HistoryEntry(DaemonEvent):
    """An event that the history records. ``time`` is seconds of the epoch.

    The JSON has ``instances`` and ``nodes``, the names by which queries find it.
    """

    kind: ClassVar[str]
    time: float

    def details(self) -> Document:
        """Return the rest of the JSON."""
        raise NotImplementedError

    def to_json(self) -> Document:
        """Return the entry as JSON."""
        return {"time": self.time, "kind": self.kind, **self.details()}


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """A query: the newest ``most`` entries since a time (seconds of the epoch) about an instance and a node.

    ``instance`` and ``node`` are names, or their beginnings up to a dot. ``id`` is that of a decision or
    plan. None is for any.
    """

    instance: str | None = None
    node: str | None = None
    since: float = 0.0
    most: int = 100
    id: str | None = None

    def matches(self, document: Mapping[str, Any]) -> bool:
        """Whether an entry matches, apart from ``most``."""
        return (
            document["time"] >= self.since
            and _matches(self.instance, document["instances"])
            and _matches(self.node, document["nodes"])
            and _matches(self.id, [document.get("id") or ""])
        )


def _matches(query: str | None, names: Sequence[str]) -> bool:
    return query is None or any(name == query or name.startswith(f"{query}.") for name in names)


class _Caller(TypedDict):
    uid: int


_Move = TypedDict("_Move", {"instance": str, "from": list[str], "to": list[str], "status": str | None})


class _RankedGroup(TypedDict):
    group: str
    nodes: list[str]


class _Ranking(TypedDict):
    instance: str
    groups: list[_RankedGroup]


class _Entry(TypedDict):
    """The keys of an entry that readers need."""

    time: Time
    instances: list[str]
    nodes: list[str]


class _Decision(_Entry):
    id: str | None  # older entries have none
    request: str
    places: list[list[str]]
    refusal: str | None
    claimant: str | None
    ms: float
    by: _Caller | None
    ranking: list[_Ranking]
    ages: dict[str, Any]


class _Plan(_Entry):
    id: str
    tool: str
    state: str
    error: str | None
    groups: list[str]
    moves: list[_Move]
    by: _Caller
    executed_by: _Caller | None
    cancelled_by: _Caller | None
    policy: str | None
    continues: str | None


class _Policy(_Entry):
    policy: str
    remedy: str
    trigger: str
    group: str | None
    outcome: str
    reason: str
    plan: str | None
    score: Score
    moves: list[_Move]


class _Call(_Entry):
    method: str
    arguments: dict[str, Any]
    by: _Caller | None


_KINDS = {"decision": _Decision, "plan": _Plan, "policy": _Policy, "call": _Call}


def document_from_bytes(content: object) -> Document:
    """Return an entry from its form on disk. Raises DataError."""
    document = from_bytes(dict[str, Any], content) if isinstance(content, bytes) else {}
    kind = _KINDS.get(str(document.get("kind")))
    if kind is None:
        raise DataError("expected an entry of a known kind")
    entry: Document = JSON.read(kind, "", document)
    return entry


@dataclass(frozen=True, slots=True)
class Decided(HistoryEntry):
    """A decision. It took ``took`` ms; ``ages`` are the ages of the data, in seconds.

    ``refused`` is the request for a new instance that found no place; the entry has the instance of it.
    Without a ``claimant`` it is a test: it claims nothing, and nobody is going to carry it out.
    ``program`` is the one whose answer counts, if it is not ours.
    """

    kind = "decision"
    summary: DecisionSummary
    ranking: Sequence[Mapping[str, Any]]
    took: float
    ages: Mapping[str, float]
    claimant: str | None = "job"
    by: Caller | None = None
    refused: bytes = b""
    program: str | None = None
    id: str = field(default_factory=lambda: machine.random_bytes(6).hex())

    def details(self) -> Document:
        facts = asdict(self.summary)
        places = facts.pop("nodes")
        return {
            "id": self.id,
            **facts,
            "test": self.claimant is None,
            "claimant": self.claimant,
            "by": self.by,
            "program": self.program,
            "nodes": sorted({node for place in places for node in place}),
            "places": places,
            "ranking": list(self.ranking),
            "ms": self.took,
            "ages": {kind: round(age, 1) for kind, age in self.ages.items()},
            "asked": _asked(self.refused) if self.refused else None,
        }


def _asked(request: bytes) -> str | None:
    try:
        return allocation_part(request.decode())
    except (HtoolsError, UnicodeDecodeError):
        return None


def plan_details(document: Mapping[str, Any]) -> Document:
    """Return the details of an entry for a plan, from the plan as JSON."""
    run = document["execution"]
    rest = [job for jobs in run["not_submitted"] for job in jobs]
    jobs = [{**job, "status": "not submitted"} for job in rest]
    moves = [
        {key: job[key] for key in ("instance", "move", "from", "to", "status")}
        for job in (*run["jobs"], *jobs)
        if job["instance"] is not None
    ]
    keys = "id", "tool", "by", "executed_by", "cancelled_by", "groups", "state", "error", "score", "cost"
    facts = {key: document[key] for key in keys} | {key: document.get(key) for key in ("policy", "continues")}
    return facts | moves_and_names(moves)


@dataclass(frozen=True, slots=True)
class Called(HistoryEntry):
    """A call that may have changed something. Long values of arguments are left out."""

    kind = "call"
    method: str
    arguments: Mapping[str, Any]
    by: Caller | None

    def details(self) -> Document:
        values = self.arguments.items()
        short = {key: value for key, value in values if len(orjson.dumps(value)) <= _ARGUMENT_BYTES}
        names = {kind: _last_part(short.get(key)) for kind, key in _NAMED.items()}
        return {"method": self.method, "arguments": short, "by": self.by, **names}


def _last_part(name: object) -> list[str]:
    """Return the name of an object without its cluster, in a list; an empty list without a name."""
    return [name.rpartition("/")[2]] if isinstance(name, str) else []


def moves_and_names(moves: Sequence[Mapping[str, Any]]) -> Document:
    """Return moves with the names of their instances and nodes."""
    return {
        "instances": sorted({move["instance"] for move in moves}),
        "nodes": sorted({node for move in moves for node in (*move["from"], *move["to"])}),
        "moves": moves,
    }


def placed_at(document: Mapping[str, Any], instance: str) -> Sequence[str] | None:
    """Return the nodes to which an entry brought an instance, primary first; None if it did not."""
    if document.get("test"):
        return None
    if document["kind"] == "decision":
        # After an evacuation that failed for some, the places do not match the instances.
        places = dict(zip(document["instances"], document["places"], strict=False))
        whole = len(document["places"]) == len(document["instances"])
        return places.get(instance) if whole else None
    moves = [move for move in document.get("moves", ()) if move["instance"] == instance]
    return moves[-1]["to"] if moves and moves[-1]["status"] == "success" else None
