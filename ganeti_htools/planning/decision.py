"""One iallocator decision: the bytes of a request in, the answer out."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ganeti_htools.backends import incremental
from ganeti_htools.engine.allocation.evacuate import Evacuation
from ganeti_htools.engine.decide import Decision, decide, not_enabled
from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import HtoolsError, RequestFailed
from ganeti_htools.model.figures import Figures
from ganeti_htools.model.inconsistencies import inconsistencies
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import (
    AllocateSecondary,
    Request,
    anonymous,
    instances_of,
    new_instances,
)
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning import answer
from ganeti_htools.planning.inter_group import prepared
from ganeti_htools.planning.known_units import (
    Memory,
    lacks_disks,
    names_units,
    unused_units,
    with_disks,
    with_known,
    with_known_inventories,
)
from ganeti_htools.planning.promises import Promise, promised, with_promises, without_reserved
from ganeti_htools.planning.summary import DecisionSummary, summarize


@dataclass(frozen=True, slots=True)
class Response:
    """``answer`` is one line of JSON, ``summary`` sums it up for a log; ``warnings`` are about the cluster.

    ``names_units`` tells whether other storage units than the default ones were asked for, ``not_enabled``
    whether a disk template that the cluster did not enable when its configuration was asked for. ``ranking``
    has the groups that could take each new instance (see :func:`.answer.ranking`). ``promises`` are what is
    promised by it, of the instances that it is ``about``. ``there`` are instances in the request to which
    room was promised before.
    """

    answer: str
    warnings: tuple[str, ...]
    summary: DecisionSummary
    names_units: bool = False
    not_enabled: bool = False
    ranking: Sequence[Mapping[str, Any]] = ()
    promises: tuple[Promise, ...] = ()
    about: tuple[str, ...] = ()
    there: Mapping[str, Instance] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Known:
    """The cluster as known apart from the request.

    Its nodes reported their figures ``age`` seconds ago, and their storage units ``units_age`` seconds ago.
    ``naming`` gives the cluster whose nodes also have units that no disk is on yet. ``to_be_asked``: nodes
    will be asked for units once these are needed, but have not been yet, or not all of them. ``promised`` is
    what instances of other clusters were promised (MiB) of pools, by name; the pools have it reserved.
    """

    cluster: Cluster
    age: float
    units_age: float = 0.0
    naming: Callable[[frozenset[DesiredUnit]], Cluster] | None = None
    to_be_asked: bool = False
    promised: Mapping[str, Mapping[DesiredUnit, int]] = field(default_factory=dict)


Places = tuple[tuple[int, ...], ...]  # rows of nodes

MOST_NODES = 3000  # all pairs of nodes are looked at at once
MOST_NAMES = 3  # of instances to which room is promised


class TooLargeError(HtoolsError):
    """A cluster too large to decide on while others wait or need the memory."""


class Cache:
    """What is kept of the last request for the next. Not to be used by two decisions at once."""

    def __init__(self) -> None:
        self.reader = incremental.Reader()
        self.figures: Figures | None = None
        self.furnished = Memory()
        # The last decision for which no promises counted, and on what it was made.
        self.alone: tuple[tuple[Cluster, Request, PlacementOptions], Places] | None = None


def respond(
    data: bytes,
    options: PlacementOptions,
    cache: Cache | None = None,
    known: Known | None = None,
    promises: Collection[Promise] = (),
) -> Response:
    """Read and decide a request, with what ``cache`` has of the last one.

    What the request says is taken for true; ``known`` is looked at only for what it cannot say, and
    ``promises`` of earlier requests, which it does not know of, are counted as if they were kept already.
    Raises DataError if the request is wrong, TooLargeError if it has more than MOST_NODES nodes.
    """
    cache = cache or Cache()
    message = cache.reader.read(data)
    cluster, request, note = message.cluster, message.request, ""
    about, requested = instances_of(request), new_instances(request)
    if len(cluster.nodes) > MOST_NODES:
        raise TooLargeError(f"the request has more than {MOST_NODES} nodes")
    if known:
        cluster, note = _furnished(cluster, request, known, cache)
    cluster, options, more = prepared(cluster, request, options, known.cluster if known else None)
    counting, names = with_promises(cluster, promises, about)
    unreserved, others = without_reserved(cluster, requested, known.promised if known else {})
    state = state_for(counting, request, options, cache.figures)
    cache.figures = state.figures
    outcome = _outcome(state, request, options)
    places, asked = _places(outcome), (unreserved, anonymous(request), options)
    if names or others:
        alone = cache.alone[1] if cache.alone and cache.alone[0] == asked else None
        if _found(places) < len(about):  # for all others to decide once more takes too long
            alone = _places(
                _outcome(state_for(unreserved, request, options, state.figures), request, options)
            )
        more += _changed([*names, *others], places, alone)
    else:
        cache.alone = asked, places
    return Response(
        _answer(request, outcome, note + more),
        (*message.warnings, *inconsistencies(state)),
        summarize(request, outcome),
        known is not None and names_units(requested, known.cluster),
        any(not_enabled(cluster, row) for row in requested),
        _ranking(request, outcome),
        () if isinstance(outcome, RequestFailed) else promised(request, outcome),
        about,
        _among(cluster.instances, promises),
    )


def noted(response: Response, note: str) -> Response:
    """A response whose answer also says this."""
    return replace(response, answer=answer.noted(response.answer, note)) if note else response


def _among(rows: Sequence[Instance], promises: Collection[Promise]) -> dict[str, Instance]:
    """The instances to which something is promised."""
    names = {promise.name for promise in promises}
    return {row.name: row for row in rows if row.name in names} if names else {}


def _places(outcome: Decision | RequestFailed) -> Places:
    """The nodes of each instance, none if it has found no place; of instances that move, of those that do."""
    if isinstance(outcome, RequestFailed):
        return ()
    if isinstance(outcome.result, Evacuation):
        return tuple((each.instance, *each.nodes) for each in outcome.result.moved)
    return tuple(each.nodes for each in outcome.result)


def _found(places: Places) -> int:
    """How many instances have found a place."""
    return sum(map(bool, places))


def _changed(names: Sequence[str], places: Places, alone: Places | None) -> str:
    """What it has changed, in words, that room is promised to these; nothing if nothing.

    ``alone`` is what would have been decided otherwise, None if that is not known.
    """
    if places == alone:
        return ""
    others = "" if alone is None else ", without which other nodes would be chosen"
    if alone is not None and _found(alone) > _found(places):
        others = ", without which more would find a place"
    return f"; room is promised to {_listed(names)}{others}"


def _listed(names: Sequence[str]) -> str:
    """Names, not too many."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + f" and {more} more" * (more > 0)


def _furnished(cluster: Cluster, request: Request, known: Known, cache: Cache) -> tuple[Cluster, str]:
    """The cluster of a request with what that cannot say, and what there is to tell of it."""
    requested, note = new_instances(request), ""
    unused = unused_units(requested, known.cluster)
    there = known.naming(unused) if unused and known.naming else known.cluster
    furnished = with_known(cluster, request, there, cache.furnished)
    if furnished.nodes is not cluster.nodes:
        note = f"; storage units, which the request lacks, as reported {known.units_age:.0f} s ago"
    if known.to_be_asked and names_units(requested, known.cluster):
        note = "; storage units, which the request lacks, are not known yet and will be asked for"
    filled = (
        with_disks(furnished, known.cluster, cache.furnished) if lacks_disks(cluster, request) else furnished
    )
    if filled is not furnished:
        note += f"; disk space of nodes, which the request lacks, as reported {known.age:.0f} s ago"
    return with_known_inventories(filled, known.cluster, cache.furnished), note


def state_for(
    cluster: Cluster, request: Request, options: PlacementOptions, known: Figures | None = None
) -> State:
    """The state on which a request is decided."""
    asked = new_instances(request)
    if isinstance(request, AllocateSecondary):  # which may be on more units than it was
        asked = tuple(
            replace(row, template=DiskTemplate.DRBD)
            for row in cluster.instances
            if row.name == request.instance
        )
    return derive(cluster, asked, options.static_kvm_node_memory, known)


def respond_on(
    state: State, request: Request, options: PlacementOptions, note: str = "", ranked: bool = False
) -> tuple[str, State]:
    """The answer, with a ``note``, and the state it leads to.

    If it is to be ``ranked``, the answer also has the ranking of groups for each new instance.
    """
    outcome = _outcome(state, request, options)
    after = state if isinstance(outcome, RequestFailed) else outcome.state
    more = {"ranking": _ranking(request, outcome)} if ranked else {}
    return _answer(request, outcome, note, **more), after


def _outcome(state: State, request: Request, options: PlacementOptions) -> Decision | RequestFailed:
    try:
        return decide(state, request, options)
    except RequestFailed as failure:
        return failure


def _answer(request: Request, outcome: Decision | RequestFailed, note: str, **more: Any) -> str:
    if isinstance(outcome, RequestFailed):
        return answer.failure(str(outcome), note, **more)
    return answer.success(request, outcome, note, **more)


def _ranking(request: Request, outcome: Decision | RequestFailed) -> list[dict[str, Any]]:
    return [] if isinstance(outcome, RequestFailed) else answer.ranking(request, outcome)
