"""The ledger kept in step with the cluster, and the cluster with the ledger; nobody waits for either."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog
import trio

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.planning.view import View
from htoolsd.ledger.following import Agreed, difference
from htoolsd.ledger.kept import inventories_of, reserved_of_pools
from htoolsd.ledger.records import Changes, ConflictError, Contents, LedgerError
from htoolsd.ledger.saying import Statement, statement
from htoolsd.ledger.worker import Worker
from htoolsd.sync.following import Sync
from htoolsd.sync.periodic import Trigger

if TYPE_CHECKING:
    from htoolsd.ledger.ledger import Ledger

_log = structlog.get_logger()

_TRIES = 5  # to write before somebody else does; then the next round tries again
_NOTHING = Changes()


class Found(NamedTuple):
    """What decisions have to leave of nodes and pools; see :mod:`htoolsd.ledger.kept`."""

    inventories: Mapping[str, tuple[tuple[str, Inventory], ...]]
    pools: Mapping[DesiredUnit, int]


class Follower:
    """After each poll of Ganeti has the ledger say what exists, and decisions leave what it says."""

    def __init__(self, sync: Sync, ledger: Worker) -> None:
        self._sync = sync
        self._ledger = ledger
        self._trigger = Trigger()
        self._said: Statement | None = None
        self._contents: Contents | None = None
        self._agreed: Agreed | None = None
        self.agreed: Agreed | None = None  # and decisions know of it
        self._behind: float | None = None  # since when something is not said
        self._written = 0
        self.error: str | None = None
        self.looked = trio.Event()  # set, and replaced, after each look

    def status(self) -> dict[str, Any]:
        """For how long the ledger has not said what is so (seconds; 0 if it does, None if it never did), how
        often something was written, and why the last attempt failed.
        """
        behind = 0.0 if self._behind is None else round(trio.current_time() - self._behind, 3)
        known = self._agreed is not None
        return {"behind_s": behind if known else None, "written": self._written, "following": self.error}

    def heed(self) -> None:
        """Ganeti has been asked, or somebody has changed the ledger: have a look soon."""
        self._behind = self._behind if self._behind is not None else trio.current_time()
        self._trigger.by(trio.current_time())

    async def again(self) -> None:
        """Returns when a look that begins after this call has ended."""
        await self._trigger.again()

    async def run(self) -> None:
        """Follow until cancelled."""
        await self._trigger.begin()
        while True:
            await self._look()
            self._trigger.end()
            self.looked.set()
            self.looked = trio.Event()
            await self._trigger.begin()

    async def _look(self) -> None:
        model, began = self._sync.model, trio.current_time()
        if model.told is None or model.name is None or not self._sync.master:
            return
        cluster, name = model.told, model.name
        try:
            found = await self._ledger.do(lambda ledger: self._follow(ledger, cluster, name))
        except LedgerError as error:
            self._failed(error)
            return
        except Exception as defect:  # of ours; decisions go on without
            _log.exception("ledger cannot follow")
            self._failed(HtoolsError(f"{type(defect).__name__}: {defect}"))
            return
        if self.error is not None:
            _log.info("ledger follows again")
        self.error = None
        if self._behind is not None and self._behind <= began:
            self._behind = None
        await self._sync.keep(*found)
        self.agreed = self._agreed

    def _failed(self, error: HtoolsError) -> None:
        self._contents = self._agreed = None
        if str(error) != self.error:
            _log.warning("ledger does not follow", error=str(error))
        self.error = str(error)

    def _follow(self, ledger: "Ledger", cluster: Cluster, name: str) -> Found:
        """Have the ledger say what is so. In the ledger's thread. Raises LedgerError."""
        said = self._said = statement(cluster, name, View().static_kvm_node_memory, self._said)
        for _ in range(_TRIES):
            known = self._contents
            self._contents = ledger.contents() if known is None else ledger.renewed(known)
            changes = difference(said, self._contents, self._agreed)
            if changes == _NOTHING:
                self._agreed = Agreed(said, self._contents)
                return Found(inventories_of(said, self._contents), reserved_of_pools(said, self._contents))
            try:
                ledger.synchronise(changes)
                self._written += 1
            except ConflictError:
                continue  # somebody else was first: look again
        raise ConflictError("somebody else was always first")
