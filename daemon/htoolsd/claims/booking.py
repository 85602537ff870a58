"""The ledger beside the claims: they are written to it, and read back by the daemon that comes next.

A decision waits a moment for it and no longer. What could not be written is made up for later, and marked if
it exceeds what there is.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import structlog
import trio

from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.errors import DataError
from ganeti_htools.planning.decision import Response
from ganeti_htools.planning.promises import Promise
from htoolsd.claims.claim import Claimant
from htoolsd.claims.claims import Claims
from htoolsd.claims.entries import Entry, entry_of, left, make_up, perhaps, same, write
from htoolsd.claims.kept import read
from htoolsd.ledger.following import Agreed
from htoolsd.ledger.identities import full_name
from htoolsd.ledger.records import CapacityError, ConflictError, LedgerError, UnavailableError
from htoolsd.ledger.worker import Worker
from htoolsd.sync.periodic import Trigger

_log = structlog.get_logger()

PATIENCE = 0.05  # seconds that a decision waits for the ledger
_FIRST = 1.0  # seconds until the daemon is ready although it does not know yet what was claimed
_PAUSE = 1.0  # seconds between two rounds in which what is missing is written
_GRACE = 60.0  # seconds that a claim read back lives at least, so that the queue can be asked first

Generations = Mapping[str, int]  # of providers, by uuid


class LedgerView(Protocol):
    """What is known of the ledger, and how it is looked at again."""

    @property
    def agreed(self) -> Agreed | None:
        """What the cluster and the ledger said when they agreed last, which decisions know of."""

    @property
    def awaited(self) -> bool:
        """Whether there is a cluster that the ledger has never agreed with yet."""

    def heed(self) -> None:
        """Have a look soon."""

    async def again(self) -> None:
        """Returns when a look that begins after this call has ended."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What a decision is made on: what is promised, and the generations of the providers then."""

    promises: tuple[Promise, ...]
    generations: Generations = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of claims: a ``note`` for the answer, unless it is to be decided ``again``."""

    note: str = ""
    again: bool = False


class Booking:
    """Claims, and what stands of them in the ledger.

    ``cluster`` tells the name of the cluster that this node leads, None while that is not known. With the
    role the claims go to another daemon, and come back with it.
    """

    def __init__(
        self, claims: Claims, ledger: Worker, view: LedgerView, cluster: Callable[[], str | None]
    ) -> None:
        self.claims = claims
        self._ledger = ledger
        self._view = view
        self._cluster = cluster
        self._written = dict[str, Entry]()  # by instance
        self._seen: Agreed | None = None
        self._generations: Generations = {}
        self._trigger = Trigger()
        self._under_way = set[str]()  # instances whose claims are being written
        self._restored = False
        self._error: str | None = None

    @property
    def active(self) -> bool:
        """Whether decisions claim, and claims count."""
        return self.claims.active

    def basis(self) -> Basis:
        """What a decision is made on now."""
        agreed = self._view.agreed
        if agreed is not None and agreed is not self._seen:
            self._seen = agreed
            self._generations = {uuid: each.generation for uuid, each in agreed.contents.providers.items()}
        return Basis(self.claims.promises(), self._generations)

    async def decided(
        self, response: Response, claimant: Claimant | None, basis: Basis, last: bool
    ) -> Outcome:
        """Claim what a decision promised, if there is a claimant.

        Where somebody else was first it is to be decided again, unless this was the ``last`` time.
        """
        before = self.claims.living
        self.claims.decided(response, claimant)
        names = [promise.name for promise in response.promises] if claimant else []
        try:
            await self._book(names, basis.generations)
        except (ConflictError, CapacityError) as error:
            if not last:
                claimed, self.claims.living = self.claims.living, before
                if await self._says_else(basis):
                    return Outcome(again=True)
                self.claims.living = claimed
            if isinstance(error, CapacityError):
                return Outcome(f"; the ledger has less: {error}")
            return Outcome(f"; decided without the ledger: {error}")
        except LedgerError as error:
            return Outcome(f"; decided without the ledger: {error}")
        finally:
            self._trigger.by(trio.current_time() + _PAUSE)
        return Outcome()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read back what was claimed, then make up for what could not be written. Runs until cancelled.

        Has started once what there was is read back, unless that takes too long.
        """
        with trio.move_on_after(_FIRST):
            await self._round()
        task_status.started()
        while True:
            await self._trigger.begin()
            await self._round()
            if self._written or self.claims.living or not self._restored:
                self._trigger.by(trio.current_time() + _PAUSE)
            self._trigger.end()

    async def _round(self) -> None:
        try:
            if await self._read_back():
                await self._make_up()
            self._error = None
        except LedgerError as error:
            if str(error) != self._error and not isinstance(error, UnavailableError):  # those are logged
                _log.warning("claims are not in the ledger", error=str(error))
            self._error = str(error)
        except Exception as defect:  # of ours; decisions go on without
            told = f"{type(defect).__name__}: {defect}"
            if told != self._error:  # a round follows in a second
                _log.exception("claims are not in the ledger")
            self._error = told

    async def again(self) -> None:
        """Returns when a round that begins after this call has ended."""
        await self._trigger.again()

    async def _says_else(self, basis: Basis) -> bool:
        """Whether the ledger, looked at again in time, says something else than what was decided on."""
        with trio.move_on_after(PATIENCE) as waiting:
            await self._view.again()
        return not waiting.cancelled_caught and self.basis().generations != basis.generations

    async def _book(self, names: Collection[str], generations: Generations) -> None:
        """Write claims that were just made. Raises LedgerError."""
        agreed = self._view.agreed
        if not names:
            return
        if self._error is not None:
            raise UnavailableError(self._error)
        if agreed is None:  # it is not known what the ledger calls them
            if self._view.awaited:
                raise UnavailableError(self._ledger.error or "it does not say yet what there is")
            return
        entries = self._entries(agreed, names)
        changes = Counter(uuid for entry in entries.values() for uuid in entry.allocations)
        self._under_way.update(names)
        self._written |= {name: perhaps(entry) for name, entry in entries.items()}
        try:
            with trio.move_on_after(PATIENCE) as waiting:
                await self._ledger.do(lambda ledger: write(ledger, entries.values(), generations))
        finally:
            self._under_way.difference_update(names)
        if waiting.cancelled_caught:
            raise UnavailableError(f"no answer within {PATIENCE * 1000:.0f} ms")
        self._generations = {uuid: number + changes[uuid] for uuid, number in self._generations.items()}
        self._written |= entries

    async def _make_up(self) -> None:
        """Write what is missing, and release what has ended. Raises LedgerError."""
        agreed = self._view.agreed
        if agreed is None:
            return
        wanted = self._entries(agreed, self.claims.living.keys())
        entries = {
            name: entry
            for name, entry in wanted.items()
            if name not in self._under_way and not same(entry, self._written.get(name))
        }
        ended = self._written.keys() - self.claims.living.keys() - self._under_way
        if not entries and not ended:
            return
        released = [self._written[name].consumer for name in sorted(ended)]
        self._written |= {name: perhaps(entry) for name, entry in entries.items()}
        marked = await self._ledger.do(lambda ledger: make_up(ledger, entries.values(), released))
        for consumer in marked:
            _log.warning("claim exceeds what there is", consumer=consumer.name)
        for name in ended:
            self._written.pop(name, None)
        self._written |= entries
        self._view.heed()

    async def _read_back(self) -> bool:
        """Whether the claims that another daemon has left are known. Raises LedgerError."""
        cluster = self._cluster()
        if cluster is None and self._restored:
            self._restored, self._written, self.claims.living = False, {}, {}
        if cluster is None or self._restored:
            return self._restored
        kept = await self._ledger.do(lambda ledger: left(ledger, cluster))
        self._restored, now = True, trio.current_time()
        own = full_name(cluster, "")
        for entry in kept:
            name = entry.consumer.name.removeprefix(own)
            self._written[name] = entry
            lasts = max((entry.consumer.expires or 0.0) - time.time(), _GRACE)
            try:
                self.claims.restore(read(entry.consumer.promised or "", now + lasts, now))
            except DataError as error:  # it is released
                _log.warning("claim cannot be read", instance=name, error=str(error))
        if kept:
            _log.info("claims read back", number=len(kept))
        return True

    def _entries(self, agreed: Agreed, names: Collection[str]) -> dict[str, Entry]:
        """What the ledger should say of the claims on instances."""
        living = self.claims.living
        new = all(living[name].promise.new and name not in self._written for name in names)
        rows: dict[str, Instance] = {}
        if not new:
            rows = {row.name: row for row in agreed.said.cluster.instances if row.name in names}
        ends = time.time() - trio.current_time()
        return {
            name: entry_of(living[name], rows.get(name), agreed, ends + living[name].expires)
            for name in names
        }
