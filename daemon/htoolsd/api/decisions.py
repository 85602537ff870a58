"""The method ``decide``: one decision at a time, so that the cache needs no lock. A thread computes."""

import gc
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from math import inf
from statistics import median
from typing import Annotated, Protocol, TypeVar

import structlog
import trio

from ganeti_htools import machine
from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.deciding.decision import Cache, KnownCluster, Response, TooLargeError, respond, with_note
from ganeti_htools.deciding.summary import DecisionSummary
from ganeti_htools.model.errors import HtoolsError, inconsistency_warning, printable, untraced
from ganeti_htools.model.options import PlacementOptions
from htoolsd.api.request import read_request, understand
from htoolsd.api.turn import MAX_HUNG, DecisionTurn
from htoolsd.claims.claim import Claimant
from htoolsd.claims.claim_writer import ClaimWriter, DecisionBasis
from htoolsd.config.settings import Settings
from htoolsd.events import EventStream
from htoolsd.history.entries import Decided
from htoolsd.metrics.durations import Durations
from htoolsd.socket.methods import File, method
from htoolsd.socket.peer import PassedFile, describe_caller
from htoolsd.socket.roles import Role

_log = structlog.get_logger()

Ages = dict[str, float]

Result = TypeVar("Result")


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


class ClusterData(Protocol):
    """The daemon's data about the cluster, for decisions. Both ways to get it may raise RefusalError."""

    def now(self) -> tuple[KnownCluster | None, Ages]:
        """Return the data, and the age of each kind in seconds."""

    async def newest(self) -> KnownCluster | None:
        """Return the data once Ganeti was asked for the configuration."""

    def request_units(self) -> None:
        """Note that a request names other storage units than the default ones."""


class Decisions:
    """Decides requests. Parsed parts of a request are reused for the next one.

    ``cluster`` is the daemon's data about the cluster. ``events`` get each decision. ``claims`` are the
    promises of decisions; None to promise nothing.
    """

    def __init__(
        self,
        settings: Settings,
        cluster: ClusterData,
        events: EventStream,
        claims: ClaimWriter | None = None,
    ) -> None:
        self._settings = settings
        self._turn = DecisionTurn(settings)
        self._cache = Cache()
        self._counts = DecisionCounts()
        self._cluster = cluster
        self._events = events
        self._claims = claims

    @property
    def healthy(self) -> bool:
        """Whether decisions can be made."""
        return len(self._turn.hung) < MAX_HUNG

    def give_up_late(self) -> float:
        """Give up the running decision if it takes too long; return the seconds until the next look."""
        longest = self._settings.now.decision_seconds
        if self._turn.give_up(longest):
            _log.error("decision given up", seconds=longest)
            self._counts.given_up += 1
            self._cache = Cache()  # the hung thread keeps using the old cache
            gc.enable()  # the hung thread switched it off
        return max(1.0, longest / 12)

    async def idle(self) -> None:
        """Return when no decision runs or waits."""
        await self._turn.idle()

    def stop(self) -> None:
        """Refuse all decisions that have not begun."""
        self._turn.stop()

    def status(self) -> dict[str, object]:
        """Return counts since the start, the latest times in milliseconds, and the size of the cache."""
        counts, recent = self._counts, sorted(self._counts.recent)
        running = self._turn.running
        return {
            "served": counts.served,
            "unsatisfied": counts.unsatisfied,
            "failed": counts.failed,
            "refused": counts.refused,
            "abandoned": counts.abandoned,
            "given_up": counts.given_up,
            "broken": counts.broken,
            "running": int(running is not None),
            "running_ms": None if running is None else _milliseconds(running.since),
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
        " program; the id of the decision; the age of each kind of the daemon's data, in seconds; a summary;"
        " and for each new instance its possible groups, the best first, with their policy, the cluster's"
        " score afterwards (or the lost allocations) and the nodes. The request is an open"
        " regular file, passed with the call (SCM_RIGHTS) and read from its beginning.",
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
            async with self._turn.taken() as thread:
                ages = self._cluster.now()[1]
                outcome = await self._decide(thread, source, options, claimant)
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
        timing = {"ms": took, "ages": {kind: round(age, 1) for kind, age in ages.items()}}
        if isinstance(outcome, HtoolsError):
            self._counts.failed += 1
            _log.warning("request is wrong", error=str(outcome), **timing)
            relay = IallocatorOutput("", f"Error: {printable(str(outcome))}\n", 1)
            return {**asdict(relay), "ages": ages, "ranking": []}
        decided = Decided(
            machine.now(),
            outcome.summary,
            outcome.ranking,
            took,
            ages,
            claimant,
            describe_caller(),
            outcome.data,
        )
        placed = self._count(outcome.summary)
        _log.info("decided" if placed else "no place", id=decided.id, **outcome.summary.to_json(), **timing)
        self._events.publish(decided)
        if outcome.names_units:
            self._cluster.request_units()
        told = {"id": decided.id, "summary": outcome.summary.to_json(), "ranking": outcome.ranking}
        return {**asdict(_relay(outcome)), "ages": ages, **told}

    def _count(self, summary: DecisionSummary) -> bool:
        """Count a decision; return whether all its instances have a place."""
        outcomes = self._counts.by_type.setdefault(summary.request, Counter(served=0, unsatisfied=0))
        placed = summary.refusal is None
        self._counts.served += placed
        self._counts.unsatisfied += not placed
        outcomes["served" if placed else "unsatisfied"] += 1
        return placed

    async def _decide(
        self,
        thread: trio.CapacityLimiter,
        source: PassedFile | str,
        options: PlacementOptions,
        claimant: Claimant | None,
    ) -> Response | HtoolsError:
        """Decide with all promises; repeat the decision if another client claimed the resources first."""

        async def run(work: Callable[..., Result], *args: object) -> Result:
            return await machine.run_sync(work, *args, abandon_on_cancel=True, limiter=thread)

        data = await run(read_request, source, self._settings.now.request_mib << 20)
        cache, claims, until = self._cache, self._claims, inf
        try:
            while True:
                known, _ = self._cluster.now()
                active = claims is not None and claims.active
                basis = claims.basis() if claims is not None and active else DecisionBasis(())
                response = await run(respond, data, options, cache, known, basis.promises)
                if response.not_enabled:
                    known = await self._cluster.newest()
                    response = await run(respond, data, options, cache, known, basis.promises)
                await trio.lowlevel.checkpoint_if_cancelled()  # otherwise it promises nothing
                if claims is None or not active:
                    break
                with trio.CancelScope(shield=True):
                    outcome = await claims.record(response, claimant, basis, until)
                if outcome.until is None:
                    response = with_note(response, outcome.note)
                    break
                until = outcome.until
        except TooLargeError as err:
            raise RefusalError(Refusal.FILE, str(err)) from None
        except HtoolsError as err:
            return untraced(err)
        summary = response.summary
        refused = summary.request == "allocate" and summary.refusal is not None
        return replace(response, data=data) if refused else response


def _relay(response: Response) -> IallocatorOutput:
    return IallocatorOutput(response.answer + "\n", inconsistency_warning(response.warnings), 0)


def _milliseconds(since: float) -> float:
    return round((trio.current_time() - since) * 1000, 3)
