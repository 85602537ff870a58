"""The ledger kept in step with the cluster, and the cluster with the ledger; nobody waits for either."""

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

import structlog
import trio

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.planning.view import View
from htoolsd.ledger.following import Agreed
from htoolsd.ledger.identities import full_name, plan_name
from htoolsd.ledger.kept import Left, left_of
from htoolsd.ledger.records import Consumer, LedgerError, UnavailableError
from htoolsd.ledger.telling import Telling
from htoolsd.ledger.worker import Worker
from htoolsd.sync.following import Sync
from htoolsd.sync.kept import Kept
from htoolsd.sync.periodic import Trigger

if TYPE_CHECKING:
    from htoolsd.ledger.ledger import Ledger

_log = structlog.get_logger()


class Follower:
    """After each poll of Ganeti has the ledger say what exists, and decisions leave what it says."""

    def __init__(self, sync: Sync, ledger: Worker) -> None:
        self._sync = sync
        self._ledger = ledger
        self._trigger = Trigger()
        self._telling = Telling(View().static_kvm_node_memory)
        self.agreed: Agreed | None = None  # what was said and stood there last, which decisions know of
        self._behind: float | None = None  # since when something is not said
        self._living: Callable[[], Collection[str]] | None = None
        self.error: str | None = None

    @property
    def awaited(self) -> bool:
        """Whether there is a cluster that the ledger has never agreed with yet."""
        return self.agreed is None and self._sync.model.told is not None

    def status(self) -> dict[str, Any]:
        """For how long the ledger has not said what is so (seconds; 0 if it does, None if it never did), how
        often something was written, and why the last attempt failed.
        """
        behind = 0.0 if self._behind is None else round(trio.current_time() - self._behind, 3)
        known = self.agreed is not None
        written = self._telling.written
        return {"behind_s": behind if known else None, "written": written, "following": self.error}

    def heed(self) -> None:
        """Ganeti has been asked, or somebody has changed the ledger: have a look soon."""
        self._behind = self._behind if self._behind is not None else trio.current_time()
        self._trigger.by(trio.current_time())

    async def again(self) -> None:
        """Returns when a look that begins after this call has ended."""
        await self._trigger.again()

    def follow(self, living: Callable[[], Collection[str]]) -> None:
        """Have each look release what plans have claimed, all but those with these ids."""
        self._living = living

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            await self._trigger.begin()
            await self._look()
            self._trigger.end()

    async def _look(self) -> None:
        model, began = self._sync.model, trio.current_time()
        if model.told is None or model.name is None or not self._sync.master:
            return
        cluster, name = model.told, model.name
        living = None if self._living is None else {plan_name(name, plan) for plan in self._living()}
        try:
            agreed, left = await self._ledger.do(lambda ledger: self._tell(ledger, cluster, name, living))
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
        await self._sync.keep(Kept(*left))
        self.agreed = agreed
        if self._behind is not None and self._behind <= began:
            self._behind = None

    def _tell(
        self, ledger: "Ledger", cluster: Cluster, name: str, living: Collection[str] | None
    ) -> tuple[Agreed, Left]:
        """Have the ledger say what is so, and find out what decisions have to leave. Raises LedgerError."""
        agreed = self._telling.tell(ledger, cluster, name)
        over = [] if living is None else [plan for plan in _plans(agreed) if plan.name not in living]
        for plan in over:
            ledger.release(plan.uuid)
        if over:
            agreed = self._telling.tell(ledger, cluster, name)
        return agreed, left_of(*agreed)

    def _failed(self, error: HtoolsError) -> None:
        self._telling.forget()
        if str(error) != self.error and not isinstance(error, UnavailableError):  # those are logged
            _log.warning("ledger does not follow", error=str(error))
        self.error = str(error)


def _plans(agreed: Agreed) -> Iterator[Consumer]:
    """The plans of the cluster that have claimed something."""
    own = full_name(agreed.said.places.cluster, "")
    consumers = agreed.contents.consumers.values()
    return (each for each in consumers if each.kind == "plan" and each.name.startswith(own))
