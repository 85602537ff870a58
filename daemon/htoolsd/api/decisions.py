"""Decisions, one at a time in a worker thread, so that what is kept between them needs no lock."""

import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import cast

import structlog
import trio

from ganeti_htools.backends.documents import has_at_most
from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.model.errors import HtoolsError, inconsistency_warning, untraced
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.planning.decision import Cache, Known, Response, TooLargeError, noted, respond
from ganeti_htools.planning.promises import Promise
from htoolsd.api.request import claimant_of, read_request, understand
from htoolsd.api.turn import MOST_LOST, Attempt, Turn
from htoolsd.claims.claim import Claimant
from htoolsd.claims.claim_writer import ClaimWriter, DecisionBasis
from htoolsd.history import entries
from htoolsd.history.entries import Entry
from htoolsd.socket.methods import Args, File
from htoolsd.socket.peer import PassedFile

_log = structlog.get_logger()

Ages = dict[str, float]

MOST_TIMES = 3  # that a request is decided while others claim what it needs
MOST = 1_000_000  # values in a request; a cluster of 10,000 instances has a third of that


@dataclass(frozen=True, slots=True)
class Relay:
    """What the iallocator executable has to print, and its exit status."""

    stdout: str
    stderr: str
    exit_status: int


@dataclass(slots=True)
class Tally:
    """Counts of the decisions asked for, by outcome. Times are milliseconds from the call to its result."""

    served: int = 0  # answered with a decision that can be carried out
    unsatisfied: int = 0  # answered that there is no place
    failed: int = 0  # answered that the request is wrong
    refused: int = 0  # not taken on
    abandoned: int = 0  # the client left before the result
    given_up: int = 0  # took too long
    broken: int = 0  # ended by a defect
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=1000))


class Decisions:
    """Decides requests, keeping parsed parts from one to the next. ``largest`` is bytes of a request.

    A decision waits for others at most ``patience`` seconds, and takes at most ``longest``. ``known`` tells
    what else is known of the cluster, and how old each kind of data is, in seconds; may raise RefusalError.
    ``note`` keeps an entry of the history for each decision.
    ``claims`` are what is promised; where there are none, nothing is.
    ``want_units`` is called when somebody asks for other storage units than the default ones; ``renew`` asks
    for the configuration, before a disk template is refused that may have been enabled since.
    """

    def __init__(
        self,
        patience: float,
        longest: float,
        largest: int,
        known: Callable[[], tuple[Known | None, Ages]],
        want_units: Callable[[], None] = lambda: None,
        renew: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint,
        note: Callable[[Entry], None] = lambda _entry: None,
        claims: ClaimWriter | None = None,
    ) -> None:
        self._turn = Turn(patience)
        self._longest = longest
        self._largest = largest
        self._cache = Cache()
        self._tally = Tally()
        self._known = known
        self._want_units = want_units
        self._renew = renew
        self._note = note
        self._claims = claims

    def limit(self, patience: float, longest: float, largest: int) -> None:
        """Change the limits from now on."""
        self._turn.patience, self._longest, self._largest = patience, longest, largest

    @property
    def healthy(self) -> bool:
        """Whether decisions can be made."""
        return len(self._turn.lost) < MOST_LOST

    def give_up_late(self) -> None:
        """Give up the decision that is being made if it takes too long."""
        since = self._turn.running_since
        if since is not None and trio.current_time() - since > self._longest:
            _log.error("decision given up", seconds=self._longest)
            self._tally.given_up += 1
            self._cache = Cache()  # the lost thread keeps using the old cache
            cast(Attempt, self._turn.give_up()).scope.cancel()

    def stop(self) -> None:
        """Refuse every decision that has not begun."""
        self._turn.stop()

    def status(self) -> dict[str, object]:
        """Counts since the start, the latest times, in milliseconds, and what is kept for the next."""
        tally, recent = self._tally, sorted(self._tally.recent)
        since = self._turn.running_since
        return {
            "served": tally.served,
            "unsatisfied": tally.unsatisfied,
            "failed": tally.failed,
            "refused": tally.refused,
            "abandoned": tally.abandoned,
            "given_up": tally.given_up,
            "broken": tally.broken,
            "running": int(since is not None),
            "running_ms": None if since is None else _milliseconds(since),
            "waiting": self._turn.waiting,
            "lost": len(self._turn.lost),
            "last_ms": tally.recent[-1] if recent else None,
            "median_ms": round(median(recent), 3) if recent else None,
            "slowest_ms": recent[-1] if recent else None,
            "kept_nodes": len(self._cache.reader.nodes),
            "kept_instances": len(self._cache.reader.instances),
        }

    async def run(self, args: Args, file: File) -> object:
        """Carry out ``decide``. Raises RefusalError."""
        began = trio.current_time()
        try:
            options, source = understand(args, file)
            claimant = claimant_of(args, file)
            known, ages = self._known()
            attempt = Attempt(self._turn)
            with attempt.scope:
                outcome = await trio.to_thread.run_sync(
                    self._decide,
                    source,
                    options,
                    known,
                    claimant,
                    abandon_on_cancel=True,
                    limiter=cast(trio.CapacityLimiter, attempt),  # trio documents any object alike
                )
            if attempt.scope.cancelled_caught:
                raise RefusalError(Refusal.INTERNAL, f"the decision took longer than {self._longest:g} s")
        except RefusalError:
            self._tally.refused += 1
            raise
        except trio.Cancelled:
            self._tally.abandoned += 1
            raise
        except Exception:
            self._tally.broken += 1
            self._cache = Cache()  # the defect may have left the cache half changed
            raise
        took = _milliseconds(began)
        self._tally.recent.append(took)
        self._count(outcome, took, ages)
        if isinstance(outcome, HtoolsError):
            return {**asdict(Relay("", f"Error: {outcome}\n", 1)), "ages": ages, "ranking": []}
        self._note(entries.decision(time.time(), outcome.summary, outcome.ranking, took, ages))
        if outcome.names_units:
            self._want_units()
        return {**asdict(_relay(outcome)), "ages": ages, "ranking": outcome.ranking}

    async def _known_anew(self) -> Known | None:
        """What is known once the configuration has been asked for again."""
        await self._renew()
        return self._known()[0]

    def _count(self, outcome: Response | HtoolsError, took: float, ages: Ages) -> None:
        told = {"ms": took, "ages": {kind: round(age, 1) for kind, age in ages.items()}}
        if isinstance(outcome, HtoolsError):
            self._tally.failed += 1
            _log.warning("request is wrong", error=str(outcome), **told)
        elif outcome.summary.refusal is not None:
            self._tally.unsatisfied += 1
            _log.info("no place", **outcome.summary.to_json(), **told)
        else:
            self._tally.served += 1
            _log.info("decided", **outcome.summary.to_json(), **told)

    def _decide(
        self,
        source: PassedFile | str,
        options: PlacementOptions,
        known: Known | None,
        claimant: Claimant | None,
    ) -> Response | HtoolsError:
        data = source.encode() if isinstance(source, str) else read_request(source, self._largest)
        if not has_at_most(data, MOST):
            raise RefusalError(Refusal.FILE, f"the request has more than {MOST} values")
        try:
            return self._with_claims(data, options, known, claimant)
        except TooLargeError as err:
            raise RefusalError(Refusal.FILE, str(err)) from None
        except HtoolsError as err:
            return untraced(err)

    def _with_claims(
        self, data: bytes, options: PlacementOptions, known: Known | None, claimant: Claimant | None
    ) -> Response:
        """Decide, counting what is promised; again if somebody else was faster to claim it."""
        cache, claims = self._cache, self._claims
        if claims is None or not claims.active:
            return self._respond(data, options, cache, known, ())
        for left in reversed(range(MOST_TIMES)):
            known, basis = trio.from_thread.run_sync(self._basis, claims)
            response = self._respond(data, options, cache, known, basis.promises)
            trio.from_thread.check_cancelled()  # what nobody waits for any more promises nothing
            outcome = trio.from_thread.run(claims.record, response, claimant, basis, left == 0)
            if not outcome.again:
                break
        return noted(response, outcome.note)

    def _basis(self, claims: ClaimWriter) -> tuple[Known | None, DecisionBasis]:
        return self._known()[0], claims.basis()

    def _respond(
        self,
        data: bytes,
        options: PlacementOptions,
        cache: Cache,
        known: Known | None,
        promises: tuple[Promise, ...],
    ) -> Response:
        response = respond(data, options, cache, known, promises)
        if response.not_enabled:
            known = trio.from_thread.run(self._known_anew)
            response = respond(data, options, cache, known, promises)
        return response


def _relay(response: Response) -> Relay:
    return Relay(response.answer + "\n", inconsistency_warning(response.warnings), 0)


def _milliseconds(since: float) -> float:
    return round((trio.current_time() - since) * 1000, 3)
