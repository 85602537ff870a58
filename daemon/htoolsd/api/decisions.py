"""The method ``decide``: one decision at a time, in a worker thread, so that the cache needs no lock."""

import gc
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field, replace
from math import inf
from statistics import median
from typing import Annotated, cast

import structlog
import trio

from ganeti_htools.backends.documents import has_at_most
from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.deciding.decision import Cache, KnownCluster, Response, TooLargeError, respond, with_note
from ganeti_htools.deciding.promises import Promise
from ganeti_htools.model.errors import HtoolsError, inconsistency_warning, printable, untraced
from ganeti_htools.model.options import PlacementOptions
from htoolsd.api.request import read_request, understand
from htoolsd.api.turn import MAX_HUNG, DecisionAttempt, DecisionTurn
from htoolsd.claims.claim import Claimant
from htoolsd.claims.claim_writer import ClaimWriter, DecisionBasis
from htoolsd.config.settings import Settings
from htoolsd.history import entries
from htoolsd.history.entries import HistoryEntry
from htoolsd.metrics.durations import Durations
from htoolsd.socket.methods import File, method
from htoolsd.socket.peer import PassedFile, describe_caller
from htoolsd.socket.roles import Role

_log = structlog.get_logger()

Ages = dict[str, float]

MAX_VALUES = 1_000_000  # in a request; 10,000 instances need a third


@dataclass(frozen=True, slots=True)
class IallocatorOutput:
    """Output and exit status of the iallocator executable."""

    stdout: str
    stderr: str
    exit_status: int


@dataclass(slots=True)
class DecisionCounts:
    """Counts of decisions by outcome. ``recent`` has the times from call to result, in milliseconds.

    ``by_type`` counts served and unsatisfied decisions by type of the request.
    """

    served: int = 0  # answered with a decision that can be carried out
    unsatisfied: int = 0  # answered that there is no place
    failed: int = 0  # answered that the request is wrong
    refused: int = 0  # not taken on
    abandoned: int = 0  # the client left before the result
    given_up: int = 0  # took too long
    broken: int = 0  # ended by a defect
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=1000))
    durations: Durations = field(default_factory=Durations)
    by_type: dict[str, Counter[str]] = field(default_factory=dict)


class Decisions:
    """Decides requests. Parsed parts of a request are reused for the next one.

    * ``known`` returns the daemon's data about the cluster, and the age of each kind in seconds. It may raise
      RefusalError.
    * ``want_units`` is called when a request names other storage units than the default ones.
    * ``renew`` asks Ganeti for the configuration, before a disk template is refused as not enabled.
    * ``note`` gets an entry of the history for each decision.
    * ``claims`` are the promises of decisions; None to promise nothing.
    """

    def __init__(
        self,
        settings: Settings,
        known: Callable[[], tuple[KnownCluster | None, Ages]],
        want_units: Callable[[], None] = lambda: None,
        renew: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint,
        note: Callable[[HistoryEntry], None] = lambda _entry: None,
        claims: ClaimWriter | None = None,
    ) -> None:
        self._settings = settings
        self._turn = DecisionTurn(settings)
        self._cache = Cache()
        self._counts = DecisionCounts()
        self._known = known
        self._want_units = want_units
        self._renew = renew
        self._note = note
        self._claims = claims

    @property
    def healthy(self) -> bool:
        """Whether decisions can be made."""
        return len(self._turn.hung) < MAX_HUNG

    def give_up_late(self) -> None:
        """Give up the running decision if it takes too long."""
        since, longest = self._turn.running_since, self._settings.now.decision_seconds
        if since is not None and trio.current_time() - since > longest:
            _log.error("decision given up", seconds=longest)
            self._counts.given_up += 1
            self._cache = Cache()  # the hung thread keeps using the old cache
            cast(DecisionAttempt, self._turn.give_up()).scope.cancel()
            gc.enable()  # the hung thread switched it off

    async def idle(self) -> None:
        """Return when no decision runs or waits."""
        await self._turn.idle()

    def stop(self) -> None:
        """Refuse all decisions that have not begun."""
        self._turn.stop()

    def status(self) -> dict[str, object]:
        """Return counts since the start, the latest times in milliseconds, and the size of the cache."""
        counts, recent = self._counts, sorted(self._counts.recent)
        since = self._turn.running_since
        return {
            "served": counts.served,
            "unsatisfied": counts.unsatisfied,
            "failed": counts.failed,
            "refused": counts.refused,
            "abandoned": counts.abandoned,
            "given_up": counts.given_up,
            "broken": counts.broken,
            "running": int(since is not None),
            "running_ms": None if since is None else _milliseconds(since),
            "waiting": self._turn.waiting,
            "lost": len(self._turn.hung),
            "last_ms": counts.recent[-1] if recent else None,
            "median_ms": round(median(recent), 3) if recent else None,
            "slowest_ms": recent[-1] if recent else None,
            "durations": counts.durations.to_json(),
            "by_type": {kind: dict(outcomes) for kind, outcomes in counts.by_type.items()},
            "kept_nodes": len(self._cache.reader.nodes),
            "kept_instances": len(self._cache.reader.instances),
        }

    @method(
        "Decides an iallocator request. The result has stdout, stderr and exit status of the iallocator"
        " program; the age of each kind of the daemon's data, in seconds; a summary; and for each new"
        " instance its possible groups, the best first, with their policy, the cluster's score afterwards (or"
        " the lost allocations) and the nodes. The request is an open regular file, passed with the call"
        " (SCM_RIGHTS) and read from its beginning.",
        role=Role.DECIDE,
    )
    async def decide(
        self,
        file: File,
        arguments: Annotated[tuple[str, ...], "list of strings, the --KEY=VALUE options of the request"] = (),
        request: Annotated[str | None, "the text of the request, instead of a file"] = None,
        claim: Annotated[
            bool | None, "whether to claim the resources (true for a file, false for a text)"
        ] = None,
    ) -> object:
        """Raises RefusalError."""
        began = trio.current_time()
        try:
            options, source = understand(arguments, request, file)
            claimant: Claimant | None = "hand" if claim else None
            if claim is None and file is not None:  # as jobs call it
                claimant = "job"
            attempt = DecisionAttempt(self._turn)
            with attempt.scope:
                outcome, ages = await trio.to_thread.run_sync(
                    self._decide,
                    source,
                    options,
                    claimant,
                    abandon_on_cancel=True,
                    limiter=cast(trio.CapacityLimiter, attempt),  # trio documents any object alike
                )
            if attempt.scope.cancelled_caught:
                longest = self._settings.now.decision_seconds
                raise RefusalError(Refusal.INTERNAL, f"the decision took longer than {longest:g} s")
        except RefusalError:
            self._counts.refused += 1
            raise
        except trio.Cancelled:
            self._counts.abandoned += 1
            raise
        except Exception:
            self._counts.broken += 1
            self._cache = Cache()  # the defect may have left the cache half changed
            raise
        took = _milliseconds(began)
        self._counts.recent.append(took)
        self._counts.durations.add(took / 1000)
        self._count(outcome, took, ages)
        if isinstance(outcome, HtoolsError):
            relay = IallocatorOutput("", f"Error: {printable(str(outcome))}\n", 1)
            return {**asdict(relay), "ages": ages, "ranking": []}
        self._note(
            entries.decision(
                time.time(),
                outcome.summary,
                outcome.ranking,
                took,
                ages,
                claimant,
                describe_caller(),
                outcome.data,
            )
        )
        if outcome.names_units:
            self._want_units()
        told = {"summary": outcome.summary.to_json(), "ranking": outcome.ranking}
        return {**asdict(_relay(outcome)), "ages": ages, **told}

    async def _renewed(self) -> KnownCluster | None:
        await self._renew()
        return self._known()[0]

    def _count(self, outcome: Response | HtoolsError, took: float, ages: Ages) -> None:
        timing = {"ms": took, "ages": {kind: round(age, 1) for kind, age in ages.items()}}
        if isinstance(outcome, HtoolsError):
            self._counts.failed += 1
            _log.warning("request is wrong", error=str(outcome), **timing)
            return
        outcomes = self._counts.by_type.setdefault(outcome.summary.request, Counter(served=0, unsatisfied=0))
        if outcome.summary.refusal is not None:
            self._counts.unsatisfied += 1
            outcomes["unsatisfied"] += 1
            _log.info("no place", **outcome.summary.to_json(), **timing)
        else:
            self._counts.served += 1
            outcomes["served"] += 1
            _log.info("decided", **outcome.summary.to_json(), **timing)

    def _decide(
        self,
        source: PassedFile | str,
        options: PlacementOptions,
        claimant: Claimant | None,
    ) -> tuple[Response | HtoolsError, Ages]:
        """Decide in a thread, on what is known now. Return the ages of that, too."""
        known, ages = trio.from_thread.run_sync(self._known)
        largest = self._settings.now.request_mib << 20
        data = source.encode() if isinstance(source, str) else read_request(source, largest)
        if not has_at_most(data, MAX_VALUES):
            raise RefusalError(Refusal.FILE, f"the request has more than {MAX_VALUES} values")
        try:
            response = self._with_claims(data, options, known, claimant)
            summary = response.summary
            refused = summary.request == "allocate" and summary.refusal is not None
            return (replace(response, data=data) if refused else response), ages
        except TooLargeError as err:
            raise RefusalError(Refusal.FILE, str(err)) from None
        except HtoolsError as err:
            return untraced(err), ages

    def _with_claims(
        self, data: bytes, options: PlacementOptions, known: KnownCluster | None, claimant: Claimant | None
    ) -> Response:
        """Decide with all promises; repeat the decision if another client claimed the resources first."""
        cache, claims = self._cache, self._claims
        if claims is None or not claims.active:
            return self._respond(data, options, cache, known, ())
        until = inf
        while True:
            known, basis = trio.from_thread.run_sync(self._basis, claims)
            response = self._respond(data, options, cache, known, basis.promises)
            trio.from_thread.check_cancelled()  # a decision that nobody waits for promises nothing
            outcome = trio.from_thread.run(claims.record, response, claimant, basis, until)
            if outcome.until is None:
                break
            until = outcome.until
        return with_note(response, outcome.note)

    def _basis(self, claims: ClaimWriter) -> tuple[KnownCluster | None, DecisionBasis]:
        return self._known()[0], claims.basis()

    def _respond(
        self,
        data: bytes,
        options: PlacementOptions,
        cache: Cache,
        known: KnownCluster | None,
        promises: tuple[Promise, ...],
    ) -> Response:
        response = respond(data, options, cache, known, promises)
        if response.not_enabled:
            known = trio.from_thread.run(self._renewed)
            response = respond(data, options, cache, known, promises)
        return response


def _relay(response: Response) -> IallocatorOutput:
    return IallocatorOutput(response.answer + "\n", inconsistency_warning(response.warnings), 0)


def _milliseconds(since: float) -> float:
    return round((trio.current_time() - since) * 1000, 3)
