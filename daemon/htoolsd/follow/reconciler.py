"""Reconciliation: the ledger follows the cluster, and decisions follow the ledger.

Nobody waits for either.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import structlog
import trio

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.planning.view import View
from htoolsd.config.settings import Settings
from htoolsd.events import DaemonEvent
from htoolsd.follow.desired_state import SyncedState
from htoolsd.follow.diff import LedgerUpdater
from htoolsd.follow.reserved import reservations
from htoolsd.follow.resources import CountingRules
from htoolsd.marks import UNTAGGED, show
from htoolsd.store.records import LedgerError, UnavailableError
from htoolsd.store.worker import LIMIT, LedgerWorker
from htoolsd.sync.polls import Polled
from htoolsd.sync.reserved_room import Reservations
from htoolsd.sync.sync import Sync
from htoolsd.sync.trigger import Trigger
from htoolsd.threads import effect

if TYPE_CHECKING:  # importing SQLAlchemy takes long
    from htoolsd.store.ledger import Ledger

_log = structlog.get_logger()

_LIMIT = 30.0  # seconds of a reconciliation: a large cluster takes some when it is written for the first time


class Reconciler:
    """Writes the cluster to the ledger after each poll, and passes the reservations there to decisions."""

    def __init__(self, sync: Sync, ledger: LedgerWorker, settings: Settings) -> None:
        self._settings = settings
        self._sync = sync
        self._ledger = ledger
        self._trigger = Trigger()
        self._updater = LedgerUpdater()
        self._reserved: tuple[SyncedState, Reservations] | None = None  # of the last round
        self.synced: SyncedState | None = None  # the cluster and the ledger when they last agreed
        self._behind_since: float | None = None  # when a change came that is not written yet
        self._using = trio.Lock()
        self._opened = 0  # of the ledger, at the last round
        self.error: str | None = None
        self._untagged: bool | None = None

    @property
    def pending(self) -> bool:
        """Whether the ledger has never been in step with the known cluster."""
        return self.synced is None and self._sync.model.without_reservations is not None

    def status(self) -> dict[str, Any]:
        """Return how long the ledger is behind the cluster, the number of writes, and the last error.

        ``lag_s`` is in seconds: 0 if the ledger is in step, None if it never was.
        """
        since = self._behind_since
        behind = 0.0 if since is None else round(trio.current_time() - since, 3)
        return {
            "lag_s": None if self.synced is None else behind,
            "written": self._updater.writes,
            "following": self.error,
        }

    def note(self, event: DaemonEvent) -> None:
        """Reconcile soon after each poll."""
        if isinstance(event, Polled):
            self.trigger()

    def trigger(self) -> None:
        """Reconcile soon: Ganeti was polled, or another client has changed the ledger."""
        if self._behind_since is None:
            self._behind_since = trio.current_time()
        self._trigger.by(trio.current_time())

    async def reconcile(self) -> None:
        """Return when a reconciliation that begins after this call has ended, at the latest after a limit.

        While the ledger is known to be unusable, nobody waits for it.
        """
        if self.error is not None:
            self.trigger()
            return
        with trio.move_on_after(LIMIT) as waiting:
            await self._trigger.rerun()
        if waiting.cancelled_caught:
            self.error = self.error or f"no answer within {LIMIT:g} s"

    async def reread(self, providers: Collection[str], limit: float) -> None:
        """Read providers (uuids) again, and have decisions count what others have claimed there.

        Raises LedgerError.
        """
        synced = self.synced
        if synced is None:
            return

        def read(ledger: "Ledger") -> tuple[SyncedState, Reservations]:
            new = SyncedState(synced.desired, ledger.refresh(synced.snapshot, providers))
            return new, reservations(new)

        await self._use(*await self._ledger.claims.do(read, limit, probe=False))

    async def run(self) -> None:
        """Reconcile until cancelled."""
        while True:
            await self._trigger.begin()
            await self._round()
            self._trigger.end()

    async def _round(self) -> None:
        model, began = self._sync.model, trio.current_time()
        if model.without_reservations is None or model.name is None or not self._sync.master:
            return
        if self._sync.obstacle() is not None:  # the other daemon writes
            return
        cluster, name = model.without_reservations, model.name
        try:
            synced, reserved = await self._ledger.do(
                lambda ledger: self._update(ledger, cluster, name), _LIMIT
            )
        except LedgerError as error:
            self._note_error(error)
            return
        except Exception as defect:  # of ours; decisions go on without
            self._note_error(HtoolsError(f"{type(defect).__name__}: {defect}"), defect)
            return
        if self.error is not None:
            _log.info("ledger updated again")
        self.error = None
        await self._use(synced, reserved)
        if self._behind_since is not None and self._behind_since <= began:
            self._behind_since = None

    def _update(self, ledger: "Ledger", cluster: Cluster, name: str) -> tuple[SyncedState, Reservations]:
        """Write the cluster, and return the reservations. Raises LedgerError."""
        if self._opened != self._ledger.opened:
            self._opened = self._ledger.opened
            self._updater.forget()
        rules = CountingRules(View().static_kvm_node_memory, self._settings.now.limits_vcpus)
        synced = self._updater.apply(ledger, cluster, name, rules)
        if self._reserved is None or synced is not self._reserved[0]:
            self._reserved = synced, reservations(synced)
        return self._reserved

    async def _use(self, synced: SyncedState, reserved: Reservations) -> None:
        """Have decisions count a state of the ledger."""
        async with self._using:  # the model first: newer generations with older reservations promise too much
            await self._sync.reserve(reserved)
            self.synced = synced
        await self._show_untagged(reserved.untagged)

    async def _show_untagged(self, untagged: bool) -> None:
        if untagged is not self._untagged:
            await effect(show, self._settings.now.socket, UNTAGGED, untagged)
            self._untagged = untagged

    def _note_error(self, error: HtoolsError, defect: Exception | None = None) -> None:
        self._updater.forget()
        if str(error) != self.error and not isinstance(error, UnavailableError):  # the worker logs those
            _log.warning("ledger not updated", error=str(error), exc_info=defect)
        self.error = str(error)
