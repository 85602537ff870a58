"""An iallocator decision: from the bytes of a request to the answer."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ganeti_htools.backends import incremental
from ganeti_htools.backends.documents import without_garbage_collection
from ganeti_htools.backends.iallocator import Message
from ganeti_htools.backends.inventory_tags import malformed_inventories, with_tagged_inventories
from ganeti_htools.deciding import answer, inter_group
from ganeti_htools.deciding.known_units import (
    CompletedRows,
    lacks_disks,
    names_units,
    unused_units,
    with_disks,
    with_known,
    with_known_inventories,
    with_known_loads,
    without_disk_limits,
)
from ganeti_htools.deciding.promises import Promise, promised, with_promises, without_reserved
from ganeti_htools.deciding.summary import DecisionSummary, summarize
from ganeti_htools.engine.allocation.evacuate import Evacuation
from ganeti_htools.engine.decide import Decision, decide, not_enabled
from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import HtoolsError, RequestFailed, first_names
from ganeti_htools.model.figures import Figures
from ganeti_htools.model.inconsistencies import inconsistencies
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import AllocateSecondary, Request, anonymous, instances_of, new_instances
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.tags import demands
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.sources.installed import with_version


@dataclass(frozen=True, slots=True)
class Response:
    """The response to a request.

    * ``answer``: one line of JSON for Ganeti.
    * ``warnings``: about the cluster.
    * ``summary``: for the log and the history.
    * ``names_units``: whether the request names storage units other than the default units.
    * ``not_enabled``: whether it names a disk template that the known configuration does not enable.
    * ``ranking``: the groups that could take each new instance (:func:`.answer.ranking`).
    * ``promises``: the promises that the answer makes.
    * ``instances``: names of the instances of the request.
    * ``data``, ``message``: the request, as bytes and as read.
    * ``promised_instances``: existing instances with earlier promises, by name.
    * ``known``, ``counted``, ``alone``: what :func:`respond` used besides the request.
    * ``note``: text that was appended to the answer later (:func:`with_note`).
    """

    answer: str
    warnings: tuple[str, ...]
    summary: DecisionSummary
    names_units: bool = False
    not_enabled: bool = False
    ranking: Sequence[Mapping[str, Any]] = ()
    promises: tuple[Promise, ...] = ()
    instances: tuple[str, ...] = ()
    promised_instances: Mapping[str, Instance] = field(default_factory=dict)
    data: bytes = b""
    message: Message | None = None
    known: "KnownCluster | None" = None
    counted: tuple[Promise, ...] = ()
    alone: "Places | None" = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class KnownCluster:
    """The cluster as known apart from the request.

    * ``age``, ``units_age``: seconds since nodes reported their figures, and their storage units.
    * ``naming``: returns the cluster with the given units too, which no disk uses yet.
    * ``named``: the cluster with the units that only the request names, if it names any.
    * ``to_be_asked``: some nodes will be asked for their units when these are needed.
    * ``promised``: MiB of pools promised to instances of other clusters, by name; the pools reserve them.
    * ``claims``: names of the claims on each node, which reserves what they have.
    * ``loads``: measured loads of nodes, counted in instances; without any, load does not count.
    """

    cluster: Cluster
    age: float
    units_age: float = 0.0
    naming: Callable[[frozenset[DesiredUnit]], Cluster] | None = None
    to_be_asked: bool = False
    promised: Mapping[str, Mapping[DesiredUnit, int]] = field(default_factory=dict)
    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    named: Cluster | None = None
    loads: Mapping[str, float] = field(default_factory=dict)


Places = tuple[tuple[int, ...], ...]  # rows of nodes

MAX_NODES = 3000  # memory for all pairs of nodes at once


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request as read, and the state and options with which it is decided.

    * ``counting``: the cluster of ``state``, without the requested instances.
    * ``completed``: the cluster with what the request lacks; ``unreserved`` releases pools in it.
    * ``note``: for the answer. ``names``: instances whose promises count, ``others`` those of other clusters.
    """

    message: Message
    known: KnownCluster | None
    options: PlacementOptions
    state: State
    counting: Cluster
    completed: Cluster
    unreserved: Cluster
    note: str
    names: Sequence[str]
    others: Sequence[str]


class TooLargeError(HtoolsError):
    """A cluster that is too large to decide on in the daemon."""


class Cache:
    """Parts of the last request that the next one may reuse. One decision at a time may use a cache."""

    def __init__(self) -> None:
        self.reader = incremental.RequestReader()
        self.figures: Figures | None = None
        self.completed = CompletedRows()
        # The last decision without promises, with its input.
        self.last_unclaimed: tuple[tuple[Cluster, Request, PlacementOptions], Places] | None = None


@without_garbage_collection()
def respond(
    data: bytes,
    options: PlacementOptions,
    cache: Cache | None = None,
    known: KnownCluster | None = None,
    promises: Collection[Promise] = (),
    alone: Places | None = None,
) -> Response:
    """Read and decide a request; ``cache`` saves work on requests that resemble the last one.

    The request is the authority. ``known`` only fills in what requests lack. ``promises`` of earlier requests
    are counted as if they were fulfilled. ``alone`` are the places without promises, if they are known and
    not in the cache. Raises DataError for a wrong request, TooLargeError for more than
    MAX_NODES nodes.
    """
    cache = cache or Cache()
    found = prepare_request(data, options, cache, known, promises)
    message, request, state, options = found.message, found.message.request, found.state, found.options
    about, requested, more = instances_of(request), new_instances(request), ""
    used_alone: Places | None = None
    outcome = _outcome(state, request, options)
    places, asked = _places(outcome), (found.unreserved, anonymous(request), options)
    if found.names or found.others:
        last = cache.last_unclaimed
        alone = used_alone = last[1] if last and last[0] == asked else alone
        if _placed_count(places) < len(about):  # a second decision would take too long for all others
            alone = _places(
                _outcome(state_for(found.unreserved, request, options, state.figures), request, options)
            )
        more += _promise_note([*found.names, *found.others], places, alone)
    else:
        cache.last_unclaimed = asked, places
    if known and known.claims and _placed_count(places) < len(about):
        more += _claim_note(found.completed, known.claims)
    return Response(
        _answer(request, outcome, found.note + more + _unchecked_demands(state, request)),
        (*message.warnings, *malformed_inventories(message.cluster), *inconsistencies(state)),
        summarize(request, outcome),
        known is not None and names_units(requested, known.cluster),
        any(not_enabled(found.completed, row) for row in requested),
        _ranking(request, outcome),
        () if isinstance(outcome, RequestFailed) else promised(request, outcome),
        about,
        _among(found.completed.instances, promises),
        data,
        message,
        found.known,
        tuple(promises),
        used_alone,
    )


def prepare_request(
    data: bytes,
    options: PlacementOptions,
    cache: Cache,
    known: KnownCluster | None = None,
    promises: Collection[Promise] = (),
) -> PreparedRequest:
    """Read a request, and derive the state on which it is decided. Arguments are those of :func:`respond`."""
    message = cache.reader.read(data)
    known_version = known.cluster.ganeti if known else None
    cluster = with_version(message.cluster, known_version or options.ganeti_version)
    request, note = message.request, ""
    if len(cluster.nodes) > MAX_NODES:
        raise TooLargeError(f"the request has more than {MAX_NODES} nodes")
    if known:
        known = _with_named_units(known, new_instances(request))
        cluster, note = _complete(cluster, request, known, cache)
        cluster = with_known_loads(cluster, known.loads, cache.completed)
    cluster, options, more = prepare(cluster, request, options, known.cluster if known else None)
    counting, names = with_promises(cluster, promises, instances_of(request))
    unreserved, others = without_reserved(cluster, new_instances(request), known.promised if known else {})
    state = state_for(counting, request, options, cache.figures)
    cache.figures = state.figures
    return PreparedRequest(
        message, known, options, state, counting, cluster, unreserved, note + more, names, others
    )


def prepare(
    cluster: Cluster, request: Request, options: PlacementOptions, known: Cluster | None = None
) -> tuple[Cluster, PlacementOptions, str]:
    """Add to the cluster of a request what follows from the request, its tags and the options.

    ``known`` is the cluster as followed over LUXI. Returns the cluster and the options to decide with, and a
    note for the answer.
    """
    cluster, note = without_disk_limits(cluster, request, options)
    cluster, options, more = inter_group.prepare(with_tagged_inventories(cluster), request, options, known)
    return cluster, options, note + more


def with_note(response: Response, note: str) -> Response:
    """Append a note to the text of the answer."""
    if not note:
        return response
    return replace(response, answer=answer.with_note(response.answer, note), note=response.note + note)


def _among(rows: Sequence[Instance], promises: Collection[Promise]) -> dict[str, Instance]:
    names = {promise.name for promise in promises}
    return {row.name: row for row in rows if row.name in names} if names else {}


def _places(outcome: Decision | RequestFailed) -> Places:
    """Return the nodes of each instance, none without a place; of an evacuation, those that move."""
    if isinstance(outcome, RequestFailed):
        return ()
    if isinstance(outcome.result, Evacuation):
        return tuple((each.instance, *each.nodes) for each in outcome.result.moved)
    return tuple(each.nodes for each in outcome.result)


def _placed_count(places: Places) -> int:
    return sum(map(bool, places))


def _promise_note(names: Sequence[str], places: Places, alone: Places | None) -> str:
    """Describe how promises changed a decision; empty if they did not.

    ``alone`` is the decision without promises, None if unknown.
    """
    if places == alone:
        return ""
    others = "" if alone is None else ", without these claims other nodes would be chosen"
    if alone is not None and _placed_count(alone) > _placed_count(places):
        others = ", without these claims more would find a place"
    return f"; resources are claimed for {first_names(names)}{others}"


def _claim_note(cluster: Cluster, claims: Mapping[str, tuple[str, ...]]) -> str:
    """Name the claims on the nodes of a request; empty if there are none."""
    names = sorted({name for node in cluster.nodes for name in claims.get(node.name, ())})
    return f"; room of these nodes is claimed by {first_names(names)}" if names else ""


def _with_named_units(known: KnownCluster, requested: tuple[Instance, ...]) -> KnownCluster:
    unused = unused_units(requested, known.cluster)
    return replace(known, naming=None, named=known.naming(unused)) if unused and known.naming else known


def _complete(cluster: Cluster, request: Request, known: KnownCluster, cache: Cache) -> tuple[Cluster, str]:
    """Fill in what the request lacks. Returns the cluster and a note for the answer."""
    requested, note = new_instances(request), ""
    completed = with_known(cluster, request, known.named or known.cluster, cache.completed)
    if completed.nodes is not cluster.nodes:
        note = f"; storage units, which the request lacks, as reported {known.units_age:.0f} s ago"
    if known.to_be_asked and names_units(requested, known.cluster):
        note = "; storage units, which the request lacks, are not known yet and will be asked for"
    filled = (
        with_disks(completed, known.cluster, cache.completed) if lacks_disks(cluster, request) else completed
    )
    if filled is not completed:
        note += f"; disk space of nodes, which the request lacks, as reported {known.age:.0f} s ago"
    return with_known_inventories(filled, known.cluster, cache.completed), note


def state_for(
    cluster: Cluster, request: Request, options: PlacementOptions, known: Figures | None = None
) -> State:
    """Derive the state on which a request is decided."""
    asked = new_instances(request)
    if isinstance(request, AllocateSecondary):  # the converted instance may be on more units
        asked = tuple(
            replace(row, template=DiskTemplate.DRBD)
            for row in cluster.instances
            if row.name == request.instance
        )
    return derive(cluster, asked, options.static_kvm_node_memory, known)


def respond_on(
    state: State, request: Request, options: PlacementOptions, note: str = "", ranked: bool = False
) -> tuple[str, State]:
    """Decide on a state. Returns the answer, with a ``note``, and the state after it.

    With ``ranked`` the answer also ranks the groups for each new instance.
    """
    outcome = _outcome(state, request, options)
    after = state if isinstance(outcome, RequestFailed) else outcome.state
    more = {"ranking": _ranking(request, outcome)} if ranked else {}
    return _answer(request, outcome, note + _unchecked_demands(state, request), **more), after


def _unchecked_demands(state: State, request: Request) -> str:
    """Name the custom classes that new instances demand while no inventories are known; empty without any."""
    rows = () if state.units.classes else new_instances(request)
    names = sorted({name for row in rows for name in demands(row.tags)})
    return (
        f"; not looked at, because no node has an inventory of a custom class: {', '.join(names)}"
        if names
        else ""
    )


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
