"""A decision with all that it used: the request, the daemon's own data, and options.

As bytes it is a line of JSON with everything but the request, and the request as it came.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

import orjson

from ganeti_htools.backends.documents import without_garbage_collection
from ganeti_htools.commandline.parameters import parse_options
from ganeti_htools.deciding.decision import (
    Cache,
    KnownCluster,
    Places,
    PreparedRequest,
    Response,
    prepare_request,
    respond,
    with_note,
)
from ganeti_htools.deciding.promises import Promise
from ganeti_htools.model.cluster import Cluster, Group, Instance, Node, PoolSettings
from ganeti_htools.model.ganeti_version import GanetiVersion
from ganeti_htools.model.storage import DesiredUnit, Pool
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.records import JSON, from_bytes, refuse_newer

_FORM = 1  # version of the bytes
_ROWS = 200  # between two pauses

# The fields of the known cluster that decisions use.
_FIELDS: Mapping[str, Any] = {
    "groups": tuple[Group, ...],
    "nodes": tuple[Node, ...],
    "instances": tuple[Instance, ...],
    "default_units": tuple[DesiredUnit, ...],
    "enabled_templates": tuple[DiskTemplate, ...] | None,
    "pools": tuple[Pool, ...],
    "pool_settings": PoolSettings,
    "ganeti": GanetiVersion | None,
}


def _cluster(where: str, value: Any) -> Cluster:
    found = JSON.read(dict[str, Any], where, value)
    return Cluster(**{key: JSON.read(hint, key, found[key]) for key, hint in _FIELDS.items() if key in found})


@dataclass(frozen=True, slots=True)
class _Known:
    """The keys of the daemon's data."""

    cluster: Annotated[Cluster, _cluster]
    named: Annotated[Cluster, _cluster] | None
    age: float
    units_age: float
    to_be_asked: bool
    promised: Mapping[str, tuple[tuple[DesiredUnit, int], ...]]
    claims: Mapping[str, tuple[str, ...]]
    loads: Mapping[str, float] = field(default_factory=dict)


def _known(where: str, value: Any) -> KnownCluster | None:
    found: _Known | None = JSON.read(_Known | None, where, value)
    if found is None:
        return None
    return KnownCluster(
        found.cluster,
        found.age,
        found.units_age,
        to_be_asked=found.to_be_asked,
        promised={name: dict(held) for name, held in found.promised.items()},
        claims=found.claims,
        loads=found.loads,
        named=found.named,
    )


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A decision of htoolsd ``version``, with its ``answer`` after so many ``seconds``.

    ``request`` to ``alone`` are the arguments of :func:`.respond`. ``note`` ends the text of the answer, and
    follows from what happened after the decision. ``program`` is the one whose answer counted; None: ours.
    """

    id: str
    time: float
    version: str
    arguments: tuple[str, ...]
    request: Annotated[bytes, lambda _where, value: value]
    known: Annotated[KnownCluster | None, _known]
    promises: tuple[Promise, ...]
    alone: Places | None
    answer: str
    note: str = ""
    seconds: float = 0.0
    program: str | None = None
    form: Annotated[int, refuse_newer(_FORM)] = _FORM

    def decide(self) -> Response:
        """Decide again. Raises HtoolsError."""
        options = parse_options(self.arguments)
        again = respond(self.request, options, None, self.known, self.promises, self.alone)
        return with_note(again, self.note)

    @without_garbage_collection()
    def prepare(self) -> PreparedRequest:
        """Return the state that was decided on. Raises HtoolsError."""
        options = parse_options(self.arguments)
        return prepare_request(self.request, options, Cache(), self.known, self.promises)


def to_bytes(decision: RecordedDecision, pause: Callable[[], None] = lambda: None) -> bytes:
    """Return a decision in its form on disk. ``pause`` is called now and then."""
    head = {each.name: getattr(decision, each.name) for each in fields(decision)}
    del head["request"]
    if (known := decision.known) is not None:
        more = {each.name: getattr(known, each.name) for each in fields(_Known)}
        promised = {name: [*held.items()] for name, held in known.promised.items()}
        clusters = {
            key: value and _dump(value, pause) for key, value in more.items() if key in ("cluster", "named")
        }
        head["known"] = more | {"promised": promised} | clusters
    return orjson.dumps(head, list) + b"\n" + decision.request


def _dump(cluster: Cluster, pause: Callable[[], None]) -> dict[str, Any]:
    """Return the fields of a cluster, with rows as JSON already: one long call would stop all threads."""
    found = {key: getattr(cluster, key) for key in _FIELDS}
    for key in ("groups", "nodes", "instances"):
        rows = []
        for number, row in enumerate(found[key]):
            rows.append(orjson.Fragment(orjson.dumps(row, list)))
            if number % _ROWS == 0:
                pause()
        found[key] = rows
    return found


def read_decision(content: bytes) -> RecordedDecision:
    """Return the decision in bytes. Raises HtoolsError."""
    line, _, request = content.partition(b"\n")
    document = from_bytes(dict[str, Any], line)
    decision: RecordedDecision = JSON.read(RecordedDecision, "decision", document | {"request": request})
    return decision
