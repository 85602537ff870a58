"""The method ``decide``: one decision at a time, so that the cache needs no lock. A thread computes."""

import gc
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from math import inf
from statistics import median
from typing import Annotated, Protocol, TypeVar

import structlog
import trio

from ganeti_htools import machine
from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.deciding import other_answer
from ganeti_htools.deciding.decision import Cache, KnownCluster, Response, TooLargeError, respond, with_note
from ganeti_htools.deciding.summary import DecisionSummary
from ganeti_htools.model.errors import (
    DataError,
    HtoolsError,
    inconsistency_warning,
    on_one_line,
    printable,
    untraced,
)
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.nursery import open_nursery
from ganeti_htools.recording.decision import RecordedDecision
from ganeti_htools.version import VERSION
from ganeti_htools.witness.program import WitnessAnswer
from htoolsd.api.request import read_request, understand
from htoolsd.api.turn import MAX_HUNG, DecisionTurn
from htoolsd.claims.claim import Claimant
from htoolsd.claims.claim_writer import ClaimWriter, DecisionBasis
from htoolsd.config.settings import Settings
from htoolsd.events import EventStream
from htoolsd.history.entries import Decided
from htoolsd.metrics.durations import Durations
from htoolsd.recording import DecisionMade
from htoolsd.socket.methods import File, method
from htoolsd.socket.peer import PassedFile, describe_caller, give_sign
from htoolsd.socket.roles import Role
from htoolsd.witness.witness import Statement, Witness

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


@dataclass(frozen=True, slots=True)
class Beside:
    """Our decision beside that of the witness, which answers Ganeti. Nothing is claimed yet."""

    data: bytes
    ours: Response | Exception
    our_seconds: float
    ages: Ages
    theirs: WitnessAnswer

    def response(self) -> Response | None:
        """Return the witness's answer as a response of ours; None if ours has to answer."""
        if self.theirs.error is None and isinstance(self.ours, Response) and self.ours.message is not None:
            with suppress(DataError):
                return other_answer.response(self.ours.message, self.ours, self.theirs.answer.encode())
        return None


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
    promises of decisions, ``witness`` is Ganeti's own program.
    """

    def __init__(
        self,
        settings: Settings,
        cluster: ClusterData,
        events: EventStream,
        claims: ClaimWriter,
        witness: Witness,
    ) -> None:
        self._settings = settings
        self._turn = DecisionTurn(settings)
        self._cache = Cache()
        self._counts = DecisionCounts()
        self._cluster = cluster
        self._events = events
        self._claims = claims
        self._witness = witness

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
            part = self._witness.part() if claimant == "job" else None
            beside = await self._decide_beside(source, options, arguments) if part == "theirs" else None
            theirs = beside.response() if beside is not None else None
            if beside is not None and beside.theirs.error is None and isinstance(beside.ours, Exception):
                return self._relay_theirs(beside, arguments)
            if beside is None or theirs is None:
                # Beside the witness it is decided again, since much may have changed meanwhile.
                again = source if beside is None else beside.data
                outcome, ages = await self._in_turn(again, options, claimant)
            else:
                outcome, ages = theirs, beside.ages
                if self._claims.active:
                    self._claims.accept(theirs, "job")
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
            outcome.data if outcome.summary.request == "allocate" and outcome.summary.refusal else b"",
            None if theirs is None else self._settings.now.witness.program,
        )
        placed = self._count(outcome.summary)
        _log.info("decided" if placed else "no place", id=decided.id, **outcome.summary.to_json(), **timing)
        self._events.publish(decided)
        ours = outcome if theirs is None or beside is None else beside.ours
        if isinstance(ours, Response):
            self._record(decided, ours, arguments, took / 1000 if beside is None else beside.our_seconds)
        if beside is not None:
            self._testify(decided.id, beside, arguments)
        elif part is not None:
            kind, answer = outcome.summary.request, outcome.answer
            self._witness.observe(Statement(decided.id, kind, outcome.data, arguments, answer, took / 1000))
        if outcome.names_units:
            self._cluster.request_units()
        told = {"id": decided.id, "summary": outcome.summary.to_json(), "ranking": outcome.ranking}
        relay = _relay(outcome) if theirs is None or beside is None else _relay_of(beside.theirs)
        return {**asdict(relay), "ages": ages, **told}

    def _record(self, decided: Decided, ours: Response, arguments: tuple[str, ...], took: float) -> None:
        """Have our decision recorded with all that it used."""
        self._events.publish(
            DecisionMade(
                RecordedDecision(
                    decided.id,
                    decided.time,
                    VERSION,
                    arguments,
                    ours.data,
                    ours.known,
                    ours.counted,
                    ours.alone,
                    ours.answer,
                    ours.note,
                    took,
                    decided.program,
                )
            )
        )

    async def _decide_beside(
        self, source: PassedFile | str, options: PlacementOptions, arguments: tuple[str, ...]
    ) -> Beside:
        """Have the witness decide, and decide beside it without claiming anything. Raises RefusalError."""
        largest, began = self._settings.now.request_mib << 20, trio.current_time()
        data = await machine.run_sync(read_request, source, largest, abandon_on_cancel=True)
        ours: Response | Exception = HtoolsError("not decided")
        ages, took = Ages(), 0.0

        async def decide() -> None:
            nonlocal ours, ages, took
            try:
                ours, ages = await self._in_turn(data, options, None)
            except Exception as error:
                ours = untraced(error) if isinstance(error, HtoolsError) else error
                if not isinstance(error, HtoolsError | RefusalError):
                    _log.exception("decision beside the witness failed")
                    self._cache = Cache()
            took = trio.current_time() - began

        async with open_nursery() as nursery:
            nursery.start_soon(decide)
            theirs = await self._witness.testify(data, arguments, give_sign.get(trio.lowlevel.checkpoint))
        return Beside(data, ours, took, ages, theirs)

    def _relay_theirs(self, beside: Beside, arguments: tuple[str, ...]) -> object:
        """Answer with the witness's decision on a request that we cannot decide: no claims, no history."""
        name = machine.random_bytes(6).hex()
        _log.warning("decided by the witness alone", id=name, error=on_one_line(str(beside.ours)))
        self._testify(name, beside, arguments)
        return {**asdict(_relay_of(beside.theirs)), "id": name, "ages": beside.ages, "ranking": []}

    def _testify(self, name: str, beside: Beside, arguments: tuple[str, ...]) -> None:
        """Have both answers compared."""
        ours, failed = beside.ours, isinstance(beside.ours, Exception)
        kind = "unknown" if isinstance(ours, Exception) else ours.summary.request
        answer = "" if isinstance(ours, Exception) else ours.answer
        error = str(ours) or type(ours).__name__ if failed else None
        self._witness.observe(
            Statement(name, kind, beside.data, arguments, answer, beside.our_seconds, error, beside.theirs)
        )

    async def _in_turn(
        self, source: PassedFile | str | bytes, options: PlacementOptions, claimant: Claimant | None
    ) -> tuple[Response | HtoolsError, Ages]:
        """Decide once it is this request's turn; also returns the ages of the data. Raises RefusalError."""
        async with self._turn.taken() as thread:
            ages = self._cluster.now()[1]
            return await self._decide(thread, source, options, claimant), ages

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
        source: PassedFile | str | bytes,
        options: PlacementOptions,
        claimant: Claimant | None,
    ) -> Response | HtoolsError:
        """Decide with all promises; repeat the decision if another client claimed the resources first."""

        async def run(work: Callable[..., Result], *args: object) -> Result:
            return await machine.run_sync(work, *args, abandon_on_cancel=True, limiter=thread)

        largest = self._settings.now.request_mib << 20
        data = source if isinstance(source, bytes) else await run(read_request, source, largest)
        cache, claims, until = self._cache, self._claims, inf
        try:
            while True:
                known, _ = self._cluster.now()
                active = claims.active
                basis = claims.basis() if active else DecisionBasis(())
                response = await run(respond, data, options, cache, known, basis.promises)
                if response.not_enabled:
                    known = await self._cluster.newest()
                    response = await run(respond, data, options, cache, known, basis.promises)
                await trio.lowlevel.checkpoint_if_cancelled()  # otherwise it promises nothing
                if not active:
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
        return response


def _relay_of(theirs: WitnessAnswer) -> IallocatorOutput:
    return IallocatorOutput(theirs.answer, theirs.stderr, 0)


def _relay(response: Response) -> IallocatorOutput:
    return IallocatorOutput(response.answer + "\n", inconsistency_warning(response.warnings), 0)


def _milliseconds(since: float) -> float:
    return round((trio.current_time() - since) * 1000, 3)
