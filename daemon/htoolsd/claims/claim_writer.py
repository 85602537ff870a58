"""Claims written to the ledger, and restored from it by the next daemon.

A decision is repeated while other clients claim the same resources. Its nodes must have the generations on
which it rests, for ``claim_wait_seconds`` at most. Of a pool only the amounts matter. The transaction checks
amounts anyway, so many clusters may change their pool all the time.

A claim that has ended is free in memory at once. In the ledger it becomes ordinary use, until the ledger
follows what Ganeti shows. A decision that meets room which the ledger still counts brings the ledger in step
and is repeated.

A claim that could not be written in time is written later, and marked if it exceeds the capacity. Until that
is done, no decision waits for the ledger.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import inf

import structlog
import trio

from ganeti_htools import machine
from ganeti_htools.deciding.decision import Response
from ganeti_htools.deciding.promises import Promise
from ganeti_htools.model.errors import DataError
from htoolsd.claims.claim import Claim, Claimant
from htoolsd.claims.claims import Claims
from htoolsd.claims.entries import ClaimEntries, ledger_entry
from htoolsd.claims.serialization import from_json
from htoolsd.config.settings import Settings
from htoolsd.events import DaemonEvent
from htoolsd.follow.desired_state import SyncedState
from htoolsd.follow.reconciler import Reconciler
from htoolsd.store.records import CapacityError, ConflictError, LedgerEntry, LedgerError, UnavailableError
from htoolsd.store.worker import LedgerWorker
from htoolsd.sync.polls import Polled, RoleChanged
from htoolsd.sync.sync import Sync
from htoolsd.sync.trigger import Trigger

_log = structlog.get_logger()

PATIENCE = 0.05  # seconds that a decision waits for a ledger that nobody else uses
_FIRST = 1.0  # seconds that the start of the daemon waits for the earlier claims
_PAUSE = 1.0  # seconds between two rounds in which missing entries are written
_GRACE = 60.0  # seconds that a restored claim lives at least, so that the job queue can be read first

Generations = Mapping[str, int]  # of providers, by uuid


@dataclass(frozen=True, slots=True)
class DecisionBasis:
    """The promises that a decision counts, and the generations of the providers at that moment."""

    promises: tuple[Promise, ...]
    generations: Generations = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The result of claiming: a ``note`` for the answer, or the request to decide again.

    ``until`` is the time (of trio's clock) after which a decision is not repeated once more; None: it stands.
    """

    note: str = ""
    until: float | None = None


class ClaimWriter:
    """The claims in memory, kept in step with their entries in the ledger.

    When another node becomes the master, the claims go to its daemon; they come back with the role.
    """

    def __init__(
        self, claims: Claims, ledger: LedgerWorker, reconciler: Reconciler, sync: Sync, settings: Settings
    ) -> None:
        self.claims = claims
        self._ledger = ledger
        self._reconciler = reconciler
        self._sync = sync
        self._settings = settings
        self._entries = ClaimEntries(ledger)
        self._synced: SyncedState | None = None  # the state with the generations below
        self._generations: Generations = {}
        self._trigger = Trigger()
        self._in_progress = set[str]()  # instances whose claims are being made
        self._restored = False
        self._error: str | None = None

    @property
    def _wait(self) -> float:
        """The seconds for which a decision waits for a shared ledger, or is repeated."""
        return self._settings.now.claim_wait_seconds

    @property
    def active(self) -> bool:
        """Whether decisions claim, and claims count."""
        return self.claims.active

    def basis(self) -> DecisionBasis:
        """Return the basis of a decision that begins now."""
        synced = self._reconciler.synced
        if synced is not None and synced is not self._synced:
            self._synced = synced
            self._generations = {uuid: each.generation for uuid, each in synced.snapshot.providers.items()}
        return DecisionBasis(self.claims.promises(), self._generations)

    async def record(
        self, response: Response, claimant: Claimant | None, basis: DecisionBasis, until: float = inf
    ) -> ClaimResult:
        """Claim what a decision promised, if there is a claimant.

        If another client claimed the resources first, the decision is repeated. After ``until`` (of trio's
        clock) it stands if its amounts fit, and is repeated only if they do not.
        """
        before = self.claims.living
        self.claims.record(response, claimant)
        made = self.claims.living.keys()
        names = [promise.name for promise in response.promises] if claimant else []
        late = trio.current_time() >= until
        self._in_progress.update(names)
        try:
            await self._write(names, {} if late else basis.generations)
        except (ConflictError, CapacityError) as error:
            if await self._must_repeat(names, basis, error):
                self._take_back({*names, *response.instances}, before, made)
                return ClaimResult(until=min(until, trio.current_time() + self._wait))
            if isinstance(error, CapacityError):
                return ClaimResult(f"; exceeds the capacity in the ledger: {error}")
            return ClaimResult(f"; decided without the ledger: {error}")
        except LedgerError as error:
            return ClaimResult(f"; decided without the ledger: {error}")
        finally:
            self._in_progress.difference_update(names)
            self._trigger.by(trio.current_time() + _PAUSE)
        return ClaimResult()

    def accept(self, response: Response, claimant: Claimant) -> None:
        """Claim what another program has decided.

        The ledger gets it in the next round, even beyond the capacity.
        """
        self.claims.record(response, claimant)
        self._trigger.by(trio.current_time())

    def promise(self, promise: Promise) -> None:
        """Claim what a plan has made room for; the ledger gets it in the next round."""
        self.claims.promise(promise)
        self._trigger.by(trio.current_time())

    def note(self, event: DaemonEvent) -> None:
        """Look after polls and changes of the role whether the claims come or go."""
        if isinstance(event, Polled | RoleChanged):
            self._trigger.by(trio.current_time())

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Restore earlier claims, then write missing entries until cancelled.

        The task has started once the earlier claims are restored, or after a second.
        """
        with trio.move_on_after(_FIRST):
            await self._round()
        task_status.started()
        while True:
            await self._trigger.begin()
            await self._round()
            if self._entries.names or self.claims.living or self._error is not None:
                self._trigger.by(trio.current_time() + _PAUSE)
            self._trigger.end()

    async def _round(self) -> None:
        try:
            if await self._restore():
                await self._write_missing()
            self._error = None
        except LedgerError as error:
            if str(error) != self._error and not isinstance(error, UnavailableError):  # the worker logs those
                _log.warning("claims not written to the ledger", error=str(error))
            self._error = str(error)
        except Exception as defect:  # of ours; decisions go on without
            text = f"{type(defect).__name__}: {defect}"
            if text != self._error:  # the next round follows in a second
                _log.exception("claims not written to the ledger")
            self._error = text

    async def wait_for_round(self) -> None:
        """Return when a round that begins after this call has ended."""
        await self._trigger.rerun()

    async def _must_repeat(
        self, names: Collection[str], basis: DecisionBasis, error: ConflictError | CapacityError
    ) -> bool:
        """Read the providers of a refused claim again; return whether the decision must be repeated.

        A decision may exceed the capacity, as rules that are not strict allow, if neither the ledger nor
        Ganeti shows anything else than its basis.
        """
        synced, conflicts = self._reconciler.synced, isinstance(error, ConflictError)
        if synced is None:
            return False
        concerned = {uuid for entry in self._wanted(synced, names).values() for uuid in entry.allocations}
        try:
            with trio.move_on_after(self._limit):
                await self._reconciler.reread(concerned, self._limit)
        except LedgerError:
            return conflicts

        def is_outdated() -> bool:
            now = self.basis().generations
            return any(now.get(uuid) != basis.generations.get(uuid) for uuid in concerned)

        changed = is_outdated()
        if not changed and not conflicts:
            with trio.move_on_after(self._wait):
                await self._sync.poll_configuration()
                await self.wait_for_round()
                await self._reconciler.reconcile()
            changed = is_outdated()
        if changed and not conflicts:
            self._ledger.claims.conflicts += 1
        return changed or conflicts

    def _take_back(self, names: Collection[str], before: Mapping[str, Claim], made: Collection[str]) -> None:
        """Return to the claims ``before`` a decision that is repeated; other claims stay as they are now.

        A claim that the decision has ``made`` and that has ended meanwhile does not come back.
        """
        living = self.claims.living
        again = {
            name: before[name] for name in names if name in before and (name in living or name not in made)
        }
        self.claims.living = {name: claim for name, claim in living.items() if name not in names} | again

    @property
    def _limit(self) -> float:
        """The seconds that a decision waits for the ledger."""
        return max(self._wait, PATIENCE) if self._ledger.shared else PATIENCE

    async def _write(self, names: Collection[str], generations: Generations) -> None:
        """Write the claims that were just made. Raises LedgerError."""
        synced = self._reconciler.synced
        if not names:
            return
        if self._error is not None:
            raise UnavailableError(self._error)
        if synced is None:  # the names of the providers are unknown
            if self._reconciler.pending:
                raise UnavailableError(self._ledger.error or "the ledger does not have the cluster yet")
            return
        entries = self._wanted(synced, names)
        changes = Counter(uuid for entry in entries.values() for uuid in entry.allocations)
        hosts = (
            uuid for uuid, each in synced.snapshot.providers.items() if uuid in changes and each.can_host
        )
        expected = {uuid: generations[uuid] for uuid in hosts if uuid in generations}
        try:
            await self._entries.claim(entries, expected, self._limit)
        except UnavailableError as error:
            self._error = str(error)  # until the missing entries are written
            raise
        if self._reconciler.synced is synced:  # a newer state may have the claim already
            self._generations = {uuid: number + changes[uuid] for uuid, number in self._generations.items()}

    async def _write_missing(self) -> None:
        """Write missing entries, and settle those of ended claims. Raises LedgerError."""
        synced = self._reconciler.synced
        if synced is None:
            return
        living = self.claims.living.keys()
        wanted = self._wanted(synced, living - self._in_progress)
        if await self._entries.write_missing(wanted, self._entries.names - living - self._in_progress):
            self._reconciler.trigger()

    async def _restore(self) -> bool:
        """Restore the claims of an earlier daemon once; return whether that is done. Raises LedgerError."""
        cluster = self._sync.own_cluster()
        if cluster is None and self._restored:
            self._restored, self.claims.living = False, {}
            self._entries.forget()
        if cluster is None or self._restored:
            return self._restored
        found, now = await self._entries.read(cluster), trio.current_time()
        self._restored = True
        for name, consumer in found.items():  # claims of this daemon, which may have ended, are known
            seconds = max((consumer.expires or 0.0) - machine.now(), _GRACE)
            try:
                self.claims.restore(from_json(consumer.promised or "", now + seconds, now))
            except DataError as error:  # the next round releases it
                _log.warning(
                    "claim in the ledger unreadable; it is released", instance=name, error=str(error)
                )
        if found:
            _log.info("claims restored", number=len(found))
        return True

    def _wanted(self, synced: SyncedState, names: Collection[str]) -> dict[str, LedgerEntry]:
        """Return the entries of the claims on instances, as they should be."""
        living, epoch = self.claims.living, machine.now() - trio.current_time()
        return {name: ledger_entry(living[name], synced, epoch + living[name].expires) for name in names}
